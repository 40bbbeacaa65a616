"""What a user waits for before anything happens: whole processes, medians in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.benchmark

_ROUNDS = 9
_TYPER = "import typer\napp = typer.Typer()\n@app.command()\ndef main() -> None: ...\napp()"


def _seconds(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _ratio(ours: tuple[str, ...], theirs: tuple[str, ...]) -> float:
    pairs = [(_seconds(*ours), _seconds(*theirs)) for _ in range(_ROUNDS + 1)][1:]
    return statistics.median(mine for mine, _ in pairs) / statistics.median(other for _, other in pairs)


def test_importing_costs_at_most_one_and_a_half_times_its_libraries() -> None:
    """``import orchestrator`` against anyio, pydantic, msgspec and blinker."""
    ratio = _ratio(
        (sys.executable, "-c", "import orchestrator"),
        (sys.executable, "-c", "import anyio, pydantic, msgspec, blinker"),
    )
    print(f"\nimport orchestrator: {ratio:.2f}x")
    assert ratio <= 1.5


def test_help_costs_at_most_two_and_a_half_empty_programs() -> None:
    """``callboard --help`` against an empty typer program's."""
    callboard = str(Path(sys.executable).with_name("callboard"))
    ratio = _ratio((callboard, "--help"), (sys.executable, "-c", _TYPER, "--help"))
    print(f"\ncallboard --help: {ratio:.2f}x")
    assert ratio <= 2.5
