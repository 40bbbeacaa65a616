"""A stepped run of roles, in processes that die at a boundary of an append: talk, spawns, a gate, a loop."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from emissions import Finding, SpawnRequest, Verdict
from orchestrator.agents.models import register_model
from orchestrator.core.spec import Gate
from orchestrator.supersteps import END, START, Answer, CompiledGraph, StateGraph
from roles import Role, role

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.supersteps import StepResult

THREAD = "cast"


class State(TypedDict):
    draft: Any
    log: Annotated[list, operator.add]


def _whole(messages: Any, _info: Any) -> ModelResponse:
    answers = sum(isinstance(message, ModelResponse) for message in messages)
    return ModelResponse(parts=[TextPart(f"draft {answers + 1}")])


async def _stream(messages: Any, _info: Any) -> Any:
    yield _whole(messages, _info).parts[0].content  # type: ignore[union-attr]


register_model("drafts", FunctionModel(_whole, stream_function=_stream))


def cast(folder: Path) -> CompiledGraph:
    """A writer that remembers, a scout that asks for helpers, a critic that is silent once, then approves."""

    def called(name: str) -> None:
        with (folder / "calls").open("a") as file:
            file.write(f"{name}\n")

    @role(emits=(SpawnRequest, Finding))
    async def scout(turn: Any) -> Any:
        for n in (1, 2):
            await turn.emit(SpawnRequest(assignee="helper", parameters={"n": n}, key=f"{n}"))
        called(turn.node)
        return [Finding(description=turn.node), {"log": ["scout"]}]

    @role()
    async def helper(turn: Any) -> Any:
        called(turn.node)
        return {"log": [turn.parameters["n"], len(turn.emissions(Finding))]}

    @role(emits=(Verdict,))
    async def critic(turn: Any) -> Any:
        called(turn.node)
        text = turn.inputs["draft"]["text"]
        if text == "draft 1":
            return {"log": ["silent"]}
        return Verdict(verdict="APPROVE" if text == "draft 2" else "REJECT", rationale=text)

    writer = Role("writer", body="You write.", models=("drafts",))
    graph = StateGraph(State).add_node(writer, writes="draft").add_node(scout).add_node(helper)
    graph.add_node(critic, gate=Gate())
    graph.add_edge(START, "writer").add_edge("writer", "scout").add_edge("scout", "critic")
    graph.add_edge("critic", "writer").add_edge("helper", END)
    return graph.compile(journal=folder / "journal.db")


async def drive(folder: Path) -> StepResult:
    """Go on with the thread, from wherever it stands, to its end."""
    app = cast(folder)
    begun = app._driver.session.store.exists(THREAD) and await app.get_state_history(THREAD)
    result = await app.invoke(None if begun else {"log": []}, thread_id=THREAD)
    while result.reason == "gate_undecided":
        result = await app.invoke(Answer("APPROVE"), thread_id=THREAD)
    return result
