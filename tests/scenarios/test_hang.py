"""HANG of the bug reports: whoever waits is let go, whatever ended abnormally."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import pytest

from orchestrator import OperationGraphBuilder, Session, role, run_sync
from orchestrator.journal import MemoryJournal
from tests.scenarios.conftest import boom, lawful, ok, ran


def single(what, **more):
    graph = OperationGraphBuilder()
    graph.add_operation(what, node_id="a", **more)
    graph.add_operation(ok, node_id="b")
    return graph


class Breaks(MemoryJournal):
    """A journal whose batches fail from the given one on."""

    def __init__(self, good):
        super().__init__()
        self.good = good

    def submit(self, batch, done):
        self.good -= 1
        if self.good < 0:
            done(OSError("no space left"))
        else:
            super().submit(batch, done)


async def test_HANG_36_the_stream_ends_when_a_node_raises():
    """HANG 36: the stream yields the failure and ends; awaiting the result comes back at once."""
    async with Session() as session:
        graph = OperationGraphBuilder()
        graph.add_operation(boom, node_id="a")
        async with session.flow_stream(graph) as events:
            (live,) = session.runs()
            seen = [(event.name, event.status) async for event in events]
        result = await live.wait()
    assert seen == [("a", "failed")]
    assert result.reason == "failed"


@pytest.mark.parametrize("good", range(5))
async def test_HANG_38_the_journal_fails(good):
    """HANG 38: whichever append fails: the stream ends, the fault is visible, nothing more starts.

    Kernel and engine 1: an append that failed is of unknown outcome, so the run halts ``needs_recovery``.
    """
    bodies = []

    @role()
    async def counted(turn):
        bodies.append(turn.node)

    graph = OperationGraphBuilder()
    for name in "abc":
        graph.add_operation(counted, node_id=name)
    async with Session(journal=lambda: Breaks(good)) as session:
        live = await session.start(graph)
        events = [event async for event in live.events()]
        await live.over()
        assert session.runs() == []
    if good == 4:
        assert live.result.reason == "completed"
        return
    assert live.result.reason == "needs_recovery"
    assert "no space left" in live.result.detail
    assert not live.result.ok
    assert bodies == list("abc")[:good]  # effects only when durable
    assert len([event for event in events if event.kind == "NodeCompleted"]) == max(0, good - 1)


async def test_HANG_38_a_node_that_waits_while_the_journal_fails():
    """HANG 38: bodies that still run are stopped; a reader that waits for more is let go."""
    stopped = []

    @role()
    async def stays(turn):
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(turn.node)

    graph = OperationGraphBuilder()
    graph.add_operation(stays, node_id="slow", depends_on=[])
    graph.add_operation(ok, node_id="quick", depends_on=[])
    async with Session(journal=lambda: Breaks(1)) as session:
        live = await session.start(graph)
        kinds = [event.kind async for event in live.events()]
    assert kinds == ["RunStarted", "GraphPlanned", "NodeReady", "NodeReady", "NodeStarted", "NodeStarted"]
    assert stopped == ["slow"]
    assert live.result.reason == "needs_recovery"


class Own(BaseException):
    """No Exception."""


@pytest.mark.parametrize("way", ["timeout", "base", "exit", "cancelled", "native"])
async def test_HANG_39_a_tap_that_raises_what_is_no_exception(way):
    """HANG 39: it survives, the others get everything, closing returns, the run is as it would have been."""
    seen = {"bad": [], "good": []}
    names = [f"n{number}" for number in range(10)]

    async def bad(envelope):
        seen["bad"].append(envelope.node)
        if way == "timeout":
            with anyio.move_on_after(0):
                await anyio.sleep_forever()
        elif way == "base":
            raise Own
        elif way == "exit":
            raise SystemExit(3)
        elif way == "cancelled":
            with anyio.CancelScope() as scope:
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        elif way == "native":
            kind = anyio.get_cancelled_exc_class()
            raise kind if kind is asyncio.CancelledError else Own

    async def good(envelope):
        seen["good"].append(envelope.node)

    graph = OperationGraphBuilder()
    for name in names:
        graph.add_operation(ok, node_id=name)
    async with Session() as session:
        kinds = ("NodeCompleted",)
        async with session.tap(bad, kinds=kinds), session.tap(good, kinds=kinds):
            run = await lawful(await session.start(graph))
    assert run.reason == "completed"
    assert seen == {"bad": names, "good": names}


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit, Own, StopIteration])
@pytest.mark.parametrize("way", ["loop", "thread"])
async def test_HANG_40_whatever_a_body_raises(raised, way):
    """HANG 40, bad-inputs 12: a bridge forwards every outcome: the node fails at once, the run goes on."""

    async def in_loop(turn):
        raise raised

    def in_thread(turn):
        raise raised

    body = role(name="body")(in_loop if way == "loop" else in_thread)
    run = await ran(single(body))
    assert run["a"].status == "failed"
    assert run["a"].error.type == ("RuntimeError" if raised is StopIteration else raised.__name__)
    assert run["b"].status == "completed"


def test_HANG_40_run_sync(anyio_backend):
    """HANG 40: the sync bridge gives the result, or raises what the run raises, on either backend."""

    @role()
    async def cancels_itself(turn):
        if anyio_backend == "asyncio":
            asyncio.current_task().cancel()
        await anyio.lowlevel.checkpoint()
        return "went on"

    result = run_sync(single(cancels_itself), backend=anyio_backend)
    assert result["b"].status == "completed"
    assert result["a"].status == ("failed" if anyio_backend == "asyncio" else "completed")


async def test_HANG_40_a_body_that_cancels_its_task():
    """HANG 40, engine 2: it kills no worker silently: its node fails, what waits behind it starts."""

    @role()
    async def cancels_itself(turn):
        try:
            asyncio.current_task().cancel()
        except RuntimeError:
            raise ValueError("no task of asyncio") from None
        await anyio.lowlevel.checkpoint()

    graph = OperationGraphBuilder()
    for name in ("a", "b", "c"):
        graph.add_operation(cancels_itself, node_id=name)
    graph.add_operation(ok, node_id="last")
    run = await ran(graph, parallel=False)
    assert run.result.failed_operations == ("a", "b", "c")
    assert run["last"].status == "completed"


async def test_HANG_41_the_session_is_used_again():
    """HANG 41: after a failing run the next one on the same session completes, twenty times; nothing is
    left.
    """
    async with Session() as session:
        for _ in range(20):
            bad = await lawful(await session.start(single(boom)))
            good = await lawful(await session.start(single(ok)))
            assert (bad.result.failed_operations, good.reason) == (("a",), "completed")
            assert session.runs() == []


async def test_HANG_42_control_after_the_stream_was_left():
    """HANG 42: every control call on a run that is over answers at once; none waits for a reader."""
    async with Session() as session:
        async with session.flow_stream(single(ok)) as events:
            (live,) = session.runs()
            async for _ in events:
                break
        calls = [live.pause(), live.resume(), live.drain(), live.cancel(), live.cancel("a"), live.steer("x")]
        calls += [live.inject("ok"), live.answer("a", 1), live.raise_budget("spawns", 99), live.interrupt()]
        assert [call.reason for call in calls] == ["not_running"] * 10
        assert live.states().keys() == {"a", "b"}
        assert (await live.wait()).reason in {"cancelled", "completed"}


async def test_HANG_a_body_that_stops_its_own_node():
    """CANCEL 43: a body cancels its own node before it awaits anything: it is stopped all the same."""

    @role()
    async def stops_itself(turn):
        (live,) = session.runs()
        assert live.cancel(turn.node)
        await anyio.sleep_forever()

    async with Session() as session:
        run = await lawful(await session.start(single(stops_itself)))
    assert run.statuses() == {"a": "cancelled", "b": "skipped"}


async def test_HANG_a_body_that_stops_its_own_run():
    """CANCEL 43: the same for the whole run, with another node that runs and one that waits."""
    stopped = []

    @role()
    async def stops_all(turn):
        (live,) = session.runs()
        assert live.cancel()
        await anyio.sleep_forever()

    @role()
    async def stays(turn):
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(turn.node)

    graph = OperationGraphBuilder()
    graph.add_operation(stays, node_id="slow", depends_on=[])
    graph.add_operation(stops_all, node_id="a", depends_on=[])
    graph.add_operation(ok, node_id="b", depends_on=["a"])
    async with Session() as session:
        run = await lawful(await session.start(graph))
    assert set(run.statuses().values()) == {"cancelled"}
    assert stopped == ["slow"]


async def test_HANG_the_freed_slot_is_used():
    """Engine 2: a cancelled attempt that gives a result in its last moment frees its slot for the next
    node.
    """
    begun, go = anyio.Event(), anyio.Event()

    @role()
    async def last_moment(turn):
        begun.set()
        try:
            await go.wait()
        except BaseException:
            return "gave a result"

    graph = OperationGraphBuilder()
    graph.add_operation(last_moment, node_id="a", depends_on=[])
    graph.add_operation(ok, node_id="b", depends_on=[])
    async with Session() as session:
        live = await session.start(graph, parallel=False)
        await begun.wait()
        assert live.cancel("a")
        run = await lawful(live)
    assert run.statuses() == {"a": "cancelled", "b": "completed"}
    assert run.nodes("ResultStale") == ["a"]
    assert run["a"].value is None
