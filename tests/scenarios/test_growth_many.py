"""Growth: S23, many at once, task assignments, bad-inputs 18 and 19."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import (
    Accepted,
    Budget,
    OperationGraphBuilder,
    SpawnRequest,
    TaskAssignment,
    role,
)
from orchestrator.testing.loops import run_seeded
from tests.scenarios.conftest import ran


@role()
async def child(turn):
    return turn.parameters.get("n", "child")


async def test_S23_a_thousand_sequential_spawns():
    """S23: a thousand children of one node, each joined; facts grow linearly with them.

    Time is not measured here (the benchmarks do); what is: work counted in facts, and that all run.
    """

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        for number in range(1_000):
            assert await turn.emit(
                SpawnRequest(assignee="child", parameters={"n": number}, before="successors")
            )

    @role()
    async def joins(turn):
        return list(turn.inputs.values())

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="start")
    graph.add_operation(joins, node_id="join", depends_on=["start"])
    run = await ran(graph, child, budget=Budget(spawns=1_000, concurrency=64))
    assert run["join"].value == [None, *range(1_000)]
    assert len(run.facts) < 7 * 1_000 + 20


async def test_S15_successors_of_a_grown_node():
    """Engine 18: what waits for a grown node because it was joined is its successor: a grandchild joins
    it too.
    """

    @role(emits=(SpawnRequest,))
    async def digs(turn):
        left = turn.parameters.get("left", 3)
        if left:
            await turn.emit(SpawnRequest(parameters={"left": left - 1}, before="successors"))

    @role()
    async def joins(turn):
        return list(turn.inputs)

    graph = OperationGraphBuilder()
    graph.add_operation(digs, node_id="start")
    graph.add_operation(joins, node_id="join", depends_on=["start"])
    run = await ran(graph)
    assert run["join"].value == ["start", "start.digs-1", "start.digs-2", "start.digs-3"]


async def test_assignments_are_requests_with_names():
    """Roles 5, bad-inputs 18: same checks, same receipts, each item judged in order, counted as spawns."""

    @role(emits=(TaskAssignment,))
    async def plans(turn):
        def task(name, **more):
            return TaskAssignment(**{"name": name, "task": "do", "assignee": "child", **more})

        tasks = [
            task("one"),
            task("one", task="other"),
            task("start"),
            task("two", assignee="nobody"),
            task("three", depends_on=["ghost"]),
            task("four", depends_on=["one"], inputs={"n": 4}),
            task("not-a-name"),
        ]
        receipts = [await turn.emit(one) for one in tasks]
        return [receipt.node if receipt else receipt.reason for receipt in receipts]

    graph = OperationGraphBuilder()
    graph.add_operation(plans, node_id="start")
    run = await ran(graph, child)
    assert run["start"].value == [
        "one", "exists", "exists", "unknown_assignee", "unknown_node", "four", "invalid",
    ]  # fmt: skip
    assert run.result.spawned == ("one", "four")
    assert run["four"].value == 4
    assert run.place("NodeStarted", "four") > run.place("NodeCompleted", "one")


@pytest.mark.parametrize("first", range(0, 1_000, 250))
def test_cap_holds_under_every_seed(anyio_backend, first):
    """Bad-inputs 19: cap 5, eight spawners with awaits between check and act: 5 accepted under each seed."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        accepted = 0
        for number in range(2):
            await anyio.lowlevel.checkpoint()
            receipt = await turn.emit(SpawnRequest(assignee="child", key=str(number)))
            accepted += isinstance(receipt, Accepted)
        return accepted

    async def once():
        graph = OperationGraphBuilder()
        for number in range(8):
            graph.add_operation(grows, node_id=f"s{number}", depends_on=[])
        return await ran(graph, child, budget=Budget(spawns=5, concurrency=8))

    for seed in range(first, first + 250):
        run = run_seeded(once, seed=seed, backend=anyio_backend)
        accepted = sum(
            node.value for name, node in run.result.nodes.items() if name[0] == "s" and "." not in name
        )
        assert accepted == run.result.spawned_operations == 5, f"seed {seed}"
        assert sum(d.count for d in run.result.dropped_spawns) == 11
