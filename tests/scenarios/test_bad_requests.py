"""Bad inputs 18 and what operators give wrong (law 8)."""

from __future__ import annotations

import math

import anyio
import pytest

from orchestrator import (
    Budget,
    OperationGraphBuilder,
    Refused,
    Session,
    SpawnRequest,
    role,
)
from tests.scenarios.conftest import lawful, ok, ran


async def test_18_each_request_on_its_own():
    """Bad-inputs 18: unknown role, unknown dependency, existing name: each refused, the others considered."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return [
            SpawnRequest(assignee="ghost"),
            SpawnRequest(assignee="ok", key="1"),
            SpawnRequest(assignee="ok", after=["ghost"]),
            SpawnRequest(assignee="ok", before=["ghost"]),
            SpawnRequest(assignee="ok", key="2"),
        ]

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="a")
    run = await ran(graph, ok)
    assert run.result.spawned == ("a.ok-1", "a.ok-2")
    assert [d.reason for d in run.result.dropped_spawns] == [
        "unknown_assignee", "unknown_node", "unknown_node",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        lambda live: live.raise_budget("spawns", math.nan),
        lambda live: live.raise_budget("spawns", math.inf),
        lambda live: live.raise_budget("spawns", "many"),
        lambda live: live.raise_budget("spawns", 3),
        lambda live: live.raise_budget("assignees", 3),
        lambda live: live.raise_budget("nothing", 3),
        lambda live: live.steer("half \ud800"),
        lambda live: live.steer(object()),
        lambda live: live.cancel("half \ud800"),
        lambda live: live.inject("ok", parameters={"x": object()}),
        lambda live: live.inject("ok", parameters={"x": math.nan}),
        lambda live: live.inject("ok", instruction="\ud800"),
        lambda live: live.inject("ok", node_id="not a name"),
        lambda live: live.inject("ok", node_id="\ud800"),
        lambda live: live.inject("nobody"),
        lambda live: live.inject(len),
        lambda live: live.answer("a", "APPROVE"),
        lambda live: live.answer("a", "x", key="no such question"),
        lambda live: live.answer("ghost", "x"),
    ],
)
async def test_operators_that_give_nonsense(call):
    """Law 8: what an operator gives wrong is refused; the run is as it was and goes on."""
    held, go = anyio.Event(), anyio.Event()

    @role()
    async def holds(turn):
        held.set()
        await go.wait()

    graph = OperationGraphBuilder()
    graph.add_operation(holds, node_id="a")
    async with Session([ok]) as session:
        live = await session.start(graph, budget=Budget(spawns=4))
        await held.wait()
        receipt = call(live)
        go.set()
        run = await lawful(live)
    assert isinstance(receipt, Refused)
    assert receipt.reason in {"invalid", "unknown_node", "unknown_assignee"}
    assert run.reason == "completed"
    assert list(run.result.nodes) == ["a"]
