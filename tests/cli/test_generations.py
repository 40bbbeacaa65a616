"""What a node was in each generation: story and try tell all of them, in order (journal.md, retry)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import flow

CAST = """

@role(emits=(SpawnRequest,))
async def grows_then_needs(turn):
    number = sum(os.path.exists(f"go{n}") for n in (1, 2))
    child = SpawnRequest(assignee="echo", parameters={"value": number}, key="child", independent=True)
    await turn.emit(child)
    if number < 2:
        raise FileNotFoundError(f"go{number + 1}")
    return number
"""
NODES = """
  first: {role: echo, with: {value: 7}}
  grower: {role: grows_then_needs, after: [first], instruction: 'go on from ${first}'}
  last: {role: echo, after: [grower], with: {value: '${grower}'}}
"""


def tried_again(cli, folder: Path) -> None:
    """A run whose node fails twice and completes in its third generation."""
    flow(folder, NODES, "budget: {spawns: 10}")
    cast = folder / "cast.py"
    cast.write_text(cast.read_text(encoding="utf-8") + CAST, encoding="utf-8")
    code, _, err = cli("run", "--quiet")
    assert code == 1, err
    (folder / "go1").touch()
    assert cli("retry", "last", "--yes", "--quiet")[0] == 1
    (folder / "go2").touch()
    assert cli("retry", "last", "--yes", "--quiet")[0] == 0


def test_story_tells_every_generation_in_order(cli, tmp_path: Path):
    """story: each opening with what the node was given and what came of it, failures and all."""
    tried_again(cli, tmp_path)
    code, out, _ = cli("story", "last", "grower")
    assert code == 0
    places = [
        out.index(text, out.index("---"))
        for text in (
            "--- generation 1: failed", "FileNotFoundError: go1",
            "--- generation 2: failed", "FileNotFoundError: go2",
            "--- generation 3: completed", "gave\n  2\n",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert out.count("instruction\n  go on from 7\n") == 3
    told = json.loads(cli("story", "last", "grower", "--json")[1])
    assert [(one["generation"], one["status"]) for one in told["generations"]] == [
        (1, "failed"),
        (2, "failed"),
        (3, "completed"),
    ]
    assert [one["error"] and one["error"]["message"] for one in told["generations"]] == ["go1", "go2", None]
    assert (told["status"], told["value"]) == ("completed", 2)
    told = json.loads(cli("story", "last", "last", "--json")[1])
    assert [(one["status"], one["given"] is None) for one in told["generations"]] == [
        ("skipped", True),
        ("skipped", True),
        ("completed", False),
    ]


def test_story_of_a_node_that_was_dropped(cli, tmp_path: Path):
    """A grown node goes with the attempt that grew it; what it was given and gave is told all the same."""
    tried_again(cli, tmp_path)
    _, out, _ = cli("story", "last", "grower.echo-1")
    assert "NodeDropped" in out
    assert "dropped since" in out
    assert '"value": 0' in out
    assert cli("story", "last", "grower.echo-9")[0] == 2


def test_try_shows_every_generation_and_runs_the_last(cli, tmp_path: Path):
    """try: what is recorded of each generation, then what comes of the last one now."""
    tried_again(cli, tmp_path)
    code, out, _ = cli("try", "last", "grower")
    lines = [line for line in out.splitlines() if " emitted " not in line]
    assert lines == [
        "recorded 1 failed: FileNotFoundError: go1",
        "recorded 2 failed: FileNotFoundError: go2",
        "recorded 3 succeeded: 2",
        "again      succeeded: 2",
    ]
    # each generation has what was said in it, once
    assert [line.strip()[-12:] for line in out.splitlines() if " emitted " in line] == [
        f'{{"value":{number}}}}}' for number in (0, 1, 2, 2)
    ]
    assert code == 0
    assert cli("try", "last", "grower", "--as-test", tmp_path / "test_grower.py")[0] == 0
    assert "2" in (tmp_path / "test_grower.py").read_text(encoding="utf-8")
