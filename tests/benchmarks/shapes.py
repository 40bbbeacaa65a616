"""The shapes that are measured: bare anyio on one side, the engine on the other, the same bodies."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from orchestrator import Accepted, Budget, OperationGraphBuilder, Session, SpawnRequest, Turn, role
from orchestrator.flows.graph import Graph
from orchestrator.runtime.envelopes import Envelope

Clock = Callable[[], float]
now = time.perf_counter


@role()
async def noop(_turn: Turn) -> None:
    """The body that is measured: nothing."""


# --- bare anyio --------------------------------------------------------------------------------


async def bare_chain(count: int) -> float:
    """A chain of tasks, each started by the one before: the denominator of every ratio."""

    async def node(group: TaskGroup, left: int) -> None:
        if left > 1:
            group.start_soon(node, group, left - 1)

    began = now()
    async with anyio.create_task_group() as group:
        group.start_soon(node, group, count)
    return now() - began


async def bare_spawns(count: int) -> float:
    """The same chain, where each task builds the SpawnRequest that the engine's parents build."""

    async def node(group: TaskGroup, left: int) -> None:
        SpawnRequest(assignee="noop", parameters={"left": left}, independent=True)
        if left > 1:
            group.start_soon(node, group, left - 1)

    began = now()
    async with anyio.create_task_group() as group:
        group.start_soon(node, group, count)
    return now() - began


# --- graphs ------------------------------------------------------------------------------------


def chain(count: int) -> Graph:
    """One node after another."""
    graph = OperationGraphBuilder("chain")
    before: list[str] = []
    for number in range(count):
        before = [graph.add_operation(noop, f"n{number}", before)]
    return graph.get_graph()


def fan(count: int) -> Graph:
    """A root, ``count`` nodes after it, a sink after them."""
    graph = OperationGraphBuilder("fan")
    graph.add_operation(noop, "root", [])
    names = [graph.add_operation(noop, f"n{number}", ["root"]) for number in range(count)]
    graph.add_operation(noop, "sink", names)
    return graph.get_graph()


def layers(count: int) -> Graph:
    """Layers of 50, each node after three of the layer above."""
    width = 50
    graph = OperationGraphBuilder("layers")
    for number in range(count):
        layer, place = divmod(number, width)
        above = [f"n{(layer - 1) * width + (place + step) % width}" for step in (0, 7, 19)] if layer else []
        graph.add_operation(noop, f"n{number}", above)
    return graph.get_graph()


# --- the engine --------------------------------------------------------------------------------


async def engine(graph: Graph, slots: int, roles: tuple[Any, ...] = (), **budget: int) -> tuple[float, int]:
    """Run a graph once.

    Returns:
        Seconds from start to result, and the number of nodes.
    """
    counted = 0

    async def count(_envelope: Envelope) -> None:
        nonlocal counted
        counted += 1

    async with Session(roles=roles) as session, session.tap(count):
        began = now()
        run = await session.start(graph, budget=Budget(concurrency=slots, **budget))
        result = await run.wait()
        took = now() - began
    assert result.ok, (result.reason, result.detail)
    assert counted == run.engine.state.facts, "the tap that counts every fact lost some"
    return took, len(result.nodes)


# --- growth ------------------------------------------------------------------------------------


@role(emits=(SpawnRequest,))
async def parent(turn: Turn) -> None:
    """One parent that asks for every child."""
    for number in range(turn.parameters["count"]):
        receipt = await turn.emit(
            SpawnRequest(assignee="noop", parameters={"left": number}, independent=True)
        )
        assert isinstance(receipt, Accepted), receipt


@role(emits=(SpawnRequest,))
async def tree(turn: Turn) -> None:
    """A node that asks for two of its kind until ``left`` is used up."""
    left = turn.parameters["left"] - 1
    for share in (left // 2, left - left // 2):
        if share > 0:
            receipt = await turn.emit(
                SpawnRequest(assignee="tree", parameters={"left": share}, independent=True)
            )
            assert isinstance(receipt, Accepted), receipt


@role(emits=(SpawnRequest,))
async def descent(turn: Turn) -> None:
    """A node that asks for one child, which does the same."""
    left = turn.parameters["left"] - 1
    if left > 0:
        receipt = await turn.emit(
            SpawnRequest(assignee="descent", parameters={"left": left}, independent=True)
        )
        assert isinstance(receipt, Accepted), receipt


async def growth(shape: str, count: int, slots: int) -> float:
    """Seconds to grow ``count`` nodes in one of three shapes."""
    graph = OperationGraphBuilder(shape)
    if shape == "parent":
        graph.add_operation(parent, depends_on=[], count=count)
    elif shape == "tree":
        graph.add_operation(tree, depends_on=[], left=count + 1)
    else:
        graph.add_operation(descent, depends_on=[], left=count + 1)
    took, nodes = await engine(graph.get_graph(), slots, (noop, tree, descent), spawns=count, depth=count + 1)
    assert nodes == count + 1, nodes
    return took
