"""Fork: a new run shares a history up to a record, changes one thing, and goes on."""

from collections.abc import Iterator

import pytest

from orchestrator import OperationError, OperationGraphBuilder, Session, Turn, Verdict, role
from orchestrator.core.laws import check, check_facts

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def _calls() -> Iterator[None]:
    CALLS.clear()
    yield
    CALLS.clear()


@role
async def work(turn: Turn) -> int:
    CALLS.append(turn.node)
    return 1


@role(emits=(Verdict,))
async def critic(turn: Turn) -> Verdict:
    CALLS.append(turn.node)
    return Verdict(verdict="APPROVE" if turn.inputs["work"] > 1 else "REJECT", rationale="counted")


@role
async def publish(turn: Turn) -> str:
    CALLS.append(turn.node)
    return turn.inputs["critic"]["verdict"]


def flow() -> OperationGraphBuilder:
    graph = OperationGraphBuilder("forked")
    graph.add_operation(work, depends_on=[])
    graph.add_operation(critic, depends_on=["work"], gate=True)
    graph.add_operation(publish, depends_on=["critic"])
    return graph


@pytest.fixture(params=["memory", "disk"])
async def session(request, tmp_path):
    journal = None if request.param == "memory" else tmp_path / "journal.db"
    async with Session(journal=journal, folder=tmp_path) as opened:
        yield opened


async def forked(session, origin, **change):
    run = await session.fork(origin.run, **change)
    result = await run.wait()
    assert check(run.engine.state) == []
    return run, result


async def test_a_person_overrules_a_rejection(session):
    """kernel.md 5: going on against a REJECT is a fork that names the override; the origin stays."""
    origin = await session.flow(flow())
    assert origin.reason == "gate_rejected"
    assert origin["publish"].status == "vetoed"
    run, result = await forked(session, origin, answers={"critic": "APPROVE"}, by="Ada", because="it is fine")
    assert result.reason == "completed"
    assert result.run != origin.run
    assert result["publish"].value == "REJECT"  # the gate keeps the value that it had; the verdict is Ada's
    assert CALLS == ["work", "critic", "publish"]
    events = [event async for event in run.events(kinds=["RunStarted", "GateApproved"])]
    assert events[0].data["origin"] == origin.run
    assert events[0].data["change"] == "critic is answered APPROVE"
    assert (events[-1].data["by"], events[-1].data["because"]) == ("Ada", "it is fine")


async def test_another_value_for_one_node(session):
    """``--value NODE=JSON``: the node does not run, what follows from it does."""
    origin = await session.flow(flow())
    _, result = await forked(session, origin, values={"work": 2})
    assert result.reason == "completed"
    assert result["work"].restored
    assert CALLS == ["work", "critic", "critic", "publish"]


async def test_from_a_node_without_a_change(session):
    """``--at NODE``: the node itself, and what follows, run again."""
    origin = await session.flow(flow())
    run, result = await forked(session, origin, at="critic")
    assert result.reason == "gate_rejected"
    assert CALLS == ["work", "critic", "critic"]
    assert result["critic"].attempts == 2
    assert check_facts(run.engine.kernel.journal.read(0)) == []


async def test_what_is_not_there(session):
    """An unknown node, a node that never settled, a number before the first record."""
    origin = await session.flow(flow())
    with pytest.raises(OperationError, match="no node 'nobody'"):
        await session.fork(origin.run, values={"nobody": 1})
    with pytest.raises(OperationError, match="has not settled"):
        await session.fork(origin.run, at="nobody")
    with pytest.raises(OperationError, match="no record ends"):
        await session.fork(origin.run, at=1)
