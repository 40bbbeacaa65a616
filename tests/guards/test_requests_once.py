"""A request of another process counts once: while the run is live, and over a suspension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from orchestrator import OperationGraphBuilder, Session, role
from orchestrator.core.facts import ControlApplied, SteerReceived
from orchestrator.journal.control import request
from orchestrator.journal.reading import open_journal
from orchestrator.testing.loops import run_virtual

if TYPE_CHECKING:
    from pathlib import Path


@role()
async def waits(_turn: Any) -> str:
    """Long enough for many looks at the table of requests."""
    await anyio.sleep(2)
    return "done"


@role()
async def asks(turn: Any) -> list[str]:
    """Ends only after a person has answered."""
    return [await turn.ask("Which?", key="which"), *turn.steers()]


def graph() -> Any:
    made = OperationGraphBuilder("asked")
    made.add_operation(waits, "first", depends_on=[])
    made.add_operation(asks, "second", depends_on=["first"])
    return made.get_graph()


def test_requests_once(tmp_path: Path):
    """engine.md 26: applied once and in order; what was applied before a stop is not applied again."""
    path = tmp_path / "j.db"

    async def suspended() -> str:
        clock = lambda: int(anyio.current_time() * 1e9)
        async with Session((waits, asks), journal=path, folder=tmp_path, clock=clock) as session:
            run = await session.start(graph())
            for text in ("one", "two"):
                request(path, run.id, "steer", {"text": text, "node": "second"})
            result = await run.wait()
            assert result.reason == "awaiting_answer"
        return run.id

    async def resumed(run_id: str) -> Any:
        clock = lambda: int(anyio.current_time() * 1e9)
        async with Session((waits, asks), journal=path, folder=tmp_path, clock=clock) as session:
            return await (await session.resume(run_id)).wait()

    run_id = run_virtual(suspended)
    request(path, run_id, "answer", {"node": "second", "key": "which", "value": "that"})
    result = run_virtual(resumed, run_id)
    assert result.ok, (result.reason, result.detail)
    assert result["second"].value == ["that", "one", "two"]
    with open_journal(path) as reader:
        facts = [row.fact for row in reader.facts(run_id)]
    assert [(fact.control, fact.refused) for fact in facts if isinstance(fact, ControlApplied)] == [
        (1, ""), (2, ""), (3, ""),
    ]  # fmt: skip
    assert [fact.text for fact in facts if isinstance(fact, SteerReceived)] == ["one", "two"]
