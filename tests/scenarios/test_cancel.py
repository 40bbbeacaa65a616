"""CANCEL of the bug reports, TIME 98 to 103 beside them, CAP 122: stopped work stays stopped."""

from __future__ import annotations

import threading

import anyio
import anyio.from_thread
import pytest

from orchestrator import (
    OperationGraphBuilder,
    Retry,
    Session,
    role,
)
from orchestrator.testing.loops import run_seeded, run_virtual
from tests.scenarios.conftest import lawful, ok


@role()
async def stays(turn):
    await anyio.sleep_forever()


@pytest.mark.parametrize("first", range(0, 500, 100))
def test_CANCEL_43_at_any_moment(anyio_backend, first):
    """CANCEL 43: short nodes, cancelled at 500 different moments: each ends cancelled, one node further
    at most.
    """

    async def once(seed):
        @role()
        async def short(turn):
            for _ in range(seed % 3):
                await anyio.lowlevel.checkpoint()

        graph = OperationGraphBuilder()
        for number in range(30):
            graph.add_operation(short, node_id=f"n{number}")
        async with Session() as session:
            live = await session.start(graph)
            for _ in range(seed % 17):
                await anyio.lowlevel.checkpoint()
            live.cancel()
            run = await lawful(live)
        asked = [fact.seq for fact in run.of("CancelRequested")]
        assert run.reason == ("cancelled" if asked else "completed")
        assert [fact for fact in run.of("NodeStarted") if asked and fact.seq > asked[0]] == []

    for seed in range(first, first + 100):
        run_seeded(once, seed, seed=seed, backend=anyio_backend)


def test_CANCEL_44_no_timer_is_left(anyio_backend):
    """CANCEL 44: a node in a long delay and one in a long backoff are cancelled: nothing fires later."""

    @role()
    async def delays(turn):
        await anyio.sleep(10_000)

    @role(retry=Retry(attempts=2, backoff=5_000, max_delay=5_000))
    async def fails(turn):
        raise ValueError("first")

    async def main():
        graph = OperationGraphBuilder()
        graph.add_operation(delays, node_id="delay", depends_on=[], timeout=9_000)
        graph.add_operation(fails, node_id="backoff", depends_on=[])
        async with Session() as session:
            live = await session.start(graph)
            await anyio.sleep(1)
            assert live.states() == {"delay": "running", "backoff": "retrying"}
            live.cancel()
            run = await lawful(live)
            assert anyio.current_time() < 2
            facts = len(run.facts)
            await anyio.sleep(20_000)
            assert len([event async for event in live.events()]) == facts
        return run

    run = run_virtual(main, backend=anyio_backend)
    assert run.statuses() == {"delay": "cancelled", "backoff": "cancelled"}


async def test_CANCEL_45_leaving_the_stream_stops_the_work():
    """CANCEL 45: the reader leaves after A: B's effect never happens, and no task is left when leaving
    returns.
    """
    effects = []

    @role()
    async def effect(turn):
        await anyio.sleep_forever()
        effects.append(turn.node)

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    graph.add_operation(effect, node_id="b")
    async with Session() as session:
        async with session.flow_stream(graph) as events:
            async for event in events:
                assert event.name == "a"
                break
        assert session.runs() == []
    assert effects == []


async def test_CANCEL_45_leaving_events_detaches():
    """CANCEL 45, kernel 10: ``run.events`` is the other rule: leaving it changes nothing."""
    graph = OperationGraphBuilder()
    for name in "abc":
        graph.add_operation(ok, node_id=name)
    async with Session() as session:
        live = await session.start(graph)
        async with live.events() as events:
            async for _ in events:
                break
        run = await lawful(live)
    assert run.reason == "completed"


async def test_CANCEL_46_no_start_after_the_cancel():
    """CANCEL 46: ten plain functions in threads, cancelled in the third: none starts after it.

    A thread cannot be killed: the fact CancelIgnored says that it goes on, and its result is dropped.
    """
    begun, go = anyio.Event(), threading.Event()
    started, token = [], []

    def works(turn):
        started.append(turn.node)
        if turn.node == "n2":
            anyio.from_thread.run_sync(begun.set, token=token[0])
            go.wait(10)
        return turn.node

    worker = role(name="works")(works)
    graph = OperationGraphBuilder()
    for number in range(10):
        graph.add_operation(worker, node_id=f"n{number}")
    async with Session() as session:
        token.append(anyio.lowlevel.current_token())
        live = await session.start(graph)
        await begun.wait()
        live.cancel()
        run = await lawful(live)
        go.set()
    assert started == ["n0", "n1", "n2"]
    assert run.result.completed_operations == ("n0", "n1")
    assert run.result.cancelled_operations == tuple(f"n{number}" for number in range(2, 10))
    assert run["n2"].value is None
    (ignored,) = run.of("CancelIgnored")
    assert ignored.node == "n2"
    assert "thread" in ignored.data["detail"]


@pytest.mark.parametrize("attempt", [1, 2])
async def test_CANCEL_47_on_any_attempt(attempt):
    """CANCEL 47: a node is stopped on its first and on its second attempt; a cancel of nobody is an error."""
    stopped = []
    running = anyio.Event()

    @role(retry=3)
    async def works(turn):
        if turn.attempt < attempt:
            raise ValueError("again")
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(turn.attempt)

    graph = OperationGraphBuilder()
    graph.add_operation(works, node_id="a")
    async with Session() as session:
        live = await session.start(graph)
        await running.wait()
        assert live.cancel("a#2").reason == "unknown_node"
        assert live.cancel("a")
        run = await lawful(live)
    assert stopped == [attempt]
    assert run["a"].status == "cancelled"
    assert run["a"].attempts == attempt


async def test_CANCEL_49_a_late_failure_is_not_retried():
    """CANCEL 49: a cancelled node with retries that raises in its last moment stays cancelled."""
    running = anyio.Event()

    @role(retry=3)
    async def works(turn):
        running.set()
        try:
            await anyio.sleep_forever()
        except BaseException:
            raise ValueError("instead") from None

    graph = OperationGraphBuilder()
    graph.add_operation(works, node_id="a")
    async with Session() as session:
        live = await session.start(graph)
        await running.wait()
        live.cancel("a")
        run = await lawful(live)
    assert run["a"].status == "cancelled"
    assert run["a"].attempts == 1
    assert run.of("NodeRetryScheduled") == []
    assert run.nodes("ResultStale") == ["a"]


@pytest.mark.parametrize("way", ["catches", "shields"])
def test_CANCEL_50_bad_inputs_13_a_body_that_ignores_it(anyio_backend, way):
    """CANCEL 50, bad-inputs 13: few deliveries; ended within grace + 2 s; the fact names the node.

    A body that shields itself for ever cannot be freed (engine 10); one that does for a while is waited for.
    """
    deliveries = []

    @role()
    async def ignores(turn):
        with anyio.CancelScope(shield=True):
            await anyio.sleep(3 if way == "shields" else 0)
        for _ in range(1_000_000):
            try:
                await anyio.sleep(1_000)
            except GeneratorExit:
                raise
            except BaseException:
                deliveries.append(anyio.current_time())

    async def main():
        graph = OperationGraphBuilder()
        graph.add_operation(ignores, node_id="stuck", depends_on=[])
        graph.add_operation(ok, node_id="other", depends_on=["stuck"])
        async with Session(grace=10) as session:
            live = await session.start(graph)
            await anyio.sleep(1)
            live.cancel()
            run = await lawful(live)
            assert anyio.current_time() <= 1 + 3 + 10 + 2
        return run

    run = run_virtual(main, backend=anyio_backend)
    assert run.reason == "cancelled"
    assert run.nodes("CancelIgnored") == ["stuck"]
    assert run["stuck"].status == "cancelled"
    assert 2 < len(deliveries) < 30
