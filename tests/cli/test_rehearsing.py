"""``callboard rehearse``, as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import call, flow

FAULTY = (
    "  a: {role: echo, returns: {level: int}}\n"
    "  b: {role: echo, after: [a], when: a.level > 3 and a.level < 3}\n"
    "  g: {role: judge, after: [a], gate: true}\n"
    "  d: {role: grows, after: [g]}"
)
SOUND = "  a: {role: boom}\n  g: {role: judge, after: [a], gate: true}\n  d: {role: grows, after: [g]}"
HEAD = "budget: {spawns: 5, depth: 2, wall_clock: 5m}"


def test_something_is_found(tmp_path: Path):
    """Exit code 1; findings, budgets, and the same words again."""
    path = flow(tmp_path, FAULTY, HEAD)
    done = call("rehearse", path, "--seeds", "40", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "tried: 40 rehearsals, seeds 0 to 39; no role was called"
    assert "  laws     held in every run" in lines
    assert "  b never ran" in lines
    assert "  never true: b when a.level > 3 and a.level < 3 (judged in " in done.stdout
    assert "  spawns 5: " in done.stdout
    assert call("rehearse", path, "--seeds", "40", cwd=tmp_path).stdout == done.stdout


def test_nothing_is_found(tmp_path: Path):
    """Exit code 0, and no role of the cast has said anything."""
    flow(tmp_path, SOUND, HEAD)
    done = call("rehearse", tmp_path, "--seeds", "40", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("\nnothing found\n")
    assert done.stderr == ""


def test_json_and_a_seed_alone(tmp_path: Path):
    """--json: one object; --seed: one rehearsal, node by node, the same each time."""
    path = flow(tmp_path, FAULTY, HEAD)
    done = call("rehearse", path, "--seeds", "30", "--seed", "100", "--json", cwd=tmp_path)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["seeds"] == {"first": 100, "count": 30}
    assert told["laws_held"] is True
    assert told["nodes"]["count"] >= told["planned_nodes"] == 4
    assert {one["kind"] for one in told["findings"]} == {"never_ran", "never_true"}
    assert {one["name"] for one in told["budgets"]} >= {"spawns", "depth", "concurrency", "wall_clock"}
    grown = told["nodes"]["seed"]
    alone = call("rehearse", path, "--seed", str(grown), "--json", cwd=tmp_path)
    run = json.loads(alone.stdout)["run"]
    assert len(run["nodes"]) == told["nodes"]["count"]
    shown = call("rehearse", path, "--seed", str(grown), cwd=tmp_path)
    assert all(f"  {name}" in shown.stdout for name in run["nodes"])
    assert shown.returncode == alone.returncode == 0


def test_documents_and_arguments_with_errors(tmp_path: Path):
    """Exit code 2, with the place; an argument that is not there is named."""
    path = flow(tmp_path, "  a: {role: nobody}")
    done = call("rehearse", path, cwd=tmp_path)
    assert done.returncode == 2
    assert "flow.yaml:6:13" in done.stderr
    path = flow(tmp_path, "  a: {role: echo}")
    done = call("rehearse", path, "--arg", "x=1", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no argument 'x'" in done.stderr
    assert call("rehearse", path, "--seeds", "0", cwd=tmp_path).returncode == 2
