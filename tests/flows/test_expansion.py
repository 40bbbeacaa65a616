"""Expansions, aggregations and conditional branches of the builder."""

from __future__ import annotations

import dataclasses
import json

import pydantic
import pytest

from emissions import Finding, SpawnRequest
from orchestrator.errors import OperationError, UnknownNodeError
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.conditions import EdgeCondition, Negated
from orchestrator.flows.expansion import ExpansionStrategy
from roles import Role, role


@role(emits=(Finding, SpawnRequest))
async def scout(turn):
    return {}


WRITER = Role(name="writer", body="You write.", models=("cheap", "dear"))


class Always(EdgeCondition):
    def apply(self, result, context):
        return True


@dataclasses.dataclass
class Point:
    x: int


def parameters(graph, name):
    return json.loads(bytes(graph.operations[name].parameters))


def edges(graph):
    return [(edge.source, edge.target) for edge in graph.edges]


def expanded(strategy, count=5, **more):
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="src")
    names = builder.expand_from_result(list(range(count)), "src", "operate", strategy, node_id="k", **more)
    graph = builder.get_graph()
    return names, {(a, b) for a, b in edges(graph) if a != "src"}, graph


def test_expansion_makes_one_child_per_item():
    """S63: a source edge each, the item's data, nothing of the builder's."""
    names, between, graph = expanded(ExpansionStrategy.CONCURRENT, 3, instruction="look", shared=7)
    assert names == ["k_1", "k_2", "k_3"]
    assert between == set()
    assert set(edges(graph)) == {("src", name) for name in names}
    assert [parameters(graph, name) for name in names] == [
        {"item": n, "item_index": n, "shared": 7} for n in range(3)
    ]
    assert {graph.operations[name].instruction for name in names} == {"look"}


def test_the_four_strategies_order_what_they_say():
    """kernel.md 1: SEQUENTIAL orders, the chunk strategies chunk."""
    assert expanded(ExpansionStrategy.SEQUENTIAL, 3)[1] == {("k_1", "k_2"), ("k_2", "k_3")}
    chunks = expanded(ExpansionStrategy.SEQUENTIAL_CONCURRENT_CHUNK, chunk_size=2)[1]
    assert chunks == {
        ("k_1", "k_3"),
        ("k_2", "k_3"),
        ("k_1", "k_4"),
        ("k_2", "k_4"),
        ("k_3", "k_5"),
        ("k_4", "k_5"),
    }
    chains = expanded(ExpansionStrategy.CONCURRENT_SEQUENTIAL_CHUNK, chunk_size=2)[1]
    assert chains == {("k_1", "k_2"), ("k_3", "k_4")}
    for strategy in ExpansionStrategy:
        _, _, graph = expanded(strategy, chunk_size=2)
        assert {("src", f"k_{n}") for n in range(1, 6)} <= set(edges(graph))
        graph.check()


@pytest.mark.parametrize(
    ("strategy", "parents"),
    [
        (ExpansionStrategy.SEQUENTIAL, ["src", "k_1", "k_2", "k_3", "k_4"]),
        (ExpansionStrategy.SEQUENTIAL_CONCURRENT_CHUNK, ["src", "src", "k_1", "k_2", "k_3"]),
        (ExpansionStrategy.CONCURRENT_SEQUENTIAL_CHUNK, ["src", "k_1", "src", "k_3", "src"]),
    ],
)
def test_chained_context(strategy, parents):
    """Each child inherits its predecessor's messages; the first ones the source's, if asked."""
    graph = expanded(strategy, chunk_size=2, chain_context=True, inherit_context=True)[2]
    assert [graph.operations[f"k_{n}"].inherit for n in range(1, 6)] == parents
    graph = expanded(strategy, chunk_size=2, chain_context=True)[2]
    only = [parent if parent != "src" else None for parent in parents]
    assert [graph.operations[f"k_{n}"].inherit for n in range(1, 6)] == only


def test_items():
    """A model's fields become parameters, its instruction the instruction; any other item is item."""

    class Task(pydantic.BaseModel):
        instruction: str
        path: str

    builder = OperationGraphBuilder()
    builder.add_operation(node_id="src")
    items = [Task(instruction="read", path="a"), Point(2), {"p": 1}, "text", None]
    names = builder.expand_from_result(items, "src", scout, path="shared", parameters={"q": 1})
    graph = builder.get_graph()
    assert names == ["scout", "scout_2", "scout_3", "scout_4", "scout_5"]
    assert graph.operations["scout"].instruction == "read"
    assert [parameters(graph, name) for name in names] == [
        {"q": 1, "path": "a"},
        {"q": 1, "x": 2, "path": "shared"},
        {"q": 1, "item": {"p": 1}, "item_index": 2, "path": "shared"},
        {"q": 1, "item": "text", "item_index": 3, "path": "shared"},
        {"q": 1, "item": None, "item_index": 4, "path": "shared"},
    ]
    assert builder.expand_from_result([], "src", scout) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1], "zz", "operate"), UnknownNodeError, "'zz'"),
        (("abc", "src", "operate"), OperationError, "give a list"),
        (([1], "src", "operate", "sequential"), OperationError, "ExpansionStrategy.SEQUENTIAL"),
        (([1], "src", "operate", ExpansionStrategy.CONCURRENT, False, True), OperationError, "chain_context"),
        (([1, object()], "src", "operate"), OperationError, "item 1"),
    ],
)
def test_bad_expansions_are_refused(arguments, error, message):
    """Nothing was added."""
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="src")
    with pytest.raises(error, match=message):
        builder.expand_from_result(*arguments)
    with pytest.raises(OperationError, match="chunk_size"):
        builder.expand_from_result([1], "src", "operate", ExpansionStrategy.SEQUENTIAL, chunk_size=0)
    assert len(builder) == 1


def test_aggregation():
    """S64: waits for N, in declared order; heads by default; inherit_from_source in range."""
    builder = OperationGraphBuilder()
    with pytest.raises(OperationError, match="needs sources"):
        builder.add_aggregation("operate")
    for name in "cab":
        builder.add_operation(node_id=name, depends_on=[])
    builder.add_aggregation("operate", "joined")
    builder.add_aggregation(
        WRITER, "two", ["b", "c"], inherit_context=True, inherit_from_source=-1, instruction="sum"
    )
    found = builder.get_graph().operations
    assert found["joined"].sources == ("c", "a", "b")
    assert (found["two"].sources, found["two"].inherit) == (("b", "c"), "c")
    for index in (2, -3):
        with pytest.raises(OperationError, match="inherit_from_source"):
            builder.add_aggregation("operate", "bad", ["b", "c"], inherit_from_source=index)
    with pytest.raises(UnknownNodeError):
        builder.add_aggregation("operate", "bad", ["zz"])


def test_conditional_branches_are_executable():
    """kernel.md 1: conditions, not labels only; both arms; text or object; at the heads."""
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="first")
    names = builder.add_conditional_branch(
        "operate", "chat", WRITER, condition="result.score > 3", question="?"
    )
    graph = builder.get_graph()
    assert names == {"check": "operate", "true": "chat", "false": "writer"}
    assert [(edge.source, edge.target, edge.when, edge.label) for edge in graph.edges] == [
        ("first", "operate", None, "sequential"),
        ("operate", "chat", "result.score > 3", "if_true"),
        ("operate", "writer", "not (result.score > 3)", "if_false"),
    ]
    assert parameters(graph, "operate") == {"question": "?"}
    assert graph.edges[1].accept == ("completed",)
    only = builder.add_conditional_branch("operate", "operate", depends_on=[], condition=Always())
    assert set(only) == {"check", "true"}
    both = builder.add_conditional_branch("operate", "operate", "operate", depends_on=[], condition=Always())
    assert set(both) == {"check", "true", "false"}
    assert builder.get_graph().predicates[-1] == Negated(builder.get_graph().predicates[-2])
    with pytest.raises(OperationError, match="EdgeCondition"):
        builder.add_conditional_branch("operate", "operate", condition=True)


def test_negation_keeps_what_is_no_bool():
    """A broken condition stays broken when it is turned round."""

    class Broken(EdgeCondition):
        def apply(self, result, context):
            return "yes"

    assert Negated(Always()).apply(None, {}) is False
    assert Negated(Negated(Always())).apply(None, {}) is True
    assert Negated(Broken()).apply(None, {}) == "yes"
