"""RESUME: the real command killed with -9 after an event, and resumed: the same run, nothing twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator.journal.reading import open_journal
from orchestrator.runtime.recorded import read_run
from tests.cli.program import Program, call

CAST = """
import anyio
from orchestrator import SpawnRequest, Verdict, role

def note(turn):
    with open("calls", "a") as file:
        file.write(turn.node + "\\n")

@role(emits=(SpawnRequest,))
async def scout(turn):
    note(turn)
    for n in range(3):
        await turn.emit(SpawnRequest(assignee="reader", parameters={"n": n}, before="successors"))
    await turn.emit(SpawnRequest(assignee="reader", parameters={"n": 9}))  # one more than the budget allows
    return "scouted"

@role()
async def reader(turn):
    note(turn)
    await anyio.sleep(0.005)
    return turn.parameters["n"] * 10

@role(emits=(Verdict,))
async def judge(turn):
    note(turn)
    return Verdict(verdict=turn.parameters["verdict"], rationale="as told")

@role()
async def last(turn):
    note(turn)
    return sorted(str(value) for value in turn.inputs.values())
"""
FLOW = """
version: 1
name: canonical
cast: [cast.py]
budget: {spawns: 3}
nodes:
  scan: {role: scout}
  good: {role: judge, gate: true, after: [scan], with: {verdict: APPROVE}}
  bad: {role: judge, gate: true, after: [scan], with: {verdict: REJECT}}
  open: {role: last, after: [scan, good]}
  shut: {role: last, after: [bad]}
"""
CONCURRENCY = 5
#: kills, and the tests among which they are shared out
POINTS, PARTS = 100, 20


def prepare(folder: Path) -> None:
    folder.mkdir()
    (folder / "cast.py").write_text(CAST, encoding="utf-8")
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")


def kill(command: str, folder: Path, events: int) -> None:
    """Run a command and kill it once it has printed so many events; it may be quicker than that."""
    words = ("run",) if command == "run" else (command, "last")
    with Program(*words, "--json", cwd=folder, CALLBOARD_JOURNAL=journal_of(folder)) as program:
        for _ in range(events):
            program.wait_for('"v":1')
        program.process.kill()
        program.end()


def journal_of(folder: Path) -> str:
    """One journal for all points of a part: a killed run must not harm its neighbours."""
    return str(folder.parent / "journal.db")


def stopped(folder: Path) -> bool:
    """Whether the newest run came to its end before it was killed."""
    with open_journal(journal_of(folder)) as journal:
        return journal.runs()[-1].stopped is not None


def outcome(folder: Path) -> dict[str, Any]:
    """What must be equal, however often the run was killed."""
    with open_journal(journal_of(folder)) as journal:
        result = read_run(journal, journal.runs()[-1].run).result()
    return {
        "reason": result.reason,
        "nodes": {
            name: (node.status, node.value, node.spawned_by, node.vetoed_by)
            for name, node in result.nodes.items()
        },
        "refused": [(one.emitter_id, one.reason) for one in result.dropped_spawns],
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any]]:
    """How many events the run has that nobody kills, and what comes of it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "whole"
    prepare(folder)
    done = call("run", "--json", cwd=folder, CALLBOARD_JOURNAL=journal_of(folder))
    assert done.returncode == 3, done.stderr
    return len(done.stdout.splitlines()) - 1, outcome(folder)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_after_any_event(tmp_path: Path, whole: tuple[int, dict[str, Any]], part: int):
    """A hundred points in all: after each event in turn, every second one killed again while it resumes."""
    events, expected = whole
    for number in range(part, POINTS, PARTS):
        point, twice = number * (events - 1) // POINTS + 1, number % 2 == 1
        folder = tmp_path / f"point{number}"
        prepare(folder)
        kill("run", folder, point)
        if twice and not stopped(folder):
            kill("resume", folder, 2)
        if not stopped(folder):
            done = call("resume", "last", "--quiet", cwd=folder, CALLBOARD_JOURNAL=journal_of(folder))
            assert done.returncode == 3, (point, done.stderr)
        assert outcome(folder) == expected, point
        calls = Counter((folder / "calls").read_text(encoding="utf-8").split())
        ran = {name for name, node in expected["nodes"].items() if node[0] == "completed"}
        assert set(calls) == ran, (point, calls)
        assert sum(calls.values()) - len(calls) <= (1 + twice) * CONCURRENCY, (point, calls)
    done = call("doctor", "--replay", cwd=tmp_path, CALLBOARD_JOURNAL=journal_of(folder))
    assert done.returncode == 0, done.stdout
