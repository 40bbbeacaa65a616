"""From a document to builder calls: file order, explicit empty dependencies, accepts, edges."""

from __future__ import annotations

import json

import pytest

from orchestrator.core.expressions import compile_expression
from orchestrator.core.spec import Gate, Retry, Undecided
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.flow import load_flow

CAST = """
from emissions import Verdict
from roles import Role, role, tool

@role()
def maker(turn): ...

@role(emits=(Verdict,))
def judge(turn): ...

@tool
def search(words: str): ...

@tool
def read(file: str): ...

talker = Role(name="talker", body="You talk.", tools=("search", "read"), models=("p:small", "p:large"))
"""


@pytest.fixture
def compiled(tmp_path):
    (tmp_path / "cast.py").write_text(CAST)

    def compiled(text):
        path = tmp_path / "flow.yaml"
        path.write_text(f"version: 1\nname: demo\ncast: [cast.py]\n{text}")
        return load_flow(path).bind().graph

    return compiled


def pairs(graph):
    return [(edge.source, edge.target) for edge in graph.edges]


def test_two_nodes_without_after_have_no_edge(compiled):
    """D8, bad-inputs 35: a compiler that forgets depends_on=[] makes a chain."""
    graph = compiled(
        "nodes: {a: {role: maker}, b: {role: maker}, c: {role: maker, after: [a, b]}, d: {role: maker}}"
    )
    assert pairs(graph) == [("a", "c"), ("b", "c")]
    assert list(graph.operations) == ["a", "b", "c", "d"]


def test_one_builder_call_per_node_in_file_order(compiled, monkeypatch):
    """D8: the compile target is a sequence of add_operation calls."""
    calls = []
    original = OperationGraphBuilder.add_operation

    def recorded(self, operation, **more):
        calls.append((operation.name, more["depends_on"]))
        return original(self, operation, **more)

    monkeypatch.setattr(OperationGraphBuilder, "add_operation", recorded)
    compiled("nodes: {b: {role: maker}, a: {role: maker, after: [b]}, c: {role: maker}}")
    assert calls == [("b", []), ("a", ["b"]), ("c", [])]


def test_dependencies_of_documents_are_conjunctions(compiled):
    """needs: all, accept {completed}, more where the entry says so, in the order that is written."""
    graph = compiled(
        "nodes:\n  a: {role: maker}\n  b: {role: maker}\n"
        "  c: {role: maker, after: [{node: a, accept: [completed, failed]}, b]}\n"
    )
    assert {one.needs for one in graph.operations.values()} == {"all"}
    assert {(edge.source, edge.accept) for edge in graph.edges} == {
        ("a", ("completed", "failed")),
        ("b", ("completed",)),
    }


def test_every_key_arrives(compiled):
    """What the document says stands on the operation."""
    graph = compiled(
        """
context: {k: {reduce: extend}}
limits: {names: {db: 1}}
defaults: {retry: 4, timeout: 10s, model: "p:mid", effort: low}
on_failure: stop
nodes:
  a: {role: talker, branch: talk, returns: {x: [int]}, on_failure: continue, tools: [search], asks: true}
  b:
    role: judge
    after: [a]
    when: exists(a.x)
    instruction: "judge ${a.x} and $${this}"
    with: {list: "${a.x}", plain: 1}
    gate: {refuse_on: [REJECT, APPROVE-WITH-FIXES], on_undecided: pass}
    retry: {attempts: 2, backoff: 1m, on: [OSError]}
    timeout: 5m
    deadline: 1h
    emits: [Verdict]
    uses: [db]
    writes: k
    description: for people
  c: {operation: chat, after: [b], branch: talk, inherit: a, fresh: true, gate: true, inputs: none}
"""
    )
    a, b, c = graph.operations.values()
    assert (a.role, a.branch, a.retry, a.timeout, a.stop_on_failure, a.renders) == (
        "talker", "talk", Retry(attempts=4), 10.0, False, False,
    )  # fmt: skip
    assert json.loads(a.returns)["properties"] == {"x": {"type": "array", "items": {"type": "integer"}}}
    assert json.loads(bytes(b.parameters)) == {"list": "${a.x}", "plain": 1}
    assert (b.when, b.instruction, b.renders) == ("exists(a.x)", "judge ${a.x} and $${this}", True)
    assert b.gate == Gate(refuse_on=("REJECT", "APPROVE-WITH-FIXES"), on_undecided=Undecided.PASS)
    assert b.retry == Retry(attempts=2, backoff=60.0, on=("OSError",))
    assert (b.timeout, b.deadline, b.emits, b.uses, b.writes) == (300.0, 3600.0, ("Verdict",), ("db",), "k")
    assert (b.description, b.stop_on_failure, b.speaks) == ("for people", True, False)
    assert (c.verb, c.role, c.inherit, c.fresh, c.gate, c.speaks) == ("chat", None, "a", True, Gate(), True)
    assert (a.models, a.effort, a.tools, a.inputs, a.asks) == (
        ("p:mid", "p:large"),
        "low",
        ("search",),
        None,
        True,
    )
    assert (b.models, b.effort, b.inputs) == ((), None, None), "defaults are for language models"
    assert (c.models, c.inputs) == (("p:mid",), ())
    assert set(graph.roles) == {"talker", "judge"}


def test_edges_are_alternatives(compiled):
    """A node with edges needs one of them; else is the opposite of its source's other conditions."""
    graph = compiled(
        """
nodes:
  a: {role: maker, returns: {n: int}}
  b: {role: maker}
  c: {role: maker}
  d: {role: maker}
edges:
  - {from: a, to: b, when: result.n > 3}
  - {from: a, to: c, when: result.n < 0}
  - {from: a, to: d, else: true}
"""
    )
    assert graph.operations["d"].needs == "any"
    conditions = {edge.target: compile_expression(edge.when) for edge in graph.edges}
    for number, taken in ((9, "b"), (-1, "c"), (2, "d")):
        assert [name for name, one in conditions.items() if one.evaluate_bool({"result": {"n": number}})] == [
            taken
        ]


def test_after_and_edges_together(compiled):
    """A node with both needs all of the one and one of the others."""
    graph = compiled(
        "nodes:\n  a: {role: maker}\n  b: {role: maker}\n  c: {role: maker, after: [a]}\n"
        "edges: [{from: b, to: c, when: status == 'completed'}]\n"
    )
    assert graph.operations["c"].needs == "all"
    assert [(edge.source, edge.way) for edge in graph.edges] == [("a", False), ("b", True)]


def test_a_document_makes_its_branches_and_models_known(compiled, tmp_path):
    """A branch that nodes name needs no session that has it; a model in code is validated into."""
    (tmp_path / "shapes.py").write_text(
        "from pydantic import BaseModel\n\nclass Report(BaseModel):\n    title: str\n"
    )
    graph = compiled(
        "nodes:\n  a: {role: maker, branch: talk, returns: 'shapes:Report'}\n"
        "  b: {role: maker, after: [a], branch: talk}\n"
    )
    assert dict(graph.branches) == {"talk": None}
    assert graph.returns["a"].__name__ == "Report"
    assert json.loads(graph.operations["a"].returns)["required"] == ["title"]


def test_a_pause_that_is_stated_is_not_made_shorter(compiled):
    """The longest pause is at least the first."""
    graph = compiled("nodes: {a: {role: maker, retry: {attempts: 2, backoff: 5m}}}")
    assert graph.operations["a"].retry.delay(1, 0.0) == 300.0


def test_one_flow_many_graphs(compiled, tmp_path):
    """A flow can be bound twice; the graphs share nothing that a run could change."""
    compiled("nodes: {a: {role: maker}}")
    flow = load_flow(tmp_path / "flow.yaml")
    assert flow.bind().graph == flow.bind().graph
