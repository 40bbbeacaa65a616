"""Turns in the wrong thread, signals in the middle of a decision, what one run leaves to the next."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from orchestrator import OperationGraphBuilder, Session, SpawnRequest, role
from orchestrator.agents import Branch
from orchestrator.testing import assert_laws
from tests.scenarios.conftest import ran

pytestmark = pytest.mark.anyio


@role()
async def ok(turn: Any) -> str:
    return turn.node


async def test_a_turn_speaks_on_its_runs_loop_only() -> None:
    """Fault: ``asyncio.run(turn.emit(...))`` in a plain role drove the run from a second loop and hung."""

    @role(emits=(SpawnRequest,))
    def plain(turn: Any) -> list[str]:
        said = []
        for make in (
            lambda: turn.emit(SpawnRequest(assignee="ok")),
            lambda: turn.step("key", lambda: 1),
            lambda: turn.ask("which?"),
        ):
            try:
                asyncio.run(make())
            except RuntimeError as error:
                said.append(str(error))
        assert turn.emit_sync(SpawnRequest(assignee="ok"))
        return said

    graph = OperationGraphBuilder()
    graph.add_operation(plain)
    run = await ran(graph, ok)
    assert len(run["plain"].value) == 3
    assert "emit_sync" in run["plain"].value[0]
    assert run.result.spawned == ("plain.ok-1",)


async def test_a_signal_in_the_middle_of_a_decision() -> None:
    """Fault: after an interrupt in a decision the run went on from what was applied and not recorded."""

    class Signal(BaseException):
        pass

    calls = 0

    def clock() -> int:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise Signal
        return time.monotonic_ns()

    graph = OperationGraphBuilder()
    for number in range(9):
        graph.add_operation(ok, node_id=f"n{number}")
    runs = []

    async def main() -> None:
        async with Session(clock=clock) as session:
            runs.append(await session.start(graph))
            await runs[0].over()

    with pytest.raises(BaseExceptionGroup) as caught:
        await main()
    assert caught.group_contains(Signal)
    assert runs[0].engine.reason == "needs_recovery"
    assert runs[0].decided().not_run
    assert_laws(runs[0])


async def test_a_runs_default_branch_is_its_own() -> None:
    """Fault: ``flow(branch=)`` replaced the session's default branch for every later run."""
    seen: list[Any] = []

    async def say(turn: Any) -> None:
        seen.append(turn.branch)

    graph = OperationGraphBuilder()
    graph.add_operation("chat", node_id="said")
    mine = Branch("mine")
    async with Session() as session:
        session.register_operation("chat", say)
        default = session.branches["default"]
        await session.flow(graph, branch=mine)
        assert session.branches["default"] is default
        await session.flow(graph)
    assert len(seen) == 2
    assert seen[0] is mine or seen[0].source == "mine"
    assert seen[1] is default or seen[1].source == "default"


async def test_a_hook_for_branches_that_leaves() -> None:
    """Fault: an ``on_branch_created`` that called sys.exit ended the run and the session."""

    def leaves(_branch: Branch) -> None:
        raise SystemExit(3)

    async def say(turn: Any) -> None:
        return None

    graph = OperationGraphBuilder()
    graph.add_operation("chat", node_id="one")
    graph.add_operation("chat", node_id="two", depends_on=["one"])
    async with Session() as session:
        session.register_operation("chat", say)
        result = await session.flow(graph, on_branch_created=leaves)
    assert result.reason == "completed"
