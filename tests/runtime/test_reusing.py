"""Reuse: a node whose whole input equals that of a completed node takes its outcome; nothing else does."""

from collections.abc import Iterator

import pytest

from orchestrator import (
    Finding,
    JournalError,
    OperationError,
    OperationGraphBuilder,
    Session,
    SpawnRequest,
    Turn,
    Verdict,
    role,
)

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _calls() -> Iterator[None]:
    CALLS.clear()
    yield
    CALLS.clear()


@role(emits=(SpawnRequest,))
async def scout(turn: Turn) -> dict:
    CALLS.append("scout")
    for number in range(3):
        request = SpawnRequest(assignee="inspector", parameters={"number": number}, before="successors")
        assert await turn.emit(request)
    return {"count": 3}


@role(emits=(Finding,))
async def inspector(turn: Turn) -> list[Finding]:
    CALLS.append(f"inspector {turn.parameters['number']}")
    return [Finding(description=str(turn.parameters["number"]))]


@role(emits=(Verdict,))
async def critic(turn: Turn) -> Verdict:
    CALLS.append("critic")
    return Verdict(verdict="APPROVE", rationale=f"{len(turn.emissions(Finding))} findings")


@role
async def writer(turn: Turn) -> dict:
    CALLS.append(f"writer {turn.instruction}")
    turn.write("written", turn.instruction)
    return {"text": turn.instruction}


@role
async def last(turn: Turn) -> dict:
    CALLS.append("last")
    return {"read": turn.inputs["writer"], "context": dict(turn.context)}


@role
async def flaky(turn: Turn) -> None:
    CALLS.append(turn.node)
    raise ValueError("no")


def flow(instruction: str, *, fresh: bool = False) -> OperationGraphBuilder:
    graph = OperationGraphBuilder("reused")
    graph.add_operation(scout, depends_on=[])
    graph.add_operation(critic, depends_on=["scout"], gate=True)
    graph.add_operation(writer, depends_on=["critic"], instruction=instruction, fresh=fresh)
    graph.add_operation(last, depends_on=["writer"])
    return graph


@pytest.fixture
async def session(tmp_path):
    async with Session(roles=[inspector], journal=tmp_path / "journal.db", folder=tmp_path) as opened:
        yield opened


async def test_an_equal_run_runs_nothing(session):
    """Every node is restored: grown ones, the gate's verdict, emissions and context writes included."""
    first = await session.flow(flow("one"))
    CALLS.clear()
    again = await session.flow(flow("one"), reuse=first.run)
    assert CALLS == []
    assert again.reason == "completed"
    assert all(node.restored for node in again.nodes.values())
    assert {name: node.value for name, node in again.nodes.items()} == {
        name: node.value for name, node in first.nodes.items()
    }
    assert again.spawned == first.spawned
    assert again.final_context == first.final_context == {"written": "one"}


async def test_one_changed_instruction_runs_that_node_and_what_follows(session):
    """journal.md: exactly that node and what follows from it."""
    first = await session.flow(flow("one"))
    CALLS.clear()
    changed = await session.flow(flow("two"), reuse=first.run)
    assert CALLS == ["writer two", "last"]
    assert changed["last"].value == {"read": {"text": "two"}, "context": {"written": "two"}}
    assert [name for name, node in changed.nodes.items() if not node.restored] == ["writer", "last"]


async def test_a_fresh_node_runs(session):
    """``fresh`` is the author's word that nothing old will do; what sees an equal value is reused."""
    first = await session.flow(flow("one"))
    CALLS.clear()
    await session.flow(flow("one", fresh=True), reuse=first.run)
    assert CALLS == ["writer one"]


async def test_a_failure_runs_again(session):
    """Failures are not reused."""
    graph = OperationGraphBuilder("failing")
    graph.add_operation(flaky, depends_on=[])
    first = await session.flow(graph)
    await session.flow(graph, reuse=first.run)
    assert CALLS == ["flaky", "flaky"]


async def test_what_cannot_be_reused_is_an_error_before_anything_runs(session):
    """No such run, and a session that keeps nothing."""
    with pytest.raises(JournalError):
        await session.flow(flow("one"), reuse="nothing")
    async with Session(roles=[inspector]) as memory:
        with pytest.raises(OperationError, match="needs a journal on disk"):
            await memory.flow(flow("one"), reuse="last")
    assert CALLS == []
