"""What the journal's tests share."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def ram(tmp_path: Path):
    """A folder in memory where there is one: for tests that sync hundreds of times and need no real disk."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and os.access(shared, os.W_OK)):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="callboard-", dir=shared))
    yield folder
    shutil.rmtree(folder)
