"""A stepped run with children, in processes that die at a boundary of an append."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from orchestrator.supersteps import START, Answers, Command, CompiledGraph, Send, StateGraph, interrupt

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.supersteps import StepResult

THREAD = "canon"


class State(TypedDict):
    log: Annotated[list, operator.add]


class Inner(TypedDict):
    log: Annotated[list, operator.add]
    mine: Annotated[list, operator.add]


def family(folder: Path) -> CompiledGraph:
    """A child that remembers, called twice, and two that ask. It counts calls in a file."""

    def called(name: str) -> None:
        with (folder / "calls").open("a") as file:
            file.write(f"{name}\n")

    async def grows(state: Any) -> dict[str, Any]:
        called("grows")
        return {"mine": ["x"], "log": [len(state["mine"])]}

    async def before(state: Any) -> dict[str, Any]:
        called(f"before {state['mine'][0]}")
        return {"log": [f"before {state['mine'][0]}"]}

    async def asks(state: Any) -> dict[str, Any]:
        answer = await interrupt(state["mine"][0])
        called(f"asks {state['mine'][0]}")
        return {"log": [answer]}

    memory = StateGraph(Inner).add_node("grows", grows).add_edge(START, "grows")
    asking = StateGraph(Inner).add_node("before", before).add_node("asks", asks)
    asking.add_edge(START, "before").add_edge("before", "asks")
    graph = StateGraph(State).add_node("remembers", memory, memory="thread").add_node("sub", asking)
    graph.add_edge(START, "remembers")
    graph.add_conditional_edges(
        "remembers",
        lambda s: "remembers" if len(s["log"]) < 3 else [Send("sub", {"mine": [n]}) for n in "ab"],
        ["remembers", "sub"],
    )
    return graph.compile(journal=folder / "journal.db")


async def drive(folder: Path, durability: str = "sync") -> StepResult:
    """Go on with the thread, from wherever it stands, to its end."""
    app = family(folder)
    given: Any = {"log": ["in"]}
    if app._driver.session.store.exists(THREAD) and await app.get_state_history(THREAD):
        given = None
    result = await app.invoke(given, thread_id=THREAD, durability=durability)
    while result.reason == "awaiting_answer":
        answers = Answers({one.id: f"{one.value}!" for one in result.interrupts})
        result = await app.invoke(Command(resume=answers), thread_id=THREAD, durability=durability)
    return result


async def shape(app: CompiledGraph) -> list[Any]:
    """The history without times: what must not depend on where a process died."""
    history = await app.get_state_history(THREAD)
    return [(one.checkpoint, one.step, one.source, one.values, one.next) for one in history]
