"""What these tests share: a folder in memory, since they sync thousands of times and need no real disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def ram(tmp_path: Path):
    """A folder of the test's own."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and os.access(shared, os.W_OK)):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="callboard-", dir=shared))
    yield folder
    shutil.rmtree(folder)
