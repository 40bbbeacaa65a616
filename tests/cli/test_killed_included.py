"""Included flows under kill -9: the child run goes on with its parent and is never started twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from orchestrator.journal.reading import open_journal
from orchestrator.runtime.recorded import read_run
from tests.cli.program import call

CAST = """
import os, signal
from orchestrator import role

@role()
async def step(turn):
    with open("calls", "a") as file:
        file.write(turn.node + "\\n")
    if turn.node == os.environ.get("DIE_AT") and not os.path.exists("died"):
        open("died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return turn.node
"""
PARENT = """
version: 1
name: parent
cast: [cast.py]
nodes:
  first: {role: step}
  inner: {flow: inner.yaml, after: [first]}
  last: {role: step, after: [inner]}
outputs: {said: "${inner.said}"}
"""
INNER = """
version: 1
name: inner
cast: [cast.py]
nodes:
  one: {role: step}
  two: {role: step, after: [one]}
  deep: {flow: deep.yaml, after: [two]}
outputs: {said: "${deep.said}"}
"""
DEEP = """
version: 1
name: deep
cast: [cast.py]
nodes:
  three: {role: step}
outputs: {said: "${three}"}
"""


@pytest.mark.parametrize("place", ["first", "one", "two", "three", "last"])
def test_killed_at_any_depth(tmp_path: Path, place: str):
    """RESUME: nodes that had settled do not run again, each child exists once, the outcome is the same."""
    for name, text in {
        "cast.py": CAST,
        "parent.yaml": PARENT,
        "inner.yaml": INNER,
        "deep.yaml": DEEP,
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    journal = str(tmp_path / "journal.db")
    killed = call("run", "parent.yaml", "--quiet", cwd=tmp_path, CALLBOARD_JOURNAL=journal, DIE_AT=place)
    assert killed.returncode == -9, killed.stderr
    done = call("resume", "last", "--quiet", cwd=tmp_path, CALLBOARD_JOURNAL=journal)
    assert done.returncode == 0, done.stderr
    calls = Counter((tmp_path / "calls").read_text(encoding="utf-8").split())
    assert calls == {**dict.fromkeys(("first", "one", "two", "three", "last"), 1), place: 2}
    with open_journal(journal) as reader:
        root = reader.find_run("last")
        runs = [info.run for info in reader.runs()]
        assert sorted(runs) == [root, f"{root}.inner", f"{root}.inner.deep"]
        assert read_run(reader, root).result().outputs == {"said": "three"}
    for run in runs:
        replayed = call("doctor", run, "--replay", cwd=tmp_path, CALLBOARD_JOURNAL=journal)
        assert replayed.returncode == 0, replayed.stdout
    shown = call("show", root, cwd=tmp_path, CALLBOARD_JOURNAL=journal).stdout
    assert f"run {root}.inner" in shown
    shown = call("show", f"{root}.inner", cwd=tmp_path, CALLBOARD_JOURNAL=journal).stdout
    assert f"part of   {root}, node inner" in shown


PLANNED = """
version: 1
name: planned
cast: [planners.py]
prompt: build it
max_nodes: 3
outputs: {said: "${nodes['two']}"}
"""
PLANNERS = (
    CAST
    + """
from orchestrator import TaskAssignment

@role(emits=(TaskAssignment,))
async def planner(turn):
    await step.fn(turn)
    names = ("one", "two")
    return [
        TaskAssignment(name=name, task=name, assignee="step", depends_on=[*names[:at]])
        for at, name in enumerate(names)
    ]
"""
)


@pytest.mark.parametrize("place", ["planner", "one", "two"])
def test_a_planner_is_not_called_again(tmp_path: Path, place: str):
    """RESUME: the plan is on record as soon as the planner has settled."""
    for name, text in {"planners.py": PLANNERS, "planned.yaml": PLANNED}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    journal = str(tmp_path / "journal.db")
    killed = call("run", "planned.yaml", "--quiet", cwd=tmp_path, CALLBOARD_JOURNAL=journal, DIE_AT=place)
    assert killed.returncode == -9, killed.stderr
    done = call("resume", "last", "--quiet", cwd=tmp_path, CALLBOARD_JOURNAL=journal)
    assert done.returncode == 0, done.stderr
    calls = Counter((tmp_path / "calls").read_text(encoding="utf-8").split())
    assert calls == {**dict.fromkeys(("planner", "one", "two"), 1), place: 2}
    replayed = call("doctor", "last", "--replay", cwd=tmp_path, CALLBOARD_JOURNAL=journal)
    assert replayed.returncode == 0, replayed.stdout
