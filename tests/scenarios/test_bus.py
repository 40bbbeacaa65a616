"""BUS of the bug reports, bad-inputs 14: taps observe and cannot steer; handlers steer and are judged."""

from __future__ import annotations

import gc
import threading

import anyio
import pytest

from orchestrator import (
    Finding,
    OperationGraphBuilder,
    Session,
    role,
)
from orchestrator.testing.loops import run_virtual
from tests.scenarios.conftest import lawful, ok, ran


def chain(count, what=ok):
    graph = OperationGraphBuilder()
    for number in range(count):
        graph.add_operation(what, node_id=f"n{number}")
    return graph


DONE = ("NodeCompleted",)
NAMES = [f"n{number}" for number in range(10)]


async def test_BUS_105_112_one_that_raises(caplog):
    """BUS 105, 112: the middle one of three raises at every event: all get all, reported once by name."""
    seen = {"first": [], "middle": [], "last": []}

    def tap(name):
        async def receive(envelope):
            seen[name].append(envelope.node)
            if name == "middle":
                raise RuntimeError("middle")

        return receive

    async with Session() as session:
        taps = [session.tap(tap(name), kinds=DONE) for name in seen]
        async with taps[0], taps[1], taps[2]:
            run = await lawful(await session.start(chain(10)))
    assert run.reason == "completed"
    assert seen == dict.fromkeys(("first", "middle", "last"), NAMES)
    reports = [record.getMessage() for record in caplog.records if "tap " in record.getMessage()]
    assert len(reports) == 1
    assert "RuntimeError: middle" in reports[0]


async def test_BUS_106_registration_order():
    """BUS 106: twenty taps are told in the order in which they registered; removing some keeps it."""
    calls = []

    class Ordered:
        def __init__(self, name):
            self.name = name

        def receive(self, sender, item):
            calls.append(self.name)

    async with Session() as session:
        receivers = [Ordered(number) for number in range(20)]
        for receiver in receivers:
            session.bus.connect(receiver.receive)
        await session.flow(chain(1))
        assert calls == list(range(20)) * (len(calls) // 20)
        for number in (3, 7):
            session.bus.disconnect(receivers[number].receive)
        session.bus.connect(receivers[3].receive)
        calls.clear()
        await session.flow(chain(1))
        wanted = [number for number in range(20) if number not in {3, 7}] + [3]
        assert calls[: len(wanted)] == wanted


async def test_BUS_107_closures_and_bound_methods():
    """BUS 107: nobody else holds them, collection is forced: both are called."""
    seen = []

    class Short:
        async def receive(self, envelope):
            seen.append("method")

    async with Session() as session:
        method = session.tap(Short().receive, kinds=DONE)
        closure = session.tap(lambda envelope: seen.append("closure"), kinds=DONE)
        async with method, closure:
            gc.collect()
            run = await lawful(await session.start(chain(1)))
    assert run.reason == "completed"
    assert sorted(seen) == ["closure", "method"]


@pytest.mark.parametrize("first", ["tap", "run"])
async def test_BUS_108_order_of_attaching(first):
    """BUS 108, 111: a tap from before the run gets all; a later one gets what is published from then on."""
    seen = []
    held, go = anyio.Event(), anyio.Event()

    @role()
    async def holds(turn):
        held.set()
        await go.wait()

    async def tap(envelope):
        seen.append(envelope.seq)

    graph = OperationGraphBuilder()
    graph.add_operation(holds, node_id="a")
    async with Session() as session:
        if first == "tap":
            async with session.tap(tap):
                live = await session.start(graph)
                await held.wait()
                go.set()
                run = await lawful(live)
        else:
            live = await session.start(graph)
            await held.wait()
            begun = len([event async for event in _now(live)])
            async with session.tap(tap):
                go.set()
                run = await lawful(live)
    whole = [fact.seq for fact in run.facts]
    assert seen == (whole if first == "tap" else whole[begun:])


async def _now(live):
    """What is on record at this moment."""
    seq = live.engine.state.facts
    async for event in live.events():
        yield event
        if event.seq >= seq:
            return


async def test_BUS_110_two_sessions_two_buses():
    """BUS 110: a run of one session is never heard in another."""
    seen = {"one": [], "two": []}

    async def tap_one(envelope):
        seen["one"].append(envelope.run)

    async def tap_two(envelope):
        seen["two"].append(envelope.run)

    async with Session() as one, Session() as two, one.tap(tap_one), two.tap(tap_two):
        first = await lawful(await one.start(chain(2)))
        second = await lawful(await two.start(chain(2)))
    assert set(seen["one"]) == {first.result.run}
    assert set(seen["two"]) == {second.result.run}


async def test_BUS_111_a_question_answered_at_once():
    """BUS 111: an answer that comes the moment the question is told is never missed: 200 trials."""

    @role()
    async def asks(turn):
        return [await turn.ask(f"q{number}") for number in range(200)]

    graph = OperationGraphBuilder()
    graph.add_operation(asks, node_id="a")
    async with Session() as session:
        live = await session.start(graph, waits_for_answers=True)

        async def answers(envelope):
            assert live.answer("a", envelope.data["key"], key=envelope.data["key"])

        async with session.tap(answers, kinds=("QuestionAsked",)):
            first = live.engine.state.nodes["a"].questions or {}
            for key in list(first):
                live.answer("a", key, key=key)
            run = await lawful(live)
    assert run["a"].value == [f"q{number}" for number in range(200)]


@pytest.mark.parametrize("way", ["plain", "async"])
async def test_bad_inputs_14_taps_that_misbehave(way):
    """Bad-inputs 14: one raises, one blocks, one unsubscribes itself: the run is as with none subscribed."""
    gate = threading.Event()
    taps, seen = {}, []

    def raises(envelope):
        raise ValueError("at every event")

    def blocks(envelope):
        gate.wait(30)

    def leaves(envelope):
        seen.append(envelope.kind)
        taps["leaves"].close()

    async def raises_async(envelope):
        raise ValueError("at every event")

    async def blocks_async(envelope):
        await anyio.sleep_forever()

    async def leaves_async(envelope):
        leaves(envelope)

    chosen = (raises, leaves, blocks) if way == "plain" else (raises_async, leaves_async, blocks_async)
    alone = await ran(chain(20))
    async with Session() as session:
        with anyio.CancelScope() as scope:
            async with session.tap(chosen[0]), session.tap(chosen[1]) as taps["leaves"]:
                tap = session.tap(chosen[2])
                await tap.__aenter__()
                run = await lawful(await session.start(chain(20)))
                gate.set()
                if way == "async":
                    session._group.cancel_scope.cancel()  # the test does not wait for a tap that never ends
                await tap.__aexit__(None, None, None)
            scope.cancel()
    assert [(fact.kind, fact.node) for fact in run.facts] == [(fact.kind, fact.node) for fact in alone.facts]
    assert run.statuses() == alone.statuses()
    assert seen == [fact.kind for fact in run.facts][: len(seen)]


def test_bad_inputs_14_leaving_a_tap_that_never_returns(anyio_backend):
    """Engine 4: at the end a tap has one second to drain, whatever it does; the run has long ended."""

    async def blocks(envelope):
        await anyio.sleep(1_000)

    async def main():
        async with Session() as session:
            async with session.tap(blocks):
                run = await lawful(await session.start(chain(3)))
                assert anyio.current_time() == 0
            assert anyio.current_time() == 1.0
            session._group.cancel_scope.cancel()
        return run

    assert run_virtual(main, backend=anyio_backend).reason == "completed"


@pytest.mark.parametrize("overflow", ["drop_newest", "drop_oldest"])
async def test_a_gap_is_told(overflow):
    """Engine 4: a record is taken or skipped whole; what is skipped is told as one Missed, never silence."""
    seen, missed = [], []
    held, go = anyio.Event(), anyio.Event()

    async def slow(envelope):
        held.set()
        await go.wait()
        if envelope.kind == "Missed":
            missed.append((envelope.data["first"], envelope.data["last"]))
        else:
            seen.append(envelope.seq)

    async with Session() as session, session.tap(slow, buffer=8, overflow=overflow):
        run = await lawful(await session.start(chain(50)))
        go.set()
    total = len(run.facts)
    skipped = [seq for first, last in missed for seq in range(first, last + 1)]
    assert missed
    assert sorted([*seen, *skipped]) == list(range(1, total + 1))
    assert seen == sorted(seen)


@pytest.mark.parametrize("nodes", [10_000])
async def test_a_tap_that_keeps_up_misses_nothing(nodes):
    """Engine 4: the engine yields once after 256 published facts: 10,000 nodes, nothing missed."""
    seen = 0
    missed = []

    async def counts(envelope):
        nonlocal seen
        seen += 1
        if envelope.kind == "Missed":
            missed.append(envelope.data)

    graph = chain(nodes).get_graph()
    async with Session() as session, session.tap(counts):
        result = await session.flow(graph)
    assert result.reason == "completed"
    assert missed == []
    assert seen == 3 + 3 * nodes


async def test_one_node_that_emits_ten_thousand_times():
    """Engine 4: one node that never ends emits on and on: the tap keeps up all the same."""
    seen, missed = [], []

    @role(emits=(Finding,))
    async def floods(turn):
        for number in range(10_000):
            assert await turn.emit(Finding(description=str(number)))

    async def counts(envelope):
        (missed if envelope.kind == "Missed" else seen).append(envelope.seq)

    async with Session() as session, session.tap(counts, buffer=2_048):
        run = await lawful(await session.start(chain(1, floods)))
    assert missed == []
    assert seen == [fact.seq for fact in run.facts]
