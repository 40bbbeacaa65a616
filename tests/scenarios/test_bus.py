"""BUS of the bug reports, bad-inputs 14: taps observe and cannot steer; handlers steer and are judged."""

from __future__ import annotations

import gc
import threading

import anyio
import pytest

from orchestrator import (
    Budget,
    EscalationRequest,
    Finding,
    Inject,
    Objection,
    OperationError,
    OperationGraphBuilder,
    Refused,
    Session,
    SpawnRequest,
    Steer,
    Veto,
    Write,
    role,
)
from orchestrator.testing.loops import run_virtual
from tests.scenarios.conftest import lawful, ok, order, ran


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
        async with session.tap(tap("first"), kinds=DONE), session.tap(tap("middle"), kinds=DONE):
            async with session.tap(tap("last"), kinds=DONE):
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
        async with session.tap(Short().receive, kinds=DONE):
            async with session.tap(lambda envelope: seen.append("closure"), kinds=DONE):
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

    async with Session() as one, Session() as two:
        async with one.tap(tap_one), two.tap(tap_two):
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

    async with Session() as session:
        async with session.tap(slow, buffer=8, overflow=overflow):
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


# --- handlers --------------------------------------------------------------------------------------


@role(emits=(Objection,))
async def objects(turn):
    """Emits and returns the same objection."""
    objection = Objection(target="plan", objection="no")
    await turn.emit(objection)
    return [objection, Objection(target="plan", objection="no")]


async def handled(handler, *, what=objects, **options):
    graph = OperationGraphBuilder()
    graph.add_operation(what, node_id="a")
    graph.add_operation(order, node_id="b")
    async with Session([ok, order]) as session:
        session.handles(Objection, handler)
        return await lawful(await session.start(graph, **options))


async def test_a_handlers_changes_are_carried_out_once():
    """Roles 4: Inject, Write, Steer and Veto, decided by the core, once for one emission over two channels."""

    def handler(emission, view):
        assert view.status("a") == "running"
        return [Inject("ok", before=["b"]), Write("objection", emission.objection), Steer("look", "b")]

    run = await handled(handler)
    assert run.result.spawned == ("a.ok-1",)
    assert run["b"].value == ["a", "a.ok-1"]
    assert run.result.final_context == {"objection": "no"}
    assert run.nodes("SteerDelivered") == ["b"]


async def test_a_handler_may_veto():
    """Roles 4: a waiting node is vetoed by name; its dependents follow."""
    run = await handled(lambda emission, view: Veto("b", "overruled"))
    assert run["b"].status == "vetoed"
    assert run["b"].reason == "vetoed by a: overruled"


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, "nonsense", Steer("\ud800")])
async def test_a_handler_that_raises_refuses(raised):
    """Roles 4: the emission is refused ``handler_error`` and nothing else happens; the node goes on."""

    def handler(emission, view):
        if isinstance(raised, type):
            raise raised("in the handler")
        return raised

    @role(emits=(Objection,))
    async def once(turn):
        receipt = await turn.emit(Objection(target="plan", objection="no"))
        return [receipt.reason, receipt.detail]

    run = await handled(handler, what=once)
    assert run["a"].value[0] == "handler_error"
    assert run.of("EmissionAccepted") == []
    assert run.reason == "completed"


async def test_an_undeclared_emission_moves_no_handler():
    """Roles 1, 4: what is not declared is refused, and what its handler would do is not done, either way."""

    @role()
    async def undeclared(turn):
        receipt = await turn.emit(Objection(target="plan", objection="no"))
        return [receipt.reason, Objection(target="plan", objection="other")]

    run = await handled(lambda emission, view: Inject("ok"), what=undeclared)
    assert run["a"].value[0] == "not_granted"
    assert run.result.spawned == ()
    assert [fact.data["reason"] for fact in run.of("EmissionRefused")] == ["not_granted"] * 2


async def test_a_second_handler_is_an_error():
    """Roles 4: one handler per type; the error names both; an async one is refused."""
    async with Session() as session:
        session.handles(Objection, len)
        with pytest.raises(OperationError, match="len.*print"):
            session.handles(Objection, print)
        with pytest.raises(OperationError, match="async"):
            session.handles(Finding, objects.fn)


async def test_emissions_that_lie():
    """Roles 3: undeclared, forged and look-alike emissions: refused with the reason, or plain data."""

    class Verdict2(Finding):
        """A subclass is a type of its own."""

    forged = type("SpawnRequest", (SpawnRequest,), {"__module__": __name__})

    @role(emits=(Finding, SpawnRequest))
    async def lies(turn):
        receipts = [
            await turn.emit(Objection(target="t", objection="o")),
            await turn.emit(Verdict2(description="sub")),
            await turn.emit(forged(assignee="ok")),
            await turn.emit(EscalationRequest(reason="fine", urgency="fyi")),
        ]
        look_alike = {"emission_kind": "SpawnRequest", "assignee": "ok", "instruction": ""}
        text = '```SpawnRequest\n{"assignee": "ok", "node": "somebody else"}\n```'
        return {"reasons": [bool(r) or r.reason for r in receipts], "data": look_alike, "text": text}

    graph = OperationGraphBuilder()
    graph.add_operation(lies, node_id="a")
    run = await ran(graph, ok)
    assert run["a"].value["reasons"] == ["not_granted", "not_granted", "forged", True]
    assert run.result.spawned == ()
    assert [d.reason for d in run.result.dropped_spawns] == ["forged", "forged"]
    assert run["a"].value["data"]["assignee"] == "ok"


async def test_a_flood_of_refused_spawns():
    """Kernel 3, engine 22: 100,000 refusals of one kind cost a count, not 100,000 facts."""

    @role(emits=(SpawnRequest,))
    async def floods(turn):
        request = SpawnRequest(assignee="ok")
        refused = 0
        for _ in range(100_000):
            refused += isinstance(await turn.emit(request), Refused)
        return refused

    graph = OperationGraphBuilder()
    graph.add_operation(floods, node_id="a")
    run = await ran(graph, ok, budget=Budget(spawns=1))
    assert run["a"].value == 99_999
    assert len(run.facts) < 120
    assert sum(d.count for d in run.result.dropped_spawns) == 99_999
    assert [d.count for d in run.result.dropped_spawns] == [1] * 100 + [99_899]
    (total,) = run.of("Refusals")
    assert total.data["counts"] == {"max_spawn_exceeded": 99_899}
