"""The pytest plugin: a session, virtual time and seeded schedules as fixtures, and no real model calls.

pytest loads this module at its start wherever callboard is installed: it imports nothing of the engine.
What a fixture needs is loaded when a test asks for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from orchestrator import testing
from orchestrator.testing.model_block import ModelBlock

if TYPE_CHECKING:
    from orchestrator.runtime.session import Session

__all__ = [
    "callboard_session",
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_unconfigure",
    "seeded_backend",
    "virtual_backend",
]

_BACKENDS: Final = ("asyncio", *(("trio",) if find_spec("trio") is not None else ()))
_DEFAULT_SEEDS: Final = 5
_block = pytest.StashKey[ModelBlock]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line."""
    group = parser.getgroup("callboard")
    group.addoption(
        "--allow-model-calls",
        action="store_true",
        help="let tests call real models; without it every model request is refused",
    )
    group.addoption(
        "--callboard-seeds",
        type=int,
        default=_DEFAULT_SEEDS,
        metavar="N",
        help="schedules for each test that uses seeded_backend, on each backend (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Forbid model calls before anything is collected."""
    if not config.getoption("allow_model_calls"):
        config.stash[_block] = ModelBlock()
        config.stash[_block].on()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the process as it was."""
    block = config.stash.get(_block, None)
    if block is not None:
        block.off()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that uses ``seeded_backend`` its schedules."""
    if "seeded_backend" in metafunc.fixturenames:
        seeds = range(metafunc.config.getoption("callboard_seeds"))
        schedules = [(backend, seed) for backend in _BACKENDS for seed in seeds]
        ids = [f"{backend}-{seed}" for backend, seed in schedules]
        metafunc.parametrize("seeded_backend", schedules, ids=ids, indirect=True)


@pytest.fixture(params=_BACKENDS)
def virtual_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Each backend under a fresh virtual clock; let the module's ``anyio_backend`` return it."""
    return testing.virtual_clock(request.param)


@pytest.fixture
def seeded_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Each backend under each seeded schedule; let the module's ``anyio_backend`` return it."""
    backend, seed = request.param
    return testing.seeded_loop(seed, backend)


@pytest.fixture
async def callboard_session(anyio_backend: Any, tmp_path: Path) -> AsyncIterator[Session]:
    """An open session whose files are in ``tmp_path``; when the test is over its runs have kept the laws."""
    async with testing.LawfulSession(folder=tmp_path / "runs") as session:
        yield session
