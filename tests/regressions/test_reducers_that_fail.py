"""Reducers are their authors' code: what they do when they are asked is part of the run's outcome."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import EdgeCondition, OperationGraphBuilder, role
from tests.scenarios.conftest import ran

pytestmark = pytest.mark.anyio


@role()
async def writes(turn: Any) -> str:
    turn.write("total", turn.parameters["value"])
    return turn.node


@role()
async def ok(turn: Any) -> str:
    return turn.node


def leaves(_folded: object, _next: object) -> object:
    raise SystemExit(3)


class Always(EdgeCondition):
    def apply(self, result: Any, context: Any) -> bool:
        return True


def chain() -> OperationGraphBuilder:
    graph = OperationGraphBuilder()
    graph.add_operation(writes, node_id="one", value=1)
    graph.add_operation(writes, node_id="two", value={"not": "a number"}, depends_on=["one"])
    return graph


@pytest.mark.parametrize("reducer", ["sum", leaves])
async def test_a_key_that_cannot_be_folded_at_the_end(reducer: Any) -> None:
    """Fault: the error of a reducer, folding the final context, left the session in place of the result."""
    run = await ran(chain(), reducers={"total": reducer}, context={"other": 1, "total": 0})
    assert run["two"].status == "completed"
    assert run.result.final_context == {"other": 1}
    assert "'total' cannot be folded" in run.result.detail


@pytest.mark.parametrize("reducer", ["sum", leaves])
async def test_a_key_that_cannot_be_folded_for_a_condition(reducer: Any) -> None:
    """Fault: a reducer that failed while a condition was judged took the worker and the run with it."""
    graph = chain()
    graph.add_operation(ok, node_id="three", depends_on=["two"])
    graph.add_operation(ok, node_id="four", depends_on=[])
    graph.add_edge("three", "four", Always())
    run = await ran(graph, reducers={"total": reducer}, context={"total": 0})
    assert run["three"].status == "completed"
    assert run["four"].error.type == "ConditionError"
    assert run.reason == "failed"
