"""TRUTH of the bug reports: what is reported is what happened."""

from __future__ import annotations

import threading

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from orchestrator import (
    Budget,
    NotApplicable,
    OperationGraphBuilder,
    Session,
    Verdict,
    create_operation,
    role,
)
from tests.scenarios.conftest import TERMINAL, boom, lawful, ok, ran


async def test_TRUTH_18_a_dead_last_gate_is_no_pass():
    """TRUTH 18: nine workers succeed, the terminal gate dies: not a success, and the gate is named."""

    @role(emits=(Verdict,))
    async def judge(turn):
        raise RuntimeError("died at its start")

    graph = OperationGraphBuilder()
    for number in range(9):
        graph.add_operation(ok, node_id=f"w{number}", depends_on=[])
    graph.add_operation(judge, node_id="review", depends_on=[f"w{n}" for n in range(9)], gate=True)
    run = await ran(graph)
    assert run.reason == "gate_undecided"
    assert "died at its start" in run.result.waiters["review"]
    assert run.result.failed_operations == ("review",)
    assert len(run.result.completed_operations) == 9


async def test_TRUTH_18_one_optional_worker_fails():
    """TRUTH 18: the gate is fine and a worker that nobody waits for fails: failed, with the counts."""

    @role(emits=(Verdict,))
    async def judge(turn):
        return Verdict(verdict="APPROVE", rationale="fine")

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="w", depends_on=[])
    graph.add_operation(boom, node_id="optional", depends_on=[])
    graph.add_operation(judge, node_id="review", depends_on=["w"], gate=True)
    run = await ran(graph)
    assert run.reason == "failed"
    assert not run.result.ok
    assert run.result.failed_operations == ("optional",)
    assert run.result.completed_operations == ("w", "review")


@pytest.mark.parametrize("broken", [1, 3])
async def test_TRUTH_19_a_failed_leg_is_no_content(broken):
    """TRUTH 19: a failed leg is a typed failure, never text; with no good leg the synthesis is not called."""
    called = []

    @role()
    async def leg(turn):
        if turn.parameters["n"] < broken:
            raise ValueError("no result")
        return ""

    @role()
    async def synthesises(turn):
        called.append(1)
        return [dict(turn.inputs), sorted(turn.failed)]

    graph = OperationGraphBuilder()
    names = [graph.add_operation(leg, node_id=f"leg{n}", depends_on=[], n=n) for n in range(3)]
    graph.add_operation(synthesises, node_id="join", depends_on=[])
    for name in names:
        graph.add_edge(name, "join", accept=["completed"])
    run = await ran(graph)
    assert run.reason == "failed"  # no living edge accepted the failures
    if broken == 3:
        assert run["join"].status == "skipped"
        assert called == []
    else:
        assert run["join"].value == [{"leg1": "", "leg2": ""}, ["leg0"]]


async def test_TRUTH_20_every_surface_says_skipped():
    """TRUTH 20: event, tap, stream, summary, display and record agree on a skipped node."""
    tapped, streamed = [], []

    async def tap(envelope):
        tapped.append(envelope.kind)

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    graph.add_operation(ok, node_id="b", when="a == 'other'")
    async with Session() as session, session.tap(tap, kinds=TERMINAL):
        async with session.flow_stream(graph) as events:
            (live,) = session.runs()
            streamed = [(event.name, event.status) async for event in events]
        run = await lawful(live)
        assert live.states() == {"a": "succeeded", "b": "skipped"}
    assert tapped == ["NodeCompleted", "NodeSkipped"]
    assert streamed == [("a", "completed"), ("b", "skipped")]
    assert run["b"].status == "skipped"
    assert run.result.skipped_operations == ("b",)
    assert run["b"].error is None
    assert run.result.operation_results == {"a": "a"}


async def test_TRUTH_22_ending_a_run_settles_all_of_it():
    """TRUTH 22: the first of three fails with stop-on-failure: what ran and what was queued is settled."""
    stopped = []
    running = anyio.Event()

    @role()
    async def stays(turn):
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(turn.node)

    @role()
    async def fails(turn):
        await running.wait()
        raise ValueError("stop all")

    graph = OperationGraphBuilder()
    graph.add_operation(stays, node_id="runs", depends_on=[])
    graph.add_operation(
        create_operation("operate", node_id="bad", role="fails", stop_on_failure=True), depends_on=[]
    )
    graph.add_operation(ok, node_id="queued", depends_on=[])
    graph.add_operation(ok, node_id="below", depends_on=["bad"])
    run = await ran(graph, fails, budget=Budget(concurrency=2))
    assert run.reason == "failed"
    assert run.statuses() == {
        "runs": "cancelled", "bad": "failed", "queued": "cancelled", "below": "cancelled",
    }  # fmt: skip
    assert stopped == ["runs"]
    assert "queued" not in run.nodes("NodeStarted")


async def test_TRUTH_23_terminal_is_final():
    """TRUTH 23, CANCEL 46: a thread that is cancelled reports later: recorded at most, nothing changes."""
    begun, go, gone = anyio.Event(), threading.Event(), threading.Event()
    token = []

    def works(turn):
        anyio.from_thread.run_sync(begun.set, token=token[0])
        go.wait(10)
        gone.set()
        return "late success"

    worker = role(name="worker")(works)
    graph = OperationGraphBuilder()
    graph.add_operation(worker, node_id="slow", depends_on=[])
    graph.add_operation(ok, node_id="after", depends_on=["slow"])
    graph.add_operation(ok, node_id="third", depends_on=["after"])
    async with Session() as session:
        token.append(anyio.lowlevel.current_token())
        live = await session.start(graph)
        await begun.wait()
        live.cancel()
        run = await lawful(live)
        assert not gone.is_set()
        before = len(run.facts)
        go.set()
        await anyio.to_thread.run_sync(gone.wait)
        assert run.statuses() == {"slow": "cancelled", "after": "cancelled", "third": "cancelled"}
        assert run["slow"].value is None
        assert len([event async for event in live.events()]) == before
    assert run.nodes("CancelIgnored") == ["slow"]
    assert run.reason == "cancelled"


async def test_TRUTH_26_two_failures_one_end():
    """TRUTH 26: two parallel nodes fail: one RunEnded, and the result lists both."""
    for _ in range(20):
        graph = OperationGraphBuilder()
        for name in "ab":
            graph.add_operation(boom, node_id=name, depends_on=[])
        run = await ran(graph)
        assert len(run.of("RunEnded")) == 1
        assert run.result.failed_operations == ("a", "b")


async def test_TRUTH_27_skipped_on_purpose():
    """TRUTH 27: a node that runs only if another failed, and one that is not applicable: completed, no
    retry.
    """

    @role(retry=3)
    async def declines(turn):
        raise NotApplicable("nothing to do")

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="m", depends_on=[])
    graph.add_operation(ok, node_id="rescue", depends_on=[])
    graph.add_edge("m", "rescue", accept=["failed"])
    graph.add_operation(declines, node_id="declined", depends_on=[])
    run = await ran(graph)
    assert run.reason == "completed"
    assert run.result.skipped_operations == ("rescue", "declined")
    assert run["declined"].attempts == 1
    assert run.of("NodeRetryScheduled") == []


async def test_TRUTH_28_every_announcement_has_an_answer():
    """TRUTH 28: a run with known outcomes: each announced node settles once, as recorded, marked restored."""
    graph = OperationGraphBuilder()
    for name in ("one", "two", "three"):
        graph.add_operation(ok, node_id=name, depends_on=[])
    graph.add_operation(ok, node_id="unneeded", depends_on=["one"], when="false")
    graph.add_operation(ok, node_id="four", depends_on=["unneeded", "two"])
    graph.add_operation(ok, node_id="five", depends_on=["four"])
    first = await ran(graph)
    known = {name: first.result.nodes[name] for name in ("one", "two", "three", "unneeded")}
    async with Session() as session:
        async with session.flow_stream(graph, known=known) as events:
            (live,) = session.runs()
            seen = [(event.name, event.status) async for event in events]
        run = await lawful(live)
    assert seen == [
        ("one", "completed"), ("two", "completed"), ("three", "completed"), ("unneeded", "skipped"),
        ("four", "completed"), ("five", "completed"),
    ]  # fmt: skip
    assert run.nodes("NodeStarted") == ["four", "five"]
    assert [run[name].restored for name in ("one", "unneeded", "four")] == [True, True, False]
