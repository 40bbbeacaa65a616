"""How a process that never saw a run finds its functions again, or says what is gone or has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import EdgeCondition, OperationGraphBuilder, Session, role
from orchestrator.errors import OperationError
from orchestrator.flows.conditions import Negated
from orchestrator.testing.loops import run_virtual
from tests.recovery import canon
from tests.recovery.canon import MoreThan, Summary
from tests.recovery.crashing import Point, driven, found

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

FLOW = """
from dataclasses import dataclass
from typing import Any

import anyio
import pydantic

from orchestrator import EdgeCondition, OperationGraphBuilder, Session, role

class Count(pydantic.BaseModel):
    count: int
    unit: str = "pieces"

@dataclass(frozen=True)
class More(EdgeCondition):
    limit: int

    def apply(self, result: object, context: Any) -> bool:
        return result["count"] > self.limit

class Once(EdgeCondition):
    def __init__(self, *, word: str) -> None:
        self.text = word.upper()

    def apply(self, result: object, context: Any) -> bool:
        return self.text == "YES"

def total(folded: Any, update: Any) -> Any:
    return folded + update

@role()
async def first(turn: Any) -> Any:
    await turn.ask("go on?", key="go")
    turn.write("sum", 1)
    return {"count": 2}

@role()
async def second(turn: Any) -> Any:
    turn.write("sum", 2)
    return dict(turn.inputs)  # VERSION 1

async def begin(journal: str) -> None:
    graph = OperationGraphBuilder()
    graph.add_operation(first, "a", depends_on=[], returns=Count)
    for name, when in (("b", More(1)), ("c", Once(word="yes")), ("d", More(5))):
        graph.add_operation(second, name, depends_on=[])
        graph.add_edge("a", name, when)
    async with Session(journal=journal) as session:
        result = await session.flow(graph, reducers={"sum": total})
        assert result.reason == "awaiting_answer", result

if __name__ == "__main__":
    import sys
    anyio.run(begin, sys.argv[1])
"""

COUNTED = {"count": 2, "unit": "pieces"}
RESUME = """
import sys
import anyio
from orchestrator import Session

async def main() -> None:
    async with Session(journal=sys.argv[1]) as session:
        run = await session.resume(answers={"a": "yes"}, new_definition="new" in sys.argv)
        result = await run.wait()
        print(result.reason, {name: str(node.status) for name, node in result.nodes.items()})
        print({name: node.value for name, node in result.nodes.items()}, dict(result.final_context))

anyio.run(main)
"""


def python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that knows the package and nothing of these tests."""
    here = str(Path(__file__).resolve().parents[2])
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": here},
    )


@pytest.fixture
def asked(ram: Path) -> Path:
    """A folder with a run that another interpreter began, and the code of its roles."""
    (ram / "flow.py").write_text(FLOW)
    began = python("flow.py", "j.db", cwd=ram)
    assert began.returncode == 0, began.stderr
    return ram


def test_everything_is_found_again(asked: Path):
    """SERDE 77: roles, a reducer, a model of a value, conditions with their fields, in a fresh process."""
    done = python("-c", RESUME, "j.db", cwd=asked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "completed {'a': 'completed', 'b': 'completed', 'c': 'completed', 'd': 'skipped'}",
        f"{{'a': {COUNTED}, 'b': {{'a': {COUNTED}}}, 'c': {{'a': {COUNTED}}}, 'd': None}} {{'sum': 5}}",
    ]


def test_code_that_has_changed_or_is_gone(asked: Path):
    """Refused by name, with the word that allows a change; nothing was begun, so allowed it goes on."""
    flow = asked / "flow.py"
    changed = FLOW.replace("return dict(turn.inputs)  # VERSION 1", 'return "new"')
    allowed = "second in FILE has changed since the run began; resume with --new-definition"
    for code, words, more in (
        (changed, allowed.replace("FILE", str(flow.resolve())), ()),
        (FLOW.replace("second", "other"), "has no second any more", ("new",)),
        (None, "does not exist any more", ("new",)),
    ):
        flow.unlink()
        if code is not None:
            flow.write_text(code)
        done = python("-c", RESUME, "j.db", *more, cwd=asked)
        assert done.returncode
        assert words in done.stderr
        flow.touch()
    flow.write_text(changed)
    done = python("-c", RESUME, "j.db", "new", cwd=asked)
    assert done.returncode == 0, done.stderr
    assert "'b': 'new'" in done.stdout


# --- what cannot be found again is refused before anything runs --------------------------------------


class Nested(EdgeCondition):
    """Holds another condition in a field of its own."""

    def __init__(self, inner: EdgeCondition) -> None:
        self.inner = inner

    def apply(self, result: object, context: Any) -> bool:
        return self.inner.apply(result, context)


def refused(ram: Path, made: OperationGraphBuilder, words: str, **options: Any) -> None:
    """Refused while durable, with no run in the journal; in memory the same graph runs."""

    async def tries() -> None:
        async with Session(journal=ram / "j.db", folder=ram) as session:
            with pytest.raises(OperationError, match=words):
                await session.flow(made, **options)
        async with Session(folder=ram) as session:
            assert (await session.flow(made, **options)).reason == "completed"

    run_virtual(tries)
    assert canon.begun(ram / "j.db") == []


@role()
async def anything(turn: Any) -> Any:
    """Completes."""
    await anyio.lowlevel.checkpoint()
    return {"count": 3}


def test_a_role_made_inside_a_function(ram: Path):
    """A closure is found by nobody else."""

    @role()
    async def closure(turn: Any) -> str:
        return turn.node

    graph = OperationGraphBuilder()
    graph.add_operation(closure, "a")
    refused(ram, graph, "closure' cannot be found again")


def test_a_lambda_as_reducer(ram: Path):
    """Nor is a lambda."""
    graph = OperationGraphBuilder()
    graph.add_operation(anything, "a")
    refused(ram, graph, "lambda>' cannot be found again", reducers={"x": lambda folded, _next: folded})


@pytest.mark.parametrize("inner", [MoreThan("count", 1), Nested(MoreThan("count", 1))])
def test_a_condition_that_holds_an_object(ram: Path, inner: EdgeCondition):
    """SERDE 77: it would come back as a mapping, and fail its target after a crash only."""
    graph = OperationGraphBuilder()
    graph.add_operation(anything, "a", depends_on=[])
    graph.add_operation(anything, "b", depends_on=[])
    graph.add_edge("a", "b", Nested(inner))
    refused(ram, graph, "fields are JSON")


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_the_opposite_of_a_condition(ram: Path, times: int):
    """The opposite of a condition, and its opposite, come back as what they were."""
    condition: EdgeCondition = MoreThan("count", 0)
    for _ in range(times):
        condition = Negated(condition)

    async def drive(folder: Path) -> None:
        canon.Told.path = folder / "told"
        async with Session(canon.ROLES, journal=folder / "j.db", folder=folder) as session:
            if canon.begun(folder / "j.db"):
                run = await session.resume()
            else:
                graph = OperationGraphBuilder()
                graph.add_operation(canon.join, "j0", depends_on=[])
                graph.add_operation(canon.plain, "b", depends_on=[])
                graph.add_edge("j0", "b", condition)
                run = await session.start(graph, context={"found": []})
            await run.wait()

    assert driven(ram, "asyncio", Point(2, "before"), drive)
    assert not driven(ram, "asyncio", None, drive)
    taken = found(ram).state.nodes["b"].status
    assert taken == ("skipped" if times % 2 == 0 else "completed")
    assert Summary(count=0, names=[]).count == 0
