"""Builder: S61 to S64, each as a run: what was built is what happens."""

from __future__ import annotations

import msgspec
import pydantic
import pytest

from orchestrator import (
    Branch,
    DuplicateNodeError,
    ExpansionStrategy,
    Gate,
    GraphError,
    OperationError,
    OperationGraphBuilder,
    Session,
    UnknownNodeError,
    create_operation,
    role,
)
from tests.scenarios.conftest import edges_of, lawful, ok, order, ran, reads


@role()
async def shows(turn):
    return dict(turn.parameters)


async def test_S61_no_dependencies_and_omitted_ones():
    """S61, bad-inputs 35: ``[]`` is a root; omitted dependencies chain onto the current heads."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a", depends_on=[])
    graph.add_operation(ok, node_id="b", depends_on=[])
    graph.add_operation(reads, node_id="c")
    graph.add_operation(reads, node_id="d")
    run = await ran(graph)
    assert [(source, target) for _, source, target in edges_of(run.facts)] == [
        ("a", "c"), ("b", "c"), ("c", "d"),
    ]  # fmt: skip
    assert run["c"].value == {"a": "a", "b": "b"}
    assert run["d"].value == {"c": {"a": "a", "b": "b"}}


@pytest.mark.parametrize(
    ("keys", "error", "match"),
    [
        ({"node_id": "x", "depends_on": ["ghost"]}, UnknownNodeError, "'ghost'"),
        ({"node_id": "a"}, DuplicateNodeError, "'a' exists"),
        ({"node_id": "x", "depends_on": ["x"]}, GraphError, "itself"),
        ({"node_id": "a-b"}, GraphError, "'a_b'"),
        ({"node_id": "class"}, GraphError, "keyword"),
        ({"node_id": "result"}, GraphError, "result_"),
        ({"node_id": "x", "depends_on": "a"}, OperationError, "list of names"),
        ({"node_id": "x", "parameters": {"f": len}}, OperationError, "x"),
        ({"node_id": "x", "needs": "some"}, OperationError, "'any' or 'all'"),
        ({"node_id": "x", "retry": 0}, OperationError, "retry of x"),
        ({"node_id": "x", "gate": True}, OperationError, "does not declare Verdict"),
    ],
)
def test_S62_errors_at_build(keys, error, match):
    """S62: unknown dependency, duplicate name and the like: an error at build, and nothing was added."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    with pytest.raises(error, match=match):
        graph.add_operation(ok, **keys)
    assert list(graph.get_graph().operations) == ["a"]
    assert graph.get_graph().edges == ()


@pytest.mark.parametrize(
    ("node", "match"),
    [
        ({"operation": "sing"}, "'sing'"),
        ({"operation": "operate", "role": "nobody"}, "'nobody'"),
        ({"operation": "operate", "role": "ok", "branch": "nowhere"}, "'nowhere'"),
    ],
)
async def test_S62_names_that_do_not_resolve(node, match):
    """Kernel 1: a verb, role or branch that does not resolve is an error before anything runs."""
    graph = OperationGraphBuilder()
    calls = []

    @role()
    async def first(turn):
        calls.append(turn.node)

    graph.add_operation(first, node_id="first")
    graph.add_operation(node_id="second", **node)
    async with Session([ok]) as session:
        with pytest.raises(OperationError, match=match):
            await session.flow(graph)
    assert calls == []


class Item(pydantic.BaseModel):
    """One item of an expansion."""

    instruction: str
    size: int


class Part(msgspec.Struct):
    """Another one."""

    size: int


async def test_S63_expansion():
    """S63: one child per item, an edge from the source, the item's data, no bookkeeping in the arguments."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="source")
    items = [Item(instruction="Look", size=3), Part(size=4), {"any": "json"}, "text"]
    names = graph.expand_from_result(items, "source", shows, node_id="item", colour="red", size=1)
    run = await ran(graph)
    assert names == ["item_1", "item_2", "item_3", "item_4"]
    assert [run[name].value for name in names] == [
        {"size": 3, "colour": "red"},
        {"size": 4, "colour": "red"},
        {"colour": "red", "size": 1, "item": {"any": "json"}, "item_index": 2},
        {"colour": "red", "size": 1, "item": "text", "item_index": 3},
    ]
    edges = [(source, target) for _, source, target in edges_of(run.facts)]
    assert edges == [("source", name) for name in names]


@pytest.mark.parametrize(
    ("strategy", "after"),
    [
        (ExpansionStrategy.CONCURRENT, {}),
        (ExpansionStrategy.SEQUENTIAL, {2: [1], 3: [2], 4: [3], 5: [4]}),
        (ExpansionStrategy.SEQUENTIAL_CONCURRENT_CHUNK, {3: [1, 2], 4: [1, 2], 5: [3, 4]}),
        (ExpansionStrategy.CONCURRENT_SEQUENTIAL_CHUNK, {2: [1], 4: [3]}),
    ],
)
async def test_S63_the_four_strategies(strategy, after):
    """S63, kernel 1: SEQUENTIAL really orders, the chunk strategies really chunk."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="source")
    graph.expand_from_result(range(5), "source", order, strategy, chunk_size=2, node_id="n")
    run = await ran(graph)
    for number in range(1, 6):
        expected = ["source", *(f"n_{one}" for one in after.get(number, []))]
        assert run[f"n_{number}"].value == expected


@pytest.mark.parametrize("count", [1, 3, 50])
async def test_S64_fan_in(count):
    """S64: waits for N, receives N, in declared order and by name, whatever order the edges came in."""
    graph = OperationGraphBuilder()
    names = [f"n{number}" for number in range(count)]
    for name in names:
        graph.add_operation(ok, node_id=name, depends_on=[])
    graph.add_aggregation(reads, "join", source_node_ids=names[::-1])
    graph.add_aggregation(order, "listed", source_node_ids=names[::-1])
    run = await ran(graph)
    assert run["join"].value == {name: name for name in names}
    assert run["listed"].value == names
    last = max(run.place("NodeCompleted", name) for name in names)
    assert run.place("NodeStarted", "join") > last


async def test_S64_the_seeds_spelling():
    """Kernel 6: ``inputs["scan_result"]`` works by look-up and is not listed; ``of(role=)`` narrows."""

    @role()
    async def looks(turn):
        narrowed = turn.inputs.of(role="ok")
        return [turn.inputs["a_result"], list(turn.inputs), list(narrowed), turn.input("b", dict)]

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a", depends_on=[])
    graph.add_operation(shows, node_id="b", depends_on=[], x=1)
    graph.add_operation(looks, node_id="c", depends_on=["a", "b"])
    run = await ran(graph)
    assert run["c"].value == ["a", ["a", "b"], ["a"], {"x": 1}]


@pytest.mark.parametrize("truth", [True, False])
async def test_a_conditional_branch_runs_one_arm(truth):
    """Kernel 1: ``add_conditional_branch`` installs conditions that are judged; both arms."""

    @role()
    async def decides(turn):
        return truth

    graph = OperationGraphBuilder()
    yes, no = role(name="yes")(ok.fn), role(name="no")(ok.fn)
    names = graph.add_conditional_branch(decides, yes, no)
    run = await ran(graph)
    taken, other = ("true", "false") if truth else ("false", "true")
    assert run[names[taken]].status == "completed"
    assert run[names[other]].status == "skipped"


async def test_an_operation_without_a_builder():
    """Kernel 1: ``create_operation`` makes one; ``returns`` is checked where it settles, by path."""

    class Shape(pydantic.BaseModel):
        size: int

    @role()
    async def gives(turn):
        return {"size": turn.parameters["size"]}

    graph = OperationGraphBuilder()
    for name, size in (("good", 1), ("bad", "many")):
        graph.add_operation(gives, node_id=name, depends_on=[], returns=Shape, size=size)
    graph.add_operation(create_operation("operate", {"size": 7}, node_id="made", role="gives"), depends_on=[])
    run = await ran(graph, gives)
    assert run["good"].value == {"size": 1}
    assert run["made"].value == {"size": 7}
    assert run["bad"].status == "failed"
    assert "size" in run["bad"].error.message


async def test_shared_branches_have_to_be_ordered():
    """Kernel 7: nodes that name one branch must be ordered, else building fails; ordered they share it."""

    async def talk(turn):
        turn.branch.say("assistant", turn.node)
        return [message.content for message in turn.branch.messages]

    async with Session() as session:
        session.register_operation("chat", talk)
        graph = OperationGraphBuilder()
        both = Branch("both")
        graph.add_operation("chat", node_id="a", depends_on=[], branch=both)
        graph.add_operation("chat", node_id="b", depends_on=[], branch="both")
        with pytest.raises(GraphError, match="share the branch 'both'"):
            graph.get_graph()
        graph.add_edge("a", "b")
        run = await lawful(await session.start(graph))
    assert run["b"].value == ["a", "b"]


def test_a_gate_that_lists_approve():
    """Kernel 5: APPROVE cannot be listed in ``refuse_on``."""
    graph = OperationGraphBuilder()
    with pytest.raises(OperationError, match="refuse_on of operate"):
        graph.add_operation("operate", gate=Gate(refuse_on=("APPROVE",)))
