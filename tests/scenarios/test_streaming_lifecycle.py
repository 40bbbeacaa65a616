"""Streaming and lifecycle: S42 to S49."""

from __future__ import annotations

import gc

import anyio
import pytest

from orchestrator import (
    Budget,
    InternalError,
    NotApplicable,
    OperationGraphBuilder,
    Session,
    SpawnRequest,
    Verdict,
    role,
)
from orchestrator.journal import MemoryJournal
from orchestrator.testing.loops import run_virtual
from tests.scenarios.conftest import TERMINAL, boom, lawful, ok, ran


@role()
async def child(turn):
    return "child"


@role()
async def forever(turn):
    await anyio.sleep_forever()


def chain(*names, what=ok):
    graph = OperationGraphBuilder()
    for name in names:
        graph.add_operation(what, node_id=name)
    return graph


async def test_S42_events_in_order_of_settlement():
    """S42: a FlowEvent per settlement, a dependent after its predecessor, grown nodes flagged."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return [SpawnRequest(assignee="child", before="successors")]

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="start")
    graph.add_operation(boom, node_id="bad", depends_on=["start"])
    graph.add_operation(ok, node_id="last", depends_on=["bad"])
    async with Session([child]) as session, session.flow_stream(graph) as events:
        seen = [event async for event in events]
    assert [(event.name, event.status, event.spawned, event.ok) for event in seen] == [
        ("start", "completed", False, True),
        ("start.child-1", "completed", True, True),
        ("bad", "failed", False, False),
        ("last", "completed", False, True),
    ]
    assert [event.operation_id for event in seen] == [event.name for event in seen]
    assert seen[1].result == "child"
    assert (seen[2].result.type, seen[2].result.message) == ("ValueError", "bad broke")
    assert [event.seq for event in seen] == sorted(event.seq for event in seen)


@pytest.mark.parametrize("collect", [False, True])
async def test_S43_the_consumer_breaks_early(collect):
    """S43, CANCEL 45, STREAM 53: leaving cancels what is left and waits for it; no scope error, no hang."""
    left = []

    @role()
    async def stays(turn):
        try:
            await anyio.sleep_forever()
        finally:
            left.append(turn.node)

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="quick", depends_on=[])
    graph.add_operation(stays, node_id="slow", depends_on=[])
    graph.add_operation(ok, node_id="after", depends_on=["slow"])
    async with Session() as session:
        async with session.flow_stream(graph) as events:
            (live,) = session.runs()
            async for event in events:
                assert event.name == "quick"
                break
        assert left == ["slow"]
        run = await lawful(live)
        assert session.runs() == []
    del events
    if collect:
        gc.collect()
        await anyio.lowlevel.checkpoint()
    assert run.reason == "cancelled"
    assert run.result.cancelled_operations == ("slow", "after")
    assert run.nodes("NodeStarted") == ["quick", "slow"]


async def test_S43_the_consumer_raises():
    """S43: an error in the reader's block comes out as it is, after the run was cancelled."""
    lives = []
    with pytest.raises(LookupError, match="mine"):  # noqa: PT012 (the block is what is tested)
        async with Session() as session, session.flow_stream(chain("a", what=forever)):
            lives += session.runs()
            raise LookupError("mine")
    (live,) = lives
    assert live.result.reason == "cancelled"


async def test_S44_a_context_that_is_no_mapping():
    """S44: failed in the result, in the facts and in the stream alike; dependents settle."""

    @role()
    async def writes(turn):
        return {"context": ["not", "a", "mapping"]}

    graph = OperationGraphBuilder()
    graph.add_operation(writes, node_id="bad")
    graph.add_operation(ok, node_id="after", depends_on=[])
    graph.add_edge("bad", "after", accept=["completed"])
    async with Session() as session:
        async with session.flow_stream(graph) as events:
            (live,) = session.runs()
            streamed = {event.name: event.status async for event in events}
        run = await lawful(live)
    assert streamed == run.statuses() == {"bad": "failed", "after": "skipped"}
    assert "context" in run["bad"].error.message
    assert run.reason == "failed"
    assert run.result.final_context == {}


@pytest.mark.parametrize("when", ["edge", "node"])
async def test_S45_a_condition_that_cannot_be_judged(when):
    """S45: the node fails with the condition's text, everywhere; the run is failed."""
    text = "result.missing == 1" if when == "edge" else "first.missing == 1"
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="first")
    graph.add_operation(ok, node_id="second", depends_on=[], when=text if when == "node" else None)
    graph.add_edge("first", "second", when=text if when == "edge" else None)
    graph.add_operation(ok, node_id="third", depends_on=["second"])
    run = await ran(graph)
    assert run["second"].status == "failed"
    assert run["second"].attempts == 0
    assert run["second"].error.type == "ConditionError"
    assert "missing" in run["second"].error.message
    assert run["third"].status == "completed"
    assert run.nodes("NodeFailed") == ["second"]


async def test_S46_one_terminal_whichever_way():
    """S46: success, failure, cancel before start, while running, skip, decline, veto, escalation: one
    each.
    """

    @role(emits=(Verdict,))
    async def rejects(turn):
        return Verdict(verdict="REJECT", rationale="no")

    @role()
    async def declines(turn):
        raise NotApplicable("not here")

    started = anyio.Event()

    @role()
    async def stays(turn):
        started.set()
        await anyio.sleep_forever()

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="good", depends_on=[])
    graph.add_operation(boom, node_id="bad", depends_on=[])
    graph.add_operation(rejects, node_id="gate", depends_on=[], gate=True)
    graph.add_operation(ok, node_id="behind", depends_on=["gate"])
    graph.add_operation(declines, node_id="declined", depends_on=[])
    graph.add_operation(ok, node_id="unneeded", depends_on=["declined"])
    graph.add_operation(stays, node_id="stopped", depends_on=["good"])
    graph.add_operation(ok, node_id="waiting", depends_on=["stopped", "bad"])
    graph.add_operation(ok, node_id="last", depends_on=["waiting"])
    async with Session() as session:
        live = await session.start(graph)
        await started.wait()
        assert live.cancel("last")
        assert live.cancel("stopped")
        assert not live.cancel("stopped")
        run = await lawful(live)
    assert run.statuses() == {
        "good": "completed", "bad": "failed", "gate": "completed", "behind": "vetoed", "declined": "skipped",
        "unneeded": "skipped", "stopped": "cancelled", "waiting": "completed", "last": "cancelled",
    }  # fmt: skip
    assert run["declined"].reason == "not here"
    assert len([fact for fact in run.facts if fact.kind in TERMINAL]) == 9


async def test_S46_cancelled_before_any_task_existed():
    """S46: the host is cancelled before a body could begin: every node is settled as cancelled."""
    journals = []

    def keep():
        journals.append(MemoryJournal())
        return journals[-1]

    async with Session(journal=keep) as session:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await session.flow(chain("a", "b"))
        assert session.runs() == []
    facts = [fact for record in journals[0].read(0) for fact in record.facts]
    assert [fact.node for fact in facts if type(fact).__name__ == "NodeCancelled"] == ["b", "a"]
    assert type(facts[-1]).__name__ == "RunEnded"
    assert facts[-1].reason == "cancelled"


async def test_S46_a_cancelled_host():
    """S46: cancelling the task that waits for ``flow`` cancels the run and settles every node."""
    result = None
    async with Session() as session:
        with anyio.CancelScope() as scope:

            @role()
            async def stops_its_host(turn):
                scope.cancel()
                await anyio.sleep_forever()

            graph = OperationGraphBuilder()
            graph.add_operation(stops_its_host, node_id="a")
            graph.add_operation(ok, node_id="b")
            lives = []
            async with session.tap(lambda envelope: lives.append(envelope.kind)):
                result = await session.flow(graph)
        assert scope.cancelled_caught
        assert session.runs() == []
    assert result is None


async def test_S46_an_unexpected_kernel_error():
    """S46, engine 6: a decision that raises halts the run ``needs_recovery``; bodies stop, readers end."""
    broken, stopped = [], []

    def clock():
        if broken:
            raise RuntimeError("the clock broke")
        return 1

    @role()
    async def breaks(turn):
        await anyio.lowlevel.checkpoint()
        broken.append(True)

    @role()
    async def stays(turn):
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(turn.node)

    graph = OperationGraphBuilder()
    graph.add_operation(stays, node_id="slow", depends_on=[])
    graph.add_operation(breaks, node_id="bad", depends_on=[])
    graph.add_operation(ok, node_id="after", depends_on=["bad"])
    async with Session(clock=clock) as session:
        live = await session.start(graph)
        with pytest.raises(InternalError, match="the clock broke"):
            await live.wait()
        facts = [event async for event in live.events()]
    assert live.result.reason == "needs_recovery"
    assert stopped == ["slow"]
    assert [fact.kind for fact in facts if fact.kind in TERMINAL or fact.kind == "RunEnded"] == []
    assert "NodeStarted" in [fact.kind for fact in facts]


async def test_S46_a_kernel_error_without_a_suspension():
    """S46: the same where the body never awaits: the halt does not depend on where it was."""
    broken = []

    def clock():
        if broken:
            raise RuntimeError("the clock broke")
        return 1

    @role()
    async def breaks(turn):
        broken.append(True)

    async with Session(clock=clock) as session:
        live = await session.start(chain("bad", what=breaks))
        with pytest.raises(InternalError, match="the clock broke"):
            await live.wait()
    assert live.result.reason == "needs_recovery"


async def test_S47_one_name_whatever_the_branch_is_called():
    """S47: renaming the branch changes no fact: queued to terminal under the node's name."""

    async def talk(turn):
        turn.branch.name = "renamed again"
        return turn.node

    def hook(branch):
        branch.name = "renamed"

    async with Session() as session:
        session.register_operation("chat", talk)
        graph = chain("first")
        graph.add_operation("chat", node_id="speaker")
        run = await lawful(await session.start(graph, on_branch_created=hook))
    about = {fact.node for fact in run.facts if fact.node}
    assert about == {"first", "speaker"}
    assert run["speaker"].value == "speaker"


async def test_S48_a_restored_node_is_announced_with_its_own_outcome():
    """S48: known outcomes are announced once, marked restored, each as what it was; none of them runs."""
    first = await ran(chain("bad", "good"), known={})
    graph = OperationGraphBuilder()
    graph.add_operation(boom, node_id="bad", depends_on=[])
    graph.add_operation(ok, node_id="good", depends_on=[])
    before = await ran(graph)
    known = {"bad": before["bad"], "good": before["good"], "given": {"x": 1}}
    graph.add_operation(ok, node_id="given", depends_on=[])
    run = await ran(graph, known=known)
    assert run.statuses() == {"bad": "failed", "good": "completed", "given": "completed"}
    assert all(node.restored and node.attempts == 0 for node in run.result.nodes.values())
    assert run["given"].value == {"x": 1}
    assert run.nodes("NodeStarted") == []
    assert [fact.data["restored"] for fact in run.facts if fact.kind in TERMINAL] == [True] * 3
    assert first.reason == "completed"


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
@pytest.mark.parametrize("form", ["result", "value"])
async def test_S48_a_known_gate_keeps_its_verdict(verdict, form):
    """S48, kernel 9: both arms, given as NodeResult or as the plain value that the gate had."""

    @role(emits=(Verdict,))
    async def judge(turn):
        return Verdict(verdict=verdict, rationale="r")

    graph = OperationGraphBuilder()
    graph.add_operation(judge, node_id="gate", gate=True)
    graph.add_operation(ok, node_id="after", depends_on=["gate"])
    before = await ran(graph)
    known = {"gate": before["gate"] if form == "result" else before["gate"].value}
    run = await ran(graph, known=known)
    assert run.statuses() == before.statuses()
    assert run.reason == before.reason
    assert run["after"].vetoed_by == before["after"].vetoed_by


def test_S49_a_node_that_never_started_is_not_failed(anyio_backend):
    """S49: when the wall clock ends the run, what never started keeps its status and is listed as not run."""

    @role()
    async def slow(turn):
        await anyio.sleep(100)

    run = run_virtual(
        lambda: ran(chain("a", "b", what=slow), budget=Budget(wall_clock=10)), backend=anyio_backend
    )
    assert run.reason == "deadline"
    assert run.result.failed_operations == ()
    assert run.statuses() == {"a": "ready", "b": "waiting"}
    assert run.result.not_run == ("b",)
