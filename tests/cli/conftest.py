"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.commands import invoke


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Call a command in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CALLBOARD_JOURNAL", raising=False)

    def run(*words: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = invoke([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
