"""Growth: S1 to S12 and S14 to S16 of the kernel scenarios. Refusals and hooks are in test_growth_edges."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import (
    Accepted,
    Budget,
    OperationGraphBuilder,
    Refused,
    Session,
    SpawnRequest,
    role,
)
from tests.scenarios.conftest import lawful, ok, ran


@role()
async def child(turn):
    return turn.parameters.get("n", "child")


def graph_of(emitter, *, after=None):
    graph = OperationGraphBuilder()
    graph.add_operation(emitter, node_id="start")
    if after is not None:
        graph.add_operation(after, node_id="after", depends_on=["start"])
    return graph


async def test_S1_one_returned_request_is_one_child():
    """S1: the child runs in the same run, the roster names it, the count is 1."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return SpawnRequest(assignee="child", parameters={"n": 7})

    run = await ran(graph_of(grows), child)
    assert run.reason == "completed"
    assert run.result.spawned == ("start.child-1",)
    assert run.result.spawned_operations == 1
    assert run["start.child-1"].value == 7
    assert run["start.child-1"].spawned_by == "start"
    assert run.result.completed_operations == ("start", "start.child-1")


async def test_S2_put_on_the_bus_is_the_same_outcome():
    """S2: emitted in the middle of the node instead of returned: same child, attributed to the emitter."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        receipt = await turn.emit(SpawnRequest(assignee="child"))
        return {"receipt": receipt.node}

    run = await ran(graph_of(grows), child)
    assert run["start"].value == {"receipt": "start.child-1"}
    assert run["start.child-1"].spawned_by == "start"
    (accepted,) = run.of("EmissionAccepted")
    assert (accepted.node, accepted.role, accepted.data["child"]) == ("start", "grows", "start.child-1")


async def test_S3_dependent_waits_independent_overlaps():
    """S3: a dependent child starts after its emitter settled; an independent one while it still runs."""
    met = anyio.Event()

    @role()
    async def meets(turn):
        met.set()

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        await turn.emit(SpawnRequest(assignee="child"))
        await turn.emit(SpawnRequest(assignee="meets", independent=True))
        await met.wait()  # would wait for ever if the independent child waited for its emitter

    run = await ran(graph_of(grows), child, meets)
    assert run.reason == "completed"
    assert run.place("NodeStarted", "start.meets-1") < run.place("NodeCompleted", "start")
    assert run.place("NodeStarted", "start.child-1") > run.place("NodeCompleted", "start")


async def test_S4_generations_until_a_condition_holds():
    """S4: child spawns child: the exact number of generations, all in the roster, depth counted."""

    @role(emits=(SpawnRequest,))
    async def digs(turn):
        left = turn.parameters.get("left", 5)
        return [SpawnRequest(parameters={"left": left - 1})] if left else []

    run = await ran(graph_of(digs))
    assert run.result.spawned == tuple(f"start.digs-{n}" for n in range(1, 6))
    assert [run[name].spawned_by for name in run.result.spawned] == ["start", *run.result.spawned[:-1]]
    assert run.reason == "completed"


async def test_S4_generations_stop_at_the_depth():
    """S4, kernel 8: the generation beyond ``depth`` is refused ``depth``, the run goes on."""

    @role(emits=(SpawnRequest,))
    async def digs(turn):
        receipt = await turn.emit(SpawnRequest())
        return receipt.reason if not receipt else "deeper"

    run = await ran(graph_of(digs), budget=Budget(depth=3))
    assert run.result.spawned == ("start.digs-1", "start.digs-2", "start.digs-3")
    assert run["start.digs-3"].value == "depth"
    (dropped,) = run.result.dropped_spawns
    assert (dropped.reason, dropped.emitter_id) == ("depth", "start.digs-3")
    assert run.reason == "completed"


@pytest.mark.parametrize("way", ["emitted", "returned"])
async def test_S5_cap(way):
    """S5: cap N and N+k requests: exactly N run, k refusals with reason, assignee, emitter, key."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        requests = [SpawnRequest(assignee="child", key=f"k{n}") for n in range(8)]
        if way == "returned":
            return requests
        return [bool(await turn.emit(request)) for request in requests]

    graph = graph_of(grows)
    for number in range(4):  # initial nodes do not count
        graph.add_operation(ok, node_id=f"plain{number}", depends_on=[])
    run = await ran(graph, child, budget=Budget(spawns=5))
    assert run.result.spawned_operations == 5
    assert [(d.reason, d.assignee, d.emitter_id, d.key, d.count) for d in run.result.dropped_spawns] == [
        ("max_spawn_exceeded", "child", "start", f"k{n}", 1) for n in (5, 6, 7)
    ]
    assert run.reason == "completed"
    if way == "emitted":
        assert run["start"].value == [True] * 5 + [False] * 3


async def test_S5_cap_below_the_plan_counts_spawns_only():
    """S5, GROW 113: a plan of 14 with a cap of 2 runs whole, and grows by 2."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return [SpawnRequest(assignee="child", key=str(n)) for n in range(3)]

    graph = graph_of(grows)
    for number in range(13):
        graph.add_operation(ok, node_id=f"plain{number}", depends_on=[])
    run = await ran(graph, child, budget=Budget(spawns=2))
    assert len(run.result.completed_operations) == 14 + 2


async def test_S6_cap_zero_offers_nothing():
    """S6: with cap 0 the capability is not granted; nodes and outcomes equal those of a static run."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        receipt = await turn.emit(SpawnRequest(assignee="child"))
        return [bool(receipt), receipt.reason]

    run = await ran(graph_of(grows, after=ok), child, budget=Budget(spawns=0))
    assert run["start"].value == [False, "not_granted"]
    assert run.statuses() == {"start": "completed", "after": "completed"}
    assert run.result.spawned_operations == 0
    assert [d.reason for d in run.result.dropped_spawns] == ["not_granted"]


async def test_S8_injection_outside_a_running_run():
    """S8: before the run is driven and after it is over: false, and no node anywhere."""
    async with Session([child]) as session:
        live = await session.start(graph_of(ok))
        run = await lawful(live)
        receipt = live.inject("child")
        assert not receipt
        assert receipt.reason == "not_running"
        assert list(run.result.nodes) == ["start"]
        assert len(run.facts) == len([event async for event in live.events()])


async def test_S9_an_existing_node_is_not_injected_again():
    """S9: not counted and not executed twice."""
    calls = []
    go = anyio.Event()

    @role()
    async def counted(turn):
        calls.append(turn.node)
        await go.wait()

    async with Session([counted]) as session:
        live = await session.start(graph_of(counted))
        receipt = live.inject("counted", node_id="start")
        assert not receipt
        assert receipt.reason == "exists"
        go.set()
        run = await lawful(live)
    assert calls == ["start"]
    assert run.result.spawned_operations == 0
    assert [d.reason for d in run.result.dropped_spawns] == ["exists"]


async def test_S10_after_an_unknown_node():
    """S10: refused ``unknown_node``, no orphan left, siblings of the same emitter still judged."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        bad = await turn.emit(SpawnRequest(assignee="child", after=["nobody"]))
        good = await turn.emit(SpawnRequest(assignee="child"))
        return [bad.reason, good.node]

    run = await ran(graph_of(grows), child)
    assert run["start"].value == ["unknown_node", "start.child-1"]
    assert list(run.result.nodes) == ["start", "start.child-1"]


async def test_S12_same_object_seen_on_bus_and_in_result():
    """S12, bad-inputs 16: one child, and one duplicate on record."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        request = SpawnRequest(assignee="child")
        assert await turn.emit(request)
        return {"asked": [request]}

    run = await ran(graph_of(grows), child)
    assert run.result.spawned == ("start.child-1",)
    assert [(d.reason, d.assignee) for d in run.result.dropped_spawns] == [("duplicate", "child")]


async def test_S12_equal_copy_over_another_channel():
    """S12, kernel 3: an equal copy over another channel is the same one: one child, one duplicate record."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        assert await turn.emit(SpawnRequest(assignee="child", instruction="look"))
        return SpawnRequest(assignee="child", instruction="look")

    run = await ran(graph_of(grows), child)
    assert run.result.spawned == ("start.child-1",)
    assert [d.reason for d in run.result.dropped_spawns] == ["duplicate"]


async def test_S12_equal_copies_over_one_channel_are_two():
    """Kernel 3: two equal ones over the same channel are two; a third over another is neither."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        for _ in range(2):
            assert await turn.emit(SpawnRequest(assignee="child"))
        return [SpawnRequest(assignee="child") for _ in range(3)]

    run = await ran(graph_of(grows), child)
    assert run.result.spawned == ("start.child-1", "start.child-2", "start.child-3")
    assert [d.reason for d in run.result.dropped_spawns] == ["duplicate", "duplicate"]


@pytest.mark.parametrize("where", ["call", "result"])
async def test_S12_a_key_decides(where):
    """S12, bad-inputs 16: equal-but-distinct copies, even unequal ones, with one key are one child."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        assert await turn.emit(SpawnRequest(assignee="child", key="k", instruction="one"))
        again = SpawnRequest(assignee="child", key="k", instruction="two")
        if where == "result":
            return again
        receipt = await turn.emit(again)
        return [bool(receipt), receipt.reason]

    run = await ran(graph_of(grows), child)
    assert run.result.spawned == ("start.child-1",)
    assert [(d.reason, d.key) for d in run.result.dropped_spawns] == [("duplicate", "k")]
    if where == "call":
        assert run["start"].value == [False, "duplicate"]


async def test_S12_a_key_decides_across_attempts():
    """S12, engine 13: a later attempt that emits the same again gets the recorded receipt."""

    @role(emits=(SpawnRequest,), retry=2)
    async def grows(turn):
        keyed = await turn.emit(SpawnRequest(assignee="child", key="k"))
        plain = await turn.emit(SpawnRequest(assignee="child", instruction="by content"))
        if turn.attempt == 1:
            raise ValueError("once")
        return [keyed.node, plain.node]

    run = await ran(graph_of(grows), child)
    assert run["start"].value == ["start.child-1", "start.child-2"]
    assert run.result.spawned_operations == 2
    assert run.result.dropped_spawns == ()


async def test_S12_an_injected_key_decides():
    """S12, kernel 3: ``run.inject`` with a key that was used is the same node, recorded as a duplicate."""
    go = anyio.Event()

    @role()
    async def holds(turn):
        await go.wait()

    async with Session([child]) as session:
        live = await session.start(graph_of(holds))
        first, again, other = (live.inject("child", key=key) for key in ("k", "k", "x"))
        go.set()
        run = await lawful(live)
    assert isinstance(first, Accepted)
    assert isinstance(again, Refused)
    assert again.reason == "duplicate"
    assert run.result.spawned == (first.node, other.node)
    assert [(d.reason, d.key) for d in run.result.dropped_spawns] == [("duplicate", "k")]
