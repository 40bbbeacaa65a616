"""The planner over todo files: what is open, in which order, what nobody knows, and plans with faults."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from orchestrator import Session, load_flow
from orchestrator.cli.commands import invoke

FLOW = Path(__file__).parents[2] / "docs" / "examples" / "planner" / "flow.yaml"
TODO = """# Things
- [x] repo: make it
- [ ] code: write it (after repo)
- [ ] tests: test it (after code)
  * [ ] Write the docs (after code, style)
"""
AGENDA = """# 1 done, 3 open

## Step 1

- code: write it (todo.md:3)

## Step 2

- tests: test it (todo.md:4)
- write_the_docs: Write the docs (todo.md:5)

## Unknown

- todo.md:5: write_the_docs waits for style, which is not on the list
"""


async def planned(todo: Path):
    """Run the flow, and read its agenda while the run's files are there."""
    async with Session() as session:
        result = await session.flow(load_flow(FLOW), args={"todo": str(todo)})
        left = result["agenda"].artifacts if "agenda" in result.nodes else ()
        agenda = [await anyio.Path(one.place).read_text(encoding="utf-8") for one in left]
        return result, agenda


@pytest.mark.anyio
@pytest.mark.parametrize("whole", [True, False])
async def test_a_list_becomes_steps(tmp_path: Path, whole: bool):
    """What is done is left out, what waits comes later, what is not on the list is said."""
    (tmp_path / "todo.md").write_text(TODO, encoding="utf-8")
    result, agenda = await planned(tmp_path if whole else tmp_path / "todo.md")
    assert result.reason == "completed", result.detail
    assert set(result.completed_operations) == {"planner", "code", "tests", "write_the_docs", "agenda"}
    assert agenda == [AGENDA]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- [ ] a: x (after b)\n- [ ] b: y (after a)\n", "tasks wait for each other"),
        ("- [ ] a: x\n- [ ] a: y\n", "todo.md:2: a is at todo.md:1 already; rename one"),
    ],
)
async def test_a_list_with_faults(tmp_path: Path, text: str, says: str):
    """A circle, and a name that is there twice, are named; nothing of the plan runs."""
    (tmp_path / "todo.md").write_text(text, encoding="utf-8")
    result, agenda = await planned(tmp_path)
    assert (result.reason, agenda) == ("failed", [])
    assert says in str(result["planner"].error)


@pytest.mark.anyio
async def test_no_list(tmp_path: Path):
    """A folder without a list is an error that says what to do; a list without items is an agenda."""
    result, _ = await planned(tmp_path)
    assert "there is no todo file; name a file, or a folder with" in str(result["planner"].error)
    (tmp_path / "todo.md").write_text("nothing to do\n", encoding="utf-8")
    result, agenda = await planned(tmp_path)
    assert agenda == ["# 0 done, 0 open\n"]


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """check, run and rehearse."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "todo.md").write_text(TODO, encoding="utf-8")
    assert invoke(["check", str(FLOW)]) == 0
    assert invoke(["run", str(FLOW), "--arg", "todo=todo.md"]) == 0
    assert invoke(["rehearse", str(FLOW), "--seeds", "20", "--arg", "todo=todo.md"]) == 0
