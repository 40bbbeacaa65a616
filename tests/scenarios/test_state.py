"""STATE of the bug reports: what a node is given is its own; nothing is left over between runs."""

from __future__ import annotations

import contextvars

import anyio
import pytest

from orchestrator import Budget, OperationGraphBuilder, Session, SpawnRequest, role
from orchestrator.testing.loops import run_seeded
from tests.scenarios.conftest import lawful, ok, order, ran


async def test_STATE_83_changing_what_was_given_changes_nothing():
    """STATE 83, law 14: inputs, context, parameters, and the caller's own objects are as they were."""
    given, first = {"list": [1]}, {"shared": [1]}

    @role()
    async def spoils(turn):
        turn.inputs["source"]["list"].append(turn.node)
        turn.context["shared"].append(turn.node)
        turn.parameters["given"]["list"].append(turn.node)
        return turn.inputs["source"], turn.context["shared"], turn.parameters["given"]

    @role()
    async def source(turn):
        return turn.parameters["given"]

    graph = OperationGraphBuilder()
    graph.add_operation(source, node_id="source", given=given)
    for name in ("left", "right"):
        graph.add_operation(spoils, node_id=name, depends_on=["source"], given=given)
    graph.add_operation(spoils, node_id="last", depends_on=["left", "source", "right"], given=given)
    async with Session() as session:
        run = await lawful(await session.start(graph, context=first))
    assert given == {"list": [1]}
    assert first == {"shared": [1]}
    assert run["source"].value == {"list": [1]}
    assert run.result.final_context == {"shared": [1]}
    assert run["left"].value[1] == [1] or run["left"].value[1] == [1, "left"]
    assert run["right"].value[0] == {"list": [1, "right"]}
    run["source"].value["list"].append("mine")
    assert run["source"].value == {"list": [1]}


@pytest.mark.parametrize("seed", range(0, 500, 50))
def test_STATE_85_87_writes_of_parallel_nodes(anyio_backend, seed):
    """STATE 85, 87: eight nodes write at once, different keys and one key with a reducer: all are there."""

    @role()
    async def writes(turn):
        await anyio.lowlevel.checkpoint()
        turn.write(turn.node, 1)
        turn.write("all", turn.node)

    graph = OperationGraphBuilder()
    names = [graph.add_operation(writes, node_id=f"w{n}", depends_on=[]) for n in range(8)]
    graph.add_operation(order, node_id="join", depends_on=names)

    async def once():
        return await ran(graph, reducers={"all": "append"})

    for one in range(seed, seed + 50, 5):
        run = run_seeded(once, seed=one, backend=anyio_backend)
        assert run.result.final_context == {**dict.fromkeys(names, 1), "all": names}


@pytest.mark.parametrize("taken", [True, False])
async def test_STATE_89_results_survive_a_conditional_node(taken):
    """STATE 89: parallel A and B are there at the end and in D, with C taken and not."""

    @role()
    async def reads(turn):
        return dict(turn.inputs)

    graph = OperationGraphBuilder()
    for name in "ab":
        graph.add_operation(ok, node_id=name, depends_on=[])
    graph.add_operation(ok, node_id="c", depends_on=["a", "b"], when="a == 'a'" if taken else "a == 'b'")
    graph.add_operation(reads, node_id="d", depends_on=["a", "b", "c"])
    run = await ran(graph)
    wanted = {"a": "a", "b": "b", **({"c": "c"} if taken else {})}
    assert run["d"].value == wanted
    assert run.result.operation_results == {**wanted, "d": wanted}


@pytest.mark.parametrize("concurrency", [1, 5])
async def test_STATE_90_one_function_builds_inputs(concurrency):
    """STATE 90: a node's inputs are the same whether it ran beside others or alone, in loop or thread."""

    @role()
    async def in_loop(turn):
        return [list(turn.inputs), dict(turn.context)]

    @role()
    def in_thread(turn):
        return [list(turn.inputs), dict(turn.context)]

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="p", depends_on=[])
    for number in range(3):
        graph.add_operation(in_loop, node_id=f"loop{number}", depends_on=["p"])
        graph.add_operation(in_thread, node_id=f"thread{number}", depends_on=["p"])
    run = await ran(graph, budget=Budget(concurrency=concurrency), context={"k": 1})
    values = [node.value for name, node in run.result.nodes.items() if name != "p"]
    assert values == [[["p"], {"k": 1}]] * 6


tenant = contextvars.ContextVar("tenant", default="nobody")


async def test_STATE_91_ambient_context():
    """STATE 91: nodes see the run's value, in loop and thread; what one sets shows in no other, nor
    outside.
    """

    @role()
    async def sets(turn):
        before = tenant.get()
        tenant.set(turn.node)
        await anyio.lowlevel.checkpoint()
        return [before, tenant.get()]

    @role()
    def sets_in_thread(turn):
        before = tenant.get()
        tenant.set(turn.node)
        return [before, tenant.get()]

    graph = OperationGraphBuilder()
    for number in range(3):
        graph.add_operation(sets, node_id=f"a{number}")
        graph.add_operation(sets_in_thread, node_id=f"t{number}")
    token = tenant.set("the run's")
    try:
        run = await ran(graph, parallel=False)
    finally:
        assert tenant.get() == "the run's"
        tenant.reset(token)
    assert {name: node.value for name, node in run.result.nodes.items()} == {
        name: ["the run's", name] for name in run.result.nodes
    }


async def test_STATE_92_one_graph_many_runs():
    """STATE 92: the same frozen graph, twice and twice at once, with other input: as with fresh objects."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        wanted = turn.context["wanted"]
        turn.write("seen", wanted)
        return [SpawnRequest(assignee="ok", key=str(n), before="successors") for n in range(wanted)]

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="a")
    graph.add_operation(order, node_id="b")
    frozen = graph.get_graph()
    async with Session([ok]) as session:
        lives = [await session.start(frozen, context={"wanted": n}) for n in (1, 3)]
        runs = [await lawful(live) for live in lives]
        runs.append(await lawful(await session.start(frozen, context={"wanted": 0})))
    assert [len(run["b"].value) for run in runs] == [2, 4, 1]
    assert [run.result.final_context["seen"] for run in runs] == [1, 3, 0]
    assert len(frozen.operations) == 2
    assert len(frozen.edges) == 1
