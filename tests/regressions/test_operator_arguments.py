"""What an operator or a handler gives is judged by its type before it is decided."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from orchestrator import Finding, Inject, OperationGraphBuilder, Session, role
from orchestrator.testing import assert_laws

pytestmark = pytest.mark.anyio

NONSENSE = [5, None, ["a"], {"a": 1}, b"x", float("nan"), True]


@role()
async def ok(turn: Any) -> str:
    return turn.node


@pytest.mark.parametrize("given", NONSENSE, ids=repr)
async def test_an_argument_of_a_wrong_type_is_refused_and_the_run_goes_on(given: Any) -> None:
    """Fault: ``run.inject(instruction=5)``, ``steer(node=[...])`` and their like halted the run for good."""
    go = anyio.Event()

    @role()
    async def holds(turn: Any) -> None:
        await go.wait()

    graph = OperationGraphBuilder()
    graph.add_operation(holds)
    async with Session([ok]) as session:
        run = await session.start(graph)
        calls = {
            "what": lambda: run.inject(given),
            "after": lambda: run.inject("ok", after=[given]),
            "before": lambda: run.inject("ok", before=[given]),
            "steer": lambda: run.steer("text", node=[given]),  # type: ignore[arg-type]
            "cancel": lambda: run.cancel([given]),  # type: ignore[arg-type]
            "answer": lambda: run.answer("holds", 1, key=[given]),  # type: ignore[arg-type]
            "who": lambda: run.answer([given], 1),  # type: ignore[arg-type]
            "budget": lambda: run.raise_budget([given], 9),  # type: ignore[arg-type]
            "limit": lambda: run.raise_budget("spawns", [given]),  # type: ignore[arg-type]
            "instruction": lambda: run.inject("ok", instruction=[given]),  # type: ignore[arg-type]
            "node_id": lambda: run.inject("ok", node_id=[given]),  # type: ignore[arg-type]
            "key": lambda: run.inject("ok", key=[given]),  # type: ignore[arg-type]
        }
        answers = {name: call() for name, call in calls.items()}
        go.set()
        assert (await run.wait()).reason == "completed"
        assert not any(answers.values()), answers
        assert_laws(run)


async def test_a_handler_that_proposes_nonsense_is_refused() -> None:
    """Fault: a handler's ``Inject(instruction=5)`` halted the run instead of refusing the emission."""

    @role(emits=(Finding,))
    async def finder(turn: Any) -> str:
        return (await turn.emit(Finding(description="x"))).reason

    graph = OperationGraphBuilder()
    graph.add_operation(finder)
    async with Session([ok]) as session:
        session.handles(Finding, lambda *_: Inject("ok", instruction=5))  # type: ignore[arg-type]
        result = await session.flow(graph)
    assert result["finder"].value == "handler_error"
    assert result.reason == "completed"
