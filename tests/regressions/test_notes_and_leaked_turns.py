"""Notes to nodes that are there, and turns that are used after their end."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from orchestrator import Finding, OperationGraphBuilder, Session, Steer, role
from orchestrator.testing import assert_laws

pytestmark = pytest.mark.anyio


async def test_a_handlers_note_to_a_running_node_arrives() -> None:
    """Fault: a handler's Steer to a node that ran never came, and one to a settled node was taken."""
    noted = anyio.Event()

    @role()
    async def listens(turn: Any) -> list[str]:
        await noted.wait()
        return list(turn.steers())

    @role()
    async def first(turn: Any) -> None:
        return None

    @role(emits=(Finding,))
    async def finds(turn: Any) -> None:
        await turn.emit(Finding(description="x"))
        noted.set()

    graph = OperationGraphBuilder()
    graph.add_operation(listens, depends_on=[])
    graph.add_operation(first, depends_on=[])
    graph.add_operation(finds, depends_on=["first"])
    async with Session() as session:
        session.handles(Finding, lambda *_: [Steer("look", "listens"), Steer("too late", "first")])
        run = await session.start(graph)
        result = await run.wait()
        async with run.events() as events:
            kinds = [event.kind async for event in events]
        assert_laws(run)
    assert result["listens"].value == ["look"]
    assert kinds.count("SteerReceived") == 1
    assert "SteerUndelivered" not in kinds


async def test_a_note_to_a_node_that_asks_arrives() -> None:
    """Fault: a note to a node that waited for an answer was never delivered."""

    @role()
    async def asks(turn: Any) -> list[str]:
        await turn.ask("which?", key="k")
        return list(turn.steers())

    graph = OperationGraphBuilder()
    graph.add_operation(asks)
    async with Session() as session:
        run = await session.start(graph, waits_for_answers=True)
        async with run.events() as events:
            async for event in events:
                if event.kind == "QuestionAsked":
                    assert run.steer("be quick", "asks")
                    assert run.answer("asks", 1, key="k")
        result = await run.wait()
        assert_laws(run)
    assert result["asks"].value == ["be quick"]


async def test_a_leaked_turn_records_no_step() -> None:
    """Fault: a turn that was kept recorded steps on a node that had settled."""
    kept: list[Any] = []

    @role()
    async def leaks(turn: Any) -> None:
        kept.append(turn)

    @role()
    async def uses(turn: Any) -> int:
        return await kept[0].step("late", lambda: 7)

    graph = OperationGraphBuilder()
    graph.add_operation(leaks)
    graph.add_operation(uses, depends_on=["leaks"])
    async with Session() as session:
        run = await session.start(graph)
        result = await run.wait()
        async with run.events() as events:
            kinds = [event.kind async for event in events]
    assert result["uses"].value == 7
    assert "StepMemoised" not in kinds
