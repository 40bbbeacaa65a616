"""CANCEL 51 and 52, CAP 122: how cancelled runs and nodes end."""

from __future__ import annotations

import anyio
import anyio.from_thread
import pytest

from orchestrator import (
    Budget,
    OperationGraphBuilder,
    Refused,
    Retry,
    Session,
    Verdict,
    create_operation,
    role,
)
from orchestrator.testing.loops import run_virtual
from tests.scenarios.conftest import TERMINAL, lawful, ok


async def test_CANCEL_51_nothing_after_the_end():
    """CANCEL 51, STREAM 55: one node ends the run; the other is stopped and settled before the end is
    told.
    """
    running = anyio.Event()

    @role()
    async def emits_later(turn):
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            turn.report("cleaning up")

    @role()
    async def fails(turn):
        await running.wait()
        raise ValueError("the end")

    graph = OperationGraphBuilder()
    graph.add_operation(emits_later, node_id="later", depends_on=[])
    graph.add_operation(
        create_operation("operate", node_id="bad", role="fails", stop_on_failure=True), depends_on=[]
    )
    kinds = []

    async def tap(envelope):
        kinds.append(envelope.kind)

    async with Session([fails]) as session, session.tap(tap):
        run = await lawful(await session.start(graph))
    assert run["later"].status == "cancelled"
    assert kinds[-1] == "RunEnded"
    assert kinds.index("NodeCancelled") < kinds.index("RunEnded")


async def test_CANCEL_52_a_slow_reader_after_a_cancel():
    """CANCEL 52: settling events are kept, each once, and the stream ends with them; nothing is dropped."""
    go = anyio.Event()

    @role()
    async def last(turn):
        go.set()
        await anyio.sleep_forever()

    graph = OperationGraphBuilder()
    for number in range(300):
        graph.add_operation(ok, node_id=f"n{number}", depends_on=[])
    graph.add_operation(last, node_id="last", depends_on=["n299"])
    async with Session() as session:
        async with session.flow_stream(graph) as events:
            (live,) = session.runs()
            await go.wait()
            live.cancel()
            await live.wait()
            seen = [event.name async for event in events]
        run = await lawful(live)
    assert len(seen) == len(set(seen)) == 301
    assert seen == [fact.node for fact in run.facts if fact.kind in TERMINAL]


@pytest.mark.parametrize("what", ["a", "gate", "nobody"])
async def test_cancelling_a_settled_node(what):
    """Law 2, 8: cancelling what has settled, or nobody, is refused and changes nothing."""
    running, go = anyio.Event(), anyio.Event()

    @role()
    async def holds(turn):
        running.set()
        await go.wait()

    @role(emits=(Verdict,))
    async def judge(turn):
        return Verdict(verdict="APPROVE", rationale="fine")

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    graph.add_operation(judge, node_id="gate", gate=True)
    graph.add_operation(holds, node_id="b")
    async with Session() as session:
        live = await session.start(graph)
        await running.wait()
        receipt = live.cancel(what)
        go.set()
        run = await lawful(live)
    assert isinstance(receipt, Refused)
    assert receipt.reason == ("unknown_node" if what == "nobody" else "too_late")
    assert run.reason == "completed"


@pytest.mark.parametrize("stage", ["ready", "running", "retrying", "asking", "paused"])
def test_CAP_122_a_cancelled_node_keeps_no_slot(anyio_backend, stage):
    """CAP 122: capacity 1; the first node is cancelled at each stage: the next starts at once."""
    go = None

    @role(retry=Retry(attempts=2, backoff=500, max_delay=500))
    async def first(turn):
        if stage == "retrying":
            raise ValueError("again")
        if stage == "asking":
            await turn.ask("well?")
        await anyio.sleep_forever()

    @role()
    async def holds(turn):
        await go.wait()

    async def main():
        nonlocal go
        go = anyio.Event()
        graph = OperationGraphBuilder()
        queued = stage in {"ready", "paused"}
        if queued:
            graph.add_operation(holds, node_id="before", depends_on=[])
        graph.add_operation(first, node_id="first", depends_on=["before"] if stage == "paused" else [])
        graph.add_operation(ok, node_id="next", depends_on=[])
        async with Session() as session:
            live = await session.start(graph, budget=Budget(concurrency=1), waits_for_answers=True)
            await anyio.sleep(1)
            if stage == "paused":
                live.pause()
                go.set()
                await anyio.sleep(1)
            assert live.states()["first"] == {"ready": "queued"}.get(stage, stage)
            if stage in {"retrying", "asking"}:
                assert live.states()["next"] == "succeeded"  # neither holds a slot
            assert live.cancel("first")
            live.resume()
            go.set()
            run = await lawful(live)
            assert anyio.current_time() < 100
        return run

    run = run_virtual(main, backend=anyio_backend)
    assert run["first"].status == "cancelled"
    assert run["next"].status == "completed"


def test_an_asking_node_that_is_cancelled_stops(anyio_backend):
    """CAP 122, law 15: the body of a cancelled node that was asking ends then, not with the run."""
    ended = []

    @role()
    async def asks(turn):
        try:
            await turn.ask("well?")
        finally:
            ended.append(anyio.current_time())

    @role()
    async def sleeps(turn):
        await anyio.sleep(100)

    async def main():
        graph = OperationGraphBuilder()
        graph.add_operation(asks, node_id="asks", depends_on=[])
        graph.add_operation(sleeps, node_id="sleeps", depends_on=[])
        async with Session() as session:
            live = await session.start(graph, waits_for_answers=True)
            await anyio.sleep(1)
            assert live.cancel("asks")
            return await lawful(live)

    run = run_virtual(main, backend=anyio_backend)
    assert run.statuses() == {"asks": "cancelled", "sleeps": "completed"}
    assert ended == [1.0]
