"""Operations made without a builder."""

from __future__ import annotations

import json

import msgspec
import pytest

from emissions import Finding, SpawnRequest, Verdict
from orchestrator.core.spec import Operation
from orchestrator.errors import OperationError
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.conditions import EdgeCondition
from orchestrator.flows.operations import create_operation
from roles import role


@role(emits=(Finding, SpawnRequest))
async def scout(turn):
    return {}


@role(emits=(Verdict,))
def critic(turn):
    return {}


class Always(EdgeCondition):
    def apply(self, result, context):
        return True


def parameters(graph, name):
    return json.loads(bytes(graph.operations[name].parameters))


def edges(graph):
    return [(edge.source, edge.target) for edge in graph.edges]


def test_an_operation_made_without_a_builder():
    """create_operation is complete, and the builder takes what it made."""
    made = create_operation(
        scout, {"a": 1, "b": 2}, node_id="x", deadline="2h", emits=["Finding"], writes="k", models=("m",),
        renders=True, instruction="${args.a}", branch="b", stop_on_failure=True, description="d",
    )  # fmt: skip
    assert isinstance(made, Operation)
    assert (made.deadline, made.emits, made.writes, made.renders, made.role) == (
        7200.0,
        ("Finding",),
        "k",
        True,
        "scout",
    )
    assert json.loads(bytes(made.parameters)) == {"a": 1, "b": 2}
    builder = OperationGraphBuilder()
    builder.add_operation(node_id="w")
    builder.add_operation(made, depends_on=["w"], role=scout)
    graph = builder.get_graph()
    assert graph.operations["x"] == made
    assert edges(graph) == [("w", "x")]
    assert graph.roles == {"scout": scout}
    with pytest.raises(OperationError, match="give such arguments to create_operation"):
        builder.add_operation(create_operation(node_id="y"), timeout=3)
    with pytest.raises(OperationError, match="is of role 'scout'"):
        builder.add_operation(create_operation(scout, node_id="y"), role=critic)
    with pytest.raises(OperationError, match=r"no option 'timeuot'.*did you mean 'timeout'"):
        create_operation(timeuot=3)
    with pytest.raises(OperationError, match="add_edge"):
        create_operation(when=Always())
    with pytest.raises(OperationError, match="not closed"):
        create_operation(instruction="${a", renders=True)
    assert create_operation(instruction="no placeholder", renders=True).renders is False
    assert create_operation(instruction="${a}").renders is False


def test_a_spec_survives_json():
    """An Operation is plain data."""
    made = create_operation(scout, {"a": [1, None]}, node_id="x", retry=3, emits=["Finding"], timeout="90s")
    assert msgspec.json.decode(msgspec.json.encode(made), type=Operation) == made
