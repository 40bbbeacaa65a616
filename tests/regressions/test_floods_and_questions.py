"""Roles that speak without end, and roles that ask in odd ways."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from orchestrator import (
    Budget,
    Finding,
    OperationGraphBuilder,
    Session,
    SpawnRequest,
    Synthesis,
    Verdict,
    role,
)
from orchestrator.testing import assert_laws, run_virtual
from tests.scenarios.conftest import ran

pytestmark = pytest.mark.anyio


async def _refused(turn: Any) -> None:
    await turn.emit(Synthesis(summary="not granted"))


async def _over_the_cap(turn: Any) -> None:
    await turn.emit(SpawnRequest(assignee="nobody"))


async def _remembered(turn: Any) -> None:
    await turn.step("key", lambda: 1)


@pytest.mark.parametrize("say", [_refused, _over_the_cap, _remembered])
async def test_a_flood_that_leaves_no_record_lets_the_loop_live(say: Any) -> None:
    """Fault: a role whose emissions were all refused, or steps all known, never gave the loop back."""

    @role(emits=(SpawnRequest,))
    async def floods(turn: Any) -> str:
        for _ in range(100_000):
            await say(turn)
        return "nobody could stop it"

    @role()
    async def other(turn: Any) -> None:
        await anyio.lowlevel.checkpoint()

    graph = OperationGraphBuilder()
    graph.add_operation(floods, depends_on=[])
    graph.add_operation(other, depends_on=[])
    async with Session() as session:
        run = await session.start(graph, budget=Budget(spawns=0))
        async with run.events() as events:
            async for event in events:
                if event.kind == "NodeCompleted" and event.node == "other":
                    run.cancel("floods")
        result = await run.wait()
    assert result["floods"].status == "cancelled"


async def test_two_questions_at_once(anyio_backend: str) -> None:
    """Fault: an answer to the first of two questions of one turn woke the second; the first hung."""

    @role()
    async def asks(turn: Any) -> dict[str, Any]:
        answers: dict[str, Any] = {}

        async def ask(key: str) -> None:
            answers[f"{key}{len(answers)}"] = await turn.ask(f"{key}?", key=key)

        async with anyio.create_task_group() as group:
            for key in "aba":
                group.start_soon(ask, key)
        return answers

    async with Session() as session:
        graph = OperationGraphBuilder()
        graph.add_operation(asks)
        run = await session.start(graph, waits_for_answers=True)
        async with run.events() as events:
            async for event in events:
                if event.kind == "QuestionAsked":
                    assert run.answer("asks", event.data["key"].upper(), key=event.data["key"])
        result = await run.wait()
        assert_laws(run)
    assert sorted(result["asks"].value.values()) == ["A", "A", "B"]


@pytest.mark.parametrize(
    "options",
    [
        {"choices": (1, 2)},
        {"choices": "yes"},
        {"choices": [None]},
        {"expires": 1e12},
        {"expires": float("nan")},
        {"expires": -1},
    ],
    ids=repr,
)
async def test_a_question_that_no_record_can_hold(options: dict[str, Any]) -> None:
    """Fault: choices that are no texts halted the run at the first answer; huge expiries were kept."""

    @role()
    async def asks(turn: Any) -> Any:
        return await turn.ask("which?", default="x", **options)

    graph = OperationGraphBuilder()
    graph.add_operation(asks)
    run = await ran(graph)
    assert run["asks"].status == "failed"
    assert run["asks"].error.type in {"TypeError", "ValueError"}


def test_a_question_that_expires_at_once() -> None:
    """Fault: ``expires=0`` was taken for "never"."""

    @role()
    async def asks(turn: Any) -> Any:
        return await turn.ask("which?", default="x", expires=0)

    async def main() -> None:
        graph = OperationGraphBuilder()
        graph.add_operation(asks)
        assert (await ran(graph))["asks"].value == "x"

    for backend in ("asyncio", "trio"):
        run_virtual(main, backend=backend)  # type: ignore[arg-type]


def test_a_body_that_ends_while_its_question_is_open() -> None:
    """Fault: what a body gave after it had given up asking was stale, and the node never settled."""

    @role(emits=(Verdict,))
    async def asks(turn: Any) -> Any:
        with anyio.move_on_after(10):
            await turn.ask("which?")
        return Verdict(verdict="REJECT", rationale="nobody knows")

    @role()
    async def fails(turn: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(turn.ask, "which?")
            await anyio.sleep(1)
            raise ValueError("no")

    async def main() -> None:
        graph = OperationGraphBuilder()
        graph.add_operation(asks, depends_on=[], gate=True)
        graph.add_operation(fails, depends_on=[])
        async with Session() as session:
            run = await session.start(graph, waits_for_answers=True)
            with anyio.fail_after(100):
                result = await run.wait()
            assert_laws(run)
        assert result["asks"].judgement == "rejected"
        assert result["fails"].status == "failed"
        assert not run.answer("asks", 1, key="which?")

    for backend in ("asyncio", "trio"):
        run_virtual(main, backend=backend)  # type: ignore[arg-type]


async def test_what_is_said_twice_costs_the_same_however_much_was_said() -> None:
    """Fault: each emission met a second time searched the whole ledger: 20,000 of them took seconds."""

    @role(emits=(Finding,))
    async def repeats(turn: Any) -> list[Finding]:
        for _ in range(5_000):
            await turn.emit(Finding(description="same"))
        return [Finding(description="same") for _ in range(5_000)]

    graph = OperationGraphBuilder()
    graph.add_operation(repeats)
    run = await ran(graph)
    assert len(run.of("EmissionAccepted")) == 5_000
    assert run["repeats"].status == "completed"
