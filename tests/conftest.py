"""What every test shares: both event loops, and Hypothesis profiles."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Wall time says nothing about our code on a busy machine: no deadline. In CI the examples are the same each
# time, so that a red build means a change and not a lucky draw; at a desk they are new each time.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# What a person has set up for themselves is no part of a test, nor of the processes that it starts.
os.environ["CALLBOARD_CONFIG"] = str(Path(tempfile.gettempdir()) / "callboard-nobody")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both backends."""
    return request.param


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: for tests that sync thousands of times and need no real disk."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and os.access(shared, os.W_OK)):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="callboard-", dir=shared))
    yield folder
    shutil.rmtree(folder)
