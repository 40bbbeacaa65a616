"""Cases of the bug reports that need a journal on disk, or many runs of one process."""

from __future__ import annotations

import collections
import gc
import socket
import weakref
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import (
    Budget,
    OperationError,
    OperationGraphBuilder,
    Retry,
    RunReason,
    Session,
    Verdict,
    open_journal,
    role,
)

pytestmark = pytest.mark.anyio


def graph_of(*nodes: Any) -> OperationGraphBuilder:
    """A graph of (role, name, what it depends on, more)."""
    graph = OperationGraphBuilder("case")
    for what, name, after, *more in nodes:
        graph.add_operation(what, node_id=name, depends_on=list(after), **(more[0] if more else {}))
    return graph


class Scene:
    """What the test at hand has to do with its roles, which a journal on disk finds by name."""

    #: what was called, in order
    calls: list[Any]
    make: Any
    run: Any
    scope: anyio.CancelScope
    waits: anyio.Event | None


@pytest.fixture(autouse=True)
def scene():
    """Nothing of the test before."""
    Scene.calls, Scene.make, Scene.waits = [], None, None


@role()
async def branch(turn):
    Scene.calls.append(turn.node)
    if Scene.waits is not None and turn.node == "b":
        Scene.waits.set()
        await anyio.sleep_forever()
    return turn.node


@role()
async def join(turn):
    return list(turn.inputs.values())


@role()
async def step(turn):
    Scene.calls.append(turn.node)
    if turn.node == "two":
        Scene.run.drain()
    return turn.node


@role()
async def gives(turn):
    return Scene.make()


@role()
async def reads(turn):
    return {"got": dict(turn.inputs), "failed": {name: str(one) for name, one in turn.failed.items()}}


@role()
async def fails(turn):
    turn.write("tries", turn.attempt, replace=True)
    raise ValueError


@role()
async def is_stopped(turn):
    Scene.calls.append(turn.node)
    Scene.scope.cancel()
    try:
        await anyio.sleep_forever()
    finally:
        Scene.calls.append("stopped")


@role()
async def works(turn):
    return 1


@role(emits=(Verdict,))
async def critic(turn):
    return Verdict(verdict="REJECT", rationale="no")


@role()
async def publish(turn):
    Scene.calls.append(turn.node)


async def outcome(make: Any, journal: Path | None) -> tuple[Any, ...]:
    """What becomes of a node that gives ``make()``, and what the node after it is handed."""

    Scene.make = make
    async with Session(journal=journal) as session:
        result = await session.flow(graph_of((gives, "a", ()), (reads, "b", ["a"])))
    return result["a"].status, result["a"].value, str(result["a"].error), result["b"].value


async def test_what_waited_and_what_ran_are_both_of_the_fan(tmp_path):
    """RESUME 67: of a fan of three one has settled, one runs and one waits for a slot when the run stops; on
    resume these two run, and the join sees three."""
    Scene.waits = anyio.Event()
    fan = graph_of(*((branch, name, ()) for name in "abc"), (join, "joined", "abc"))
    async with Session([branch, join], journal=tmp_path / "j.db") as session:
        run = await session.start(fan, budget=Budget(concurrency=1))
        await Scene.waits.wait()
        run.interrupt()
        assert (await run.wait()).reason is RunReason.INTERRUPTED
    Scene.waits = None
    async with Session([branch, join], journal=tmp_path / "j.db") as session:
        result = await (await session.resume()).wait()
    assert result["joined"].value == ["a", "b", "c"]
    assert collections.Counter(Scene.calls) == {"a": 1, "b": 2, "c": 1}


async def test_a_run_that_stopped_between_two_nodes_holds_no_other_up(tmp_path):
    """RESUME 73: with one slot, a run that stopped behind its second node goes on at its third, and the
    runs begun behind it finish."""
    chain = graph_of((step, "one", ()), (step, "two", ["one"]), (step, "three", ["two"]))
    async with Session([step], journal=tmp_path / "j.db") as session:
        run = Scene.run = await session.start(chain, budget=Budget(concurrency=1))
        assert (await run.wait()).reason is RunReason.DRAINED
    async with Session([step], journal=tmp_path / "j.db") as session:
        going = await session.resume(run.id)
        others = [await session.start(graph_of((step, f"other{n}", ()))) for n in range(2)]
        assert [(await one.wait()).reason for one in (going, *others)] == [RunReason.COMPLETED] * 3
    assert sorted(Scene.calls) == ["one", "other0", "other1", "three", "two"]


async def test_each_of_several_parallel_bodies_starts_once():
    """RESUME 76: one settles while the others work; what was dispatched is not dispatched again."""
    begun = []

    @role()
    async def work(turn):
        begun.append((turn.node, turn.attempt))
        for _ in range(10 * "cba".find(turn.node)):
            await anyio.lowlevel.checkpoint()
        return turn.node

    async with Session() as session:
        result = await session.flow(graph_of(*((work, name, ()) for name in "abc"), (work, "d", "abc")))
    assert result.ok
    assert sorted(begun) == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


class Word(str):
    """A subclass of an exact type."""

    __slots__ = ()


@pytest.mark.parametrize(
    "make",
    [
        lambda: collections.Counter("aab"),
        lambda: collections.OrderedDict(a=1),
        lambda: collections.defaultdict(int, a=1),
        lambda: collections.deque([1, 2], maxlen=2),
        lambda: Word("x"),
        lambda: {"fn": print},
        lambda: {"context": {"fn": print}},
        lambda: [float("nan")],
        lambda: {"n": float("inf")},
        lambda: -(2**70),
    ],
    ids=["counter", "ordered", "defaultdict", "deque", "str", "function", "context", "nan", "inf", "2**70"],
)
async def test_memory_and_disk_take_and_refuse_the_same(make, tmp_path):
    """SERDE 79, 80, 82: a value is the same data in both for whoever reads it, or refused in both by name."""
    memory = await outcome(make, None)
    disk = await outcome(make, tmp_path / "j.db")
    assert memory == disk
    status, value, error, read = disk
    if status == "completed":
        assert type(value) in {dict, list, str, int}
        assert read["got"] == {"a": value}
    else:
        assert read["failed"].keys() == {"a"}
        assert "a" in error
        assert error != "None"


class Two(Exception):
    """Cannot be made again from its text."""

    def __init__(self, one: object, two: object) -> None:
        self.held = one
        super().__init__(f"holds {type(one).__name__} and {two}")


async def test_an_exception_that_cannot_be_stored_holds_no_join_up(tmp_path):
    """SERDE 81: an error is on record as type and text; a node that tolerates the failure runs."""

    def make():
        with socket.socket() as held:
            raise Two(held, "more")

    status, _, error, read = await outcome(make, tmp_path / "j.db")
    assert (status, error) == ("failed", "Two: holds socket and more")
    assert read == {"got": {}, "failed": {"a": error}}


async def test_a_new_run_has_all_of_its_attempts(tmp_path):
    """RETRY 97: attempts are counted by run, whatever context is handed from one to the next."""

    graph = graph_of((fails, "a", (), {"retry": Retry(attempts=2, backoff=0)}))
    async with Session(journal=tmp_path / "j.db") as session:
        first = await session.flow(graph)
        second = await session.flow(graph, context=dict(first.final_context))
    assert [one["a"].attempts for one in (first, second)] == [2, 2]


async def test_who_stops_waiting_stops_the_work(tmp_path):
    """TIME 99: a deadline around a flow stops what runs and what waits for a slot; nothing succeeds later."""
    async with Session(journal=tmp_path / "j.db") as session:
        with anyio.CancelScope() as Scene.scope:
            await session.flow(
                graph_of((is_stopped, "runs", ()), (is_stopped, "queued", ())), budget=Budget(concurrency=1)
            )
        assert Scene.scope.cancelled_caught
    assert Scene.calls == ["runs", "stopped"]
    with open_journal(tmp_path / "j.db") as journal:
        (run,) = journal.runs()
    assert run.reason in {"cancelled", "interrupted"}


async def test_a_failed_run_keeps_nothing_of_what_failed():
    """MEM 128: an error is text; what its frames held is free when the run is dropped."""
    held = []

    class Big:
        """Can be referred to weakly."""

    @role()
    async def fails(turn):
        big = Big()
        held.append(weakref.ref(big))
        raise ValueError(id(big))

    async with Session() as session:
        for _ in range(20):
            assert not (await session.flow(graph_of((fails, "a", ())))).ok
        gc.collect()
        assert [one() for one in held] == [None] * 20


async def test_readers_of_runs_that_are_over_are_gone():
    """MEM 129: who read a run's events does so no more when the run is over; a tap of the session stays."""
    told = []

    async with Session() as session:
        bus = session.bus
        before = len(bus._receivers)
        for _ in range(20):
            async with session.tap(told.append, kinds=("RunEnded",)):
                run = await session.start(graph_of((works, "a", ())))
                async with run.events() as events:
                    kinds = [event.kind async for event in events]
                await run.wait()
            assert kinds[-1] == "RunEnded"
        assert len(bus._receivers) == before
    assert len(told) == 20


async def test_a_gate_that_rejected_is_not_gone_past(tmp_path):
    """S40: a run whose gate rejected has ended; to resume it starts nothing, and the veto is on record."""
    graph = graph_of((critic, "gate", (), {"gate": True}), (publish, "publish", ["gate"]))
    async with Session([critic, publish], journal=tmp_path / "j.db") as session:
        result = await session.flow(graph)
        assert result.reason is RunReason.GATE_REJECTED
    async with Session([critic, publish], journal=tmp_path / "j.db") as session:
        with pytest.raises(OperationError, match="gate_rejected"):
            await session.resume(result.run)
    with open_journal(tmp_path / "j.db") as journal:
        (known,) = journal.runs()
    assert known.reason == "gate_rejected"
    assert Scene.calls == []
