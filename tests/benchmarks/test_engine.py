"""What the engine costs per node and per spawn, against bare anyio on the same loop in the same run."""

from __future__ import annotations

import tracemalloc
from typing import Literal

import anyio
import pytest

from orchestrator import Budget, OperationGraphBuilder, Session
from tests.benchmarks import shapes
from tests.benchmarks.measure import best, row, timed

pytestmark = pytest.mark.benchmark

Backend = Literal["asyncio", "trio"]
BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")
GRAPHS = {"chain": shapes.chain, "fan": shapes.fan, "layers": shapes.layers}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Both loops."""
    return request.param


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_a_node_costs_at_most_one_and_a_half_bare_tasks(backend: Backend, count: int) -> None:
    """Chain, fan and layers at 64 slots and at 5, with a tap that counts every fact."""
    runs = {"bare chain": lambda: anyio.run(shapes.bare_chain, count, backend=backend)}
    for name, make in GRAPHS.items():
        graph = make(count)
        for slots in (64, 5):

            def run(graph: object = graph, slots: int = slots) -> float:
                return anyio.run(shapes.engine, graph, slots, backend=backend)[0]

            runs[f"{name}, {slots} slots"] = run
    least = best(runs)
    bare = least.pop("bare chain")
    print(f"\n{backend}, {count:,} nodes; bare chain {bare / count * 1e6:.2f} us")
    for name, seconds in least.items():
        print(row(name, seconds, count, bare))
    assert max(least.values()) <= 1.5 * bare


def test_the_cost_of_a_node_does_not_grow_with_the_graph(backend: Backend) -> None:
    """Per node within 1.3x from 1,000 to 10,000 nodes."""
    runs = {}
    for name, make in GRAPHS.items():
        for count in (1_000, 10_000):
            graph = make(count)

            def run(graph: object = graph, count: int = count) -> float:
                return anyio.run(shapes.engine, graph, 64, backend=backend)[0] / count

            runs[f"{name} {count}"] = run
    least = best(runs)
    ratios = {name: least[f"{name} 10000"] / least[f"{name} 1000"] for name in GRAPHS}
    print(f"\n{backend}:", {name: round(ratio, 2) for name, ratio in ratios.items()})
    assert max(ratios.values()) <= 1.3


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_a_spawn_costs_at_most_two_and_a_half_bare_ones(backend: Backend, count: int) -> None:
    """One parent, a tree, a chain of children; the bare bodies build the same request."""
    runs = {"bare": lambda: anyio.run(shapes.bare_spawns, count, backend=backend)}
    for shape in ("parent", "tree", "descent"):

        def run(shape: str = shape) -> float:
            return anyio.run(shapes.growth, shape, count, 64, backend=backend)

        runs[shape] = run
    least = best(runs)
    bare = least.pop("bare")
    print(f"\n{backend}, {count:,} spawns; bare {bare / count * 1e6:.2f} us")
    for name, seconds in least.items():
        print(row(name, seconds, count, bare))
    assert max(least.values()) <= 2.5 * bare


def test_a_node_keeps_at_most_four_kibibytes() -> None:
    """What a finished run of 10,000 nodes holds, its journal in memory included."""

    async def main() -> int:
        graph = shapes.chain(10_000)
        async with Session() as session:
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            run = await session.start(graph, budget=Budget(concurrency=64))
            await run.wait()
            after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return (after - before) // 10_000

    held = anyio.run(main)
    print(f"\n{held} bytes a node")
    assert held <= 4 * 1024


def test_a_waiting_node_costs_no_task() -> None:
    """100,000 nodes behind one that does not finish: a handful of tasks; building is linear."""

    def build(count: int) -> OperationGraphBuilder:
        builder = OperationGraphBuilder("wide")
        builder.add_operation("hold", "root", [])
        for number in range(count):
            builder.add_operation(shapes.noop, f"n{number}", ["root"])
        return builder

    least = best(
        {str(count): lambda count=count: timed(lambda: build(count)) for count in (20_000, 100_000)}, 3
    )
    print(f"\nbuilding: {least['100000'] / least['20000']:.2f}x for 5x the nodes")
    assert least["100000"] <= 2.0 * 5 * least["20000"]

    async def main() -> int:
        counted: list[int] = []

        async def hold(_turn: object) -> None:
            counted.append(anyio.get_current_task().id)

        async with Session() as session:
            session.register_operation("hold", hold)
            run = await session.start(build(100_000))
            tasks = len(run.engine.workers.active) + len(run.engine.workers.starts)
            await run.wait()
        return tasks

    assert anyio.run(main) <= 64
