"""A canonical stepped run, in processes that die at a boundary of an append."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from orchestrator.supersteps import START, Answer, CompiledGraph, Send, StateGraph, interrupt

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.supersteps import StepResult

THREAD = "canon"


class State(TypedDict):
    log: Annotated[list, operator.add]
    total: Annotated[int, operator.add]
    calls: str


def canonical(folder: Path) -> CompiledGraph:
    """Two branches, a join, a fan of Sends, a question, a loop of two passes. It counts calls in a file."""

    def called(name: str) -> None:
        with (folder / "calls").open("a") as file:
            file.write(f"{name}\n")

    def node(name: str, **gives: Any) -> Any:
        async def body(_state: Any) -> dict[str, Any]:
            called(name)
            return {"log": [name], **gives}

        return body

    async def work(arg: dict[str, Any]) -> dict[str, Any]:
        called(f"work {arg['n']}")
        return {"log": [arg["n"]], "total": arg["n"]}

    async def asks(_state: Any) -> dict[str, Any]:
        answer = await interrupt("go on?")
        called("asks")
        return {"log": [answer]}

    def again(state: Any) -> str:
        return "start" if state["total"] < 6 else "end"

    graph = StateGraph(State)
    graph.add_node("start", node("start")).add_node("left", node("left")).add_node("right", node("right"))
    graph.add_node("work", work).add_node("asks", asks).add_node("end", node("end"))
    graph.add_edge(START, "start").add_edge("start", "left").add_edge("start", "right")
    graph.add_edge(["left", "right"], "asks")
    graph.add_conditional_edges("asks", lambda s: [Send("work", {"n": n}) for n in (1, 2)], ["work"])
    graph.add_conditional_edges("work", again, ["start", "end"])
    return graph.compile(journal=folder / "journal.db")


async def drive(folder: Path, durability: str = "sync") -> StepResult:
    """Go on with the thread, from wherever it stands, to its end."""
    app = canonical(folder)
    if app._driver.session.store.exists(THREAD) and (await begun(app)):
        result = await app.invoke(None, thread_id=THREAD, durability=durability)
    else:
        result = await app.invoke({"log": ["in"]}, thread_id=THREAD, durability=durability)
    while result.reason == "awaiting_answer":
        result = await app.invoke(Answer("yes"), thread_id=THREAD, durability=durability)
    return result


async def begun(app: CompiledGraph) -> bool:
    """True if the thread has had its input."""
    return bool(await app.get_state_history(THREAD))


async def shape(app: CompiledGraph) -> list[Any]:
    """The history without times: what must not depend on where a process died."""
    history = await app.get_state_history(THREAD)
    return [(one.checkpoint, one.step, one.source, one.values, one.next) for one in history]
