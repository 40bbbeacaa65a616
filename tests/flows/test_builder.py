"""OperationGraphBuilder and create_operation: what they make, and what they refuse at once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gc
import inspect
import json
import time

import msgspec
import pydantic
import pytest

from emissions import Finding, SpawnRequest, Verdict
from orchestrator.core.spec import BUILDER_ACCEPTS, Gate, Retry
from orchestrator.errors import DuplicateNodeError, GraphError, OperationError, UnknownNodeError
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.conditions import EdgeCondition
from roles import Role, role


@role(emits=(Finding, SpawnRequest))
async def scout(turn):
    return {}


@role(emits=(Verdict,))
def critic(turn):
    return {}


WRITER = Role(name="writer", body="You write.", models=("cheap", "dear"))


class Always(EdgeCondition):
    def apply(self, result, context):
        return True


class Shape(pydantic.BaseModel):
    summary: str
    level: int = 1


def parameters(graph, name):
    return json.loads(bytes(graph.operations[name].parameters))


def edges(graph):
    return [(edge.source, edge.target) for edge in graph.edges]


def test_the_docstring_says_first_what_depends_on_means():
    """kernel.md 1: list, [] and None in the first line."""
    first = inspect.getdoc(OperationGraphBuilder.add_operation).splitlines()[0]
    assert "depends_on" in first
    for word in ("list", "[]", "root", "None", "chains", "heads"):
        assert word in first


def test_the_signature_is_the_published_one():
    """api.md: names, order and defaults."""
    found = inspect.signature(OperationGraphBuilder.add_operation).parameters
    shown = [f"{name}={value.default!r}" for name, value in found.items() if value.default is not value.empty]
    assert shown == [
        "operation='operate'", "node_id=None", "depends_on=None", "inherit_context=False", "branch=None",
        "role=None",
        "gate=False","when=None", "needs='any'", "returns=None", "retry=None", "timeout=None", "fresh=False",
        "uses=()", "parameters=None",
    ]  # fmt: skip
    assert next(name for name, value in found.items() if value.kind is value.KEYWORD_ONLY) == "role"
    edge = inspect.signature(OperationGraphBuilder.add_edge).parameters
    assert list(edge) == ["self", "source", "target", "when", "accept", "label"]


def test_none_chains_and_an_empty_list_makes_a_root():
    """S61, bad-inputs 35: both arms of the depends_on trap."""
    builder = OperationGraphBuilder()
    for name in "abc":
        builder.add_operation(node_id=name, depends_on=[])
    assert edges(builder.get_graph()) == []
    builder.add_operation(node_id="d")
    builder.add_operation(node_id="e")
    assert edges(builder.get_graph()) == [("a", "d"), ("b", "d"), ("c", "d"), ("d", "e")]
    assert {edge.label for edge in builder.get_graph().edges} == {"sequential"}
    builder.add_operation(node_id="f", depends_on=["a", "e"])
    assert edges(builder.get_graph())[-2:] == [("a", "f"), ("e", "f")]
    assert builder.get_graph().edges[-1].accept == BUILDER_ACCEPTS


def test_default_names():
    """The role's or the verb's name, then numbered; a name that is taken by hand is passed over."""
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="scout_2")
    assert [builder.add_operation(scout) for _ in range(3)] == ["scout", "scout_3", "scout_4"]
    assert builder.add_operation("chat") == "chat"
    assert builder.add_operation("operate", role=WRITER) == "writer"
    assert builder.add_operation("operate", role="post-mortem lead") == "post_mortem_lead"
    assert builder.add_operation("sum") == "sum_"
    assert builder.add_operation("import") == "import_"
    assert builder.add_operation("9lives") == "_9lives"


def test_roles_by_value_and_by_name():
    """A role gives verb, name and value; a name stays a name."""
    builder = OperationGraphBuilder()
    builder.add_operation(scout, depends_on=[], paths=["a.py"])
    builder.add_operation("chat", node_id="talk", role=WRITER)
    builder.add_operation(role="inspector")
    graph = builder.get_graph()
    assert graph.roles == {"scout": scout, "writer": WRITER}
    assert [(one.verb, one.role, one.speaks) for one in graph.operations.values()] == [
        ("operate", "scout", False),
        ("chat", "writer", True),
        ("operate", "inspector", True),
    ]
    assert parameters(graph, "scout") == {"paths": ["a.py"]}


def test_one_role_name_means_one_role():
    """Two different roles of one name are refused; the same one again is no news."""
    builder = OperationGraphBuilder()
    builder.add_operation(WRITER)
    builder.add_operation(WRITER)
    with pytest.raises(OperationError, match="two different roles are called 'writer'"):
        builder.add_operation(Role(name="writer", body="Another."))
    assert len(builder) == 2


def test_parameters_are_exact_json_and_hold_nothing_of_the_builder():
    """S63, kernel.md 1: mapping, model, keywords; bookkeeping never reaches a worker."""
    builder = OperationGraphBuilder()
    builder.add_operation(
        "operate", "a", [], gate=True, when="args.x == 1", needs="all", retry=2, timeout="1m", fresh=True,
        uses=["db"], instruction="do it", parameters={"n": 1, "t": (1, 2)}, deadline=5,
        models=["kept as a parameter"],
    )  # fmt: skip
    builder.add_operation(node_id="b", parameters=Shape(summary="s"), extra=Shape(summary="t"))
    graph = builder.get_graph()
    assert parameters(graph, "a") == {"n": 1, "t": [1, 2], "deadline": 5, "models": ["kept as a parameter"]}
    assert parameters(graph, "b") == {"summary": "s", "level": 1, "extra": {"summary": "t", "level": 1}}
    found = graph.operations["a"]
    assert (found.instruction, found.needs, found.when, found.timeout) == (
        "do it",
        "all",
        "args.x == 1",
        60.0,
    )
    assert (found.gate, found.retry, found.fresh, found.uses) == (Gate(), Retry(attempts=2), True, ("db",))
    assert found.deadline is None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "parameters of a.x is object"),
        ({1: 2}, "has the key 1"),
        (float("nan"), "JSON cannot hold"),
        (2**63, "beyond 64 bits"),
        ([{"y": dt.date(2020, 1, 1)}], r"parameters of a.x\[0\].y is date"),
        ({1, 2}, "is set"),
        (b"x", "is bytes"),
        (lambda: 1, "is function"),
    ],
)
def test_parameters_that_json_would_lose_are_refused_with_their_path(value, path):
    """kernel.md 1: anything else is refused at build; nothing was added."""
    builder = OperationGraphBuilder()
    with pytest.raises(OperationError, match=path):
        builder.add_operation(node_id="a", x=value)
    assert len(builder) == 0
    with pytest.raises(OperationError, match="give a mapping"):
        builder.add_operation(node_id="a", parameters=[value])


def test_too_deep_parameters_are_refused():
    """bad-inputs 29: no recursion error."""
    deep: object = 1
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(OperationError, match="nested deeper"):
        OperationGraphBuilder().add_operation(x=deep)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            {"depends_on": ["scan"]},
            UnknownNodeError,
            "depends_on of x names 'scan', which does not exist.*'scann'",
        ),
        ({"depends_on": ["x"]}, GraphError, "cannot depend on itself"),
        ({"depends_on": "scann"}, OperationError, "give a list of names"),
        ({"depends_on": ["scann", "scann"]}, GraphError, "twice"),
        ({"node_id": "scann"}, DuplicateNodeError, "'scann' exists.*'scann_2'"),
        ({"node_id": "a-b"}, GraphError, "try 'a_b'"),
        ({"node_id": "class"}, GraphError, "keyword"),
        ({"node_id": "nodes"}, GraphError, "has a meaning"),
        ({"node_id": "len"}, GraphError, "has a meaning"),
        ({"node_id": "true"}, GraphError, "has a meaning"),
        ({"node_id": "a" * 65}, GraphError, "64"),
        ({"node_id": ""}, GraphError, "node name"),
        ({"gate": True, "role": scout}, OperationError, "does not declare Verdict"),
        ({"gate": {"refuse_on": ["APPROVE"]}}, OperationError, "refuse_on"),
        ({"gate": {"refuse_on": []}}, OperationError, "refuse_on"),
        ({"gate": {"refusal": 1}}, OperationError, "gate of x"),
        ({"gate": Gate(refusals=-1)}, OperationError, "refusals"),
        ({"gate": "yes"}, OperationError, "gate of x"),
        ({"retry": 0}, OperationError, "attempts 1 to"),
        ({"retry": True}, OperationError, "retry of x"),
        ({"retry": {"attempts": 2, "jitter": 2}}, OperationError, "jitter"),
        ({"timeout": 0}, OperationError, "timeout of x"),
        ({"timeout": "soon"}, OperationError, "90s"),
        ({"timeout": True}, OperationError, "timeout of x"),
        ({"needs": "some"}, OperationError, "'any' or 'all'"),
        ({"when": 3}, OperationError, "give expression text or an EdgeCondition"),
        ({"when": lambda result, context: True}, OperationError, "EdgeCondition"),
        ({"when": "a b"}, OperationError, "one complete expression"),
        ({"when": "len('a')"}, OperationError, "not true or false"),
        ({"uses": "db"}, OperationError, "list of names"),
        ({"fresh": 1}, OperationError, "fresh of x"),
        ({"instruction": 1}, OperationError, "instruction of x"),
        ({"returns": object()}, OperationError, "returns of x"),
        ({"branch": 3}, OperationError, "branch of x"),
        ({"operation": scout.fn}, OperationError, "@role"),
        ({"operation": 3}, OperationError, "a verb or a role"),
        ({"operation": ""}, OperationError, "verb"),
        ({"operation": scout, "role": critic}, OperationError, "two roles"),
        ({"role": 3}, OperationError, "role is int"),
        ({"when": Always(), "depends_on": []}, OperationError, "depends on nothing"),
    ],
)
def test_bad_arguments_are_refused_and_leave_no_trace(call, error, message):
    """S58, S62, bad-inputs 35: what, where, what next; the graph is as before."""
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="scann")
    before = builder.get_graph()
    arguments = {"node_id": "x", **call}
    with pytest.raises(error, match=message):
        builder.add_operation(**arguments)
    assert builder.get_graph() == before
    builder.add_operation(node_id="next")
    assert edges(builder.get_graph()) == [("scann", "next")]


def test_gates():
    """Declared, never inferred; is_gate is read as well; a role must declare Verdict, a verb need not."""
    builder = OperationGraphBuilder()
    builder.add_operation(critic, "plain")
    builder.add_operation(critic, "gate", gate=True)
    builder.add_operation("operate", "verb", is_gate=True)
    builder.add_operation(critic, "loop", gate=Gate(refusals=2, back_to="plain"))
    builder.add_operation(critic, "strict", gate={"refuse_on": ["REJECT", "REQUEST-CHANGES"]})
    builder.add_operation("operate", "no", is_gate=False)
    found = builder.get_graph().operations
    assert [found[name].gate is not None for name in ("plain", "gate", "verb", "loop", "strict", "no")] == [
        False, True, True, True, True, False,
    ]  # fmt: skip
    assert found["loop"].gate == Gate(refusals=2, back_to="plain")
    assert found["strict"].gate.refuse_on == ("REJECT", "REQUEST-CHANGES")
    assert b"is_gate" not in bytes(found["verb"].parameters)


def test_returns():
    """A model, another type or a schema becomes JSON Schema; the model is kept; the role's counts."""
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="model", returns=Shape)
    builder.add_operation(node_id="type", returns=list[str])
    builder.add_operation(node_id="schema", returns={"type": "string"})
    builder.add_operation(Role(name="maker", returns=Shape))
    graph = builder.get_graph()
    schemas = {name: msgspec.json.decode(one.returns) for name, one in graph.operations.items()}
    assert schemas["model"] == schemas["maker"] == Shape.model_json_schema()
    assert schemas["type"] == {"type": "array", "items": {"type": "string"}}
    assert schemas["schema"] == {"type": "string"}
    assert graph.returns == {"model": Shape, "maker": Shape}


def test_conditions_on_edges_and_nodes():
    """S58: expression text or an EdgeCondition, indexed by the edge."""
    builder = OperationGraphBuilder()
    for name in "ab":
        builder.add_operation(node_id=name, depends_on=[])
    builder.add_operation(node_id="c", depends_on=["a", "b"], when=Always())
    builder.add_operation(node_id="d", depends_on=["c"], when=" c.x == 1 ")
    builder.add_edge("a", "d", when="result.ok", accept=["completed"], label="maybe")
    graph = builder.get_graph()
    assert [graph.predicates[edge.predicate] for edge in graph.edges if edge.predicate is not None] == [
        *graph.predicates
    ]
    assert len(graph.predicates) == 2
    assert graph.operations["d"].when == "c.x == 1"
    last = graph.edges[-1]
    assert (last.when, last.accept, last.label) == ("result.ok", ("completed",), "maybe")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("a", "zz"), UnknownNodeError, "'zz', which does not exist"),
        (("zz", "a"), UnknownNodeError, "'zz', which does not exist"),
        (("a", "a"), GraphError, "itself"),
        (("a", "b"), GraphError, "exists"),
        (("b", "a", 3), OperationError, "EdgeCondition"),
        (("b", "a", "x ="), OperationError, "=="),
        (("b", "a", None, ["done"]), OperationError, "it may hold completed"),
        (("b", "a", None, []), OperationError, "it may hold"),
    ],
)
def test_bad_edges_are_refused(arguments, error, message):
    """S58, S62: an edge names nodes that exist, once, with a condition that can be one."""
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="a")
    builder.add_operation(node_id="b")
    with pytest.raises(error, match=message):
        builder.add_edge(*arguments)
    assert len(builder.get_graph().edges) == 1


def test_inheritance():
    """kernel.md 7: the first entry of depends_on; with nothing to inherit, nothing."""
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="a", inherit_context=True)
    builder.add_operation(node_id="b", depends_on=[])
    builder.add_operation(node_id="c", depends_on=["b", "a"], inherit_context=True)
    builder.add_operation(node_id="d", inherit_context=True)
    assert [one.inherit for one in builder.get_graph().operations.values()] == [None, None, "b", "c"]


class Branch:
    def __init__(self, name):
        self.name = name


def test_branches():
    """A name, or a live branch by value; one name means one branch; who shares must be ordered."""
    builder = OperationGraphBuilder()
    live = Branch("main")
    builder.add_operation(node_id="a", branch=live)
    builder.add_operation(node_id="b", branch="main")
    graph = builder.get_graph()
    assert [one.branch for one in graph.operations.values()] == ["main", "main"]
    assert graph.branches == {"main": live}
    with pytest.raises(OperationError, match="two different branches"):
        builder.add_operation(node_id="c", branch=Branch("main"))
    builder.add_operation(node_id="side", depends_on=["a"], branch="main")
    with pytest.raises(GraphError, match=r"b and side share|side and b share"):
        builder.get_graph()
    builder.add_edge("b", "side")
    assert len(builder.get_graph()) == 3


def test_a_graph_is_a_snapshot():
    """Later calls do not change a graph that was taken; one graph can be checked and read again."""
    builder = OperationGraphBuilder("g")
    builder.add_operation(scout)
    graph = builder.get_graph()
    builder.add_operation(critic, when=Always())
    assert (graph.name, len(graph), graph.edges, graph.predicates) == ("g", 1, (), ())
    assert graph.check() == graph.check() == ("scout",)
    with pytest.raises(TypeError):
        graph.operations["x"] = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.name = "h"


def test_building_is_linear():
    """100,000 nodes: twice the nodes, about twice the time, for chains, roots and default names."""

    def built(count, depends_on):
        start = time.thread_time()
        builder = OperationGraphBuilder()
        for number in range(count):
            builder.add_operation(depends_on=depends_on, n=number)
        builder.get_graph().check()
        return time.thread_time() - start

    gc.disable()  # collections of a growing heap are not the builder's time
    try:
        for depends_on in (None, []):
            small = min(built(2_000, depends_on) for _ in range(3))
            assert built(64_000, depends_on) < 32 * small * 8
    finally:
        gc.enable()
