"""Emissions that were made past their type's checks."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import (
    Emission,
    EscalationRequest,
    Finding,
    OperationGraphBuilder,
    SpawnRequest,
    TaskAssignment,
    Verdict,
    role,
)
from tests.scenarios.conftest import ran

pytestmark = pytest.mark.anyio


class Keyed(Emission):
    """Calls something its key that is none of ours."""

    key: Any


FORGED = [
    SpawnRequest.model_construct(assignee=5),
    SpawnRequest.model_construct(before=5),
    SpawnRequest.model_construct(key=["a"]),
    SpawnRequest.model_construct(key=True),
    SpawnRequest.model_construct(parameters=[1]),
    TaskAssignment.model_construct(),
    Verdict.model_construct(verdict="MAYBE", rationale="x"),
    Verdict.model_construct(),
    EscalationRequest.model_construct(reason="x", route="moon"),
    Finding.model_construct(description="x", confidence=7.0),
]


@pytest.mark.parametrize("forged", FORGED, ids=repr)
async def test_an_instance_that_was_never_checked_is_refused(forged: Any) -> None:
    """Fault: ``model_construct`` past the checks halted the run, or failed whoever read the emission."""

    @role(emits=(SpawnRequest, TaskAssignment, Verdict, Finding))
    async def forger(turn: Any) -> str:
        return (await turn.emit(forged)).reason

    @role()
    async def reader(turn: Any) -> int:
        return len(turn.emissions(Finding))

    graph = OperationGraphBuilder()
    graph.add_operation(forger)
    graph.add_operation(reader, depends_on=["forger"])
    run = await ran(graph)
    assert run["forger"].value == "invalid"
    assert run["reader"].value == 0
    assert run.reason == "completed"


@pytest.mark.parametrize("value", [5, {"a": 1}], ids=repr)
async def test_a_key_of_a_type_of_ones_own_need_not_be_text(value: Any) -> None:
    """Fault: an emission type whose field ``key`` is no text halted the run."""

    @role(emits=(Keyed,))
    async def emits(turn: Any) -> list[bool]:
        return [bool(await turn.emit(Keyed(key=value))), bool(await turn.emit(Keyed(key=value)))]

    graph = OperationGraphBuilder()
    graph.add_operation(emits)
    run = await ran(graph)
    assert run["emits"].value == [True, True]
    assert len(run.of("EmissionAccepted")) == 2


async def test_a_refused_verdict_leaves_no_mark_on_the_gate() -> None:
    """Fault: a verdict refused ``too_deep`` put ``gate_verdict: reject`` into a gate that is undecided."""

    @role(emits=(Verdict,))
    async def judge(turn: Any) -> dict[str, Any]:
        value: Any = Verdict(verdict="REJECT", rationale="no")
        for _ in range(40):
            value = [value]
        return {"deep": value}

    graph = OperationGraphBuilder()
    graph.add_operation(judge, gate=True)
    run = await ran(graph)
    assert run["judge"].judgement == "undecided"
    assert "gate_verdict" not in run["judge"].value
    assert run.reason == "gate_undecided"
