"""What was recorded of stepped graphs and of models; nothing of it is needed to read that again."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

from pydantic_ai.exceptions import ModelQuotaExceededError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel

from orchestrator import (
    Finding,
    Gate,
    Graph,
    OperationGraphBuilder,
    Role,
    Session,
    SpawnRequest,
    Verdict,
    role,
)
from orchestrator.agents import Branch
from orchestrator.agents.models import register_model
from orchestrator.supersteps import (
    END,
    START,
    Answer,
    CachePolicy,
    CompiledGraph,
    Send,
    StateGraph,
    interrupt,
)


class Supply:
    """Whether the provider takes calls and the scout has what it needs: it changes between two runs."""

    there = False


async def _spoken(messages: Any, _info: Any) -> AsyncIterator[str]:
    if not Supply.there:
        raise ModelQuotaExceededError("local:golden", "the quota is used up")
    yield f"answer {sum(isinstance(message, ModelResponse) for message in messages) + 1}"


register_model("local:golden", FunctionModel(stream_function=_spoken))
DESK = Branch("desk")
speaker = Role("speaker", body="You speak.", models=("local:golden",))


def spoken() -> Graph:
    """A model that has no quota at first, and speaks twice on one branch."""
    made = OperationGraphBuilder("spoken")
    made.add_operation(speaker, "once", depends_on=[], branch=DESK, instruction="Say something.")
    made.add_operation(speaker, "twice", depends_on=["once"], branch=DESK, instruction="Say more.")
    return made.get_graph()


def joined() -> Graph:
    """Takes the branch on which the run before has spoken."""
    made = OperationGraphBuilder("joined")
    made.add_operation(speaker, "later", depends_on=[], branch=DESK, instruction="And now?")
    return made.get_graph()


# --- stepped graphs --------------------------------------------------------------------------------


class State(TypedDict):
    """What the steps read and write."""

    n: int
    log: Annotated[list[Any], operator.add]


def _says(name: str, **more: Any) -> Any:
    async def body(_state: Any) -> dict[str, Any]:
        return {"log": [name], **more}

    return body


def looped(session: Session) -> CompiledGraph:
    """Two branches, a join, a question, Sends, a route back, and a stop before the last."""

    async def asks(_state: Any) -> dict[str, Any]:
        return {"log": [await interrupt("go on?")]}

    async def work(arg: Any) -> dict[str, Any]:
        return {"log": [arg["n"]], "n": arg["n"]}

    graph = StateGraph(State).add_node("asks", asks).add_node("work", work)
    for name in ("start", "left", "right", "end"):
        graph.add_node(name, _says(name))
    graph.add_edge(START, "start").add_edge("start", "left").add_edge("start", "right")
    graph.add_edge(["left", "right"], "asks")
    graph.add_conditional_edges("asks", lambda at: [Send("work", {"n": len(at["log"])})], ["work"])
    graph.add_conditional_edges("work", lambda at: "start" if at["n"] < 6 else "end", ["start", "end"])
    return graph.compile(session, interrupt_before=["end"])


def clashing(session: Session) -> CompiledGraph:
    """Two tasks of one step that write to one channel."""
    graph = StateGraph(State).add_node("left", _says("left", n=1)).add_node("right", _says("right", n=2))
    return graph.add_edge(START, "left").add_edge(START, "right").compile(session)


def peopled(session: Session) -> CompiledGraph:
    """Roles as nodes: one asks for a helper, clashes and is run again; a gate says nothing, then rejects."""

    @role(emits=(SpawnRequest, Finding))
    async def scout(turn: Any) -> Any:
        """Asks for a helper."""
        await turn.emit(SpawnRequest(assignee="helper", key="a"))
        wrote = {} if Supply.there else {"n": 7}
        return [Finding(description="found"), {"log": ["scout"], **wrote}]

    @role()
    async def helper(turn: Any) -> Any:
        """Helps."""
        return {"log": [turn.node]}

    @role(emits=(Verdict,))
    async def critic(turn: Any) -> Any:
        """Judges."""
        if turn.inputs["n"] == 0:
            return {"log": ["silent"], "n": 1}
        return Verdict(verdict="REJECT", rationale="too little")

    graph = StateGraph(State).add_node(scout).add_node("rival", _says("rival", n=8))
    graph.add_node(helper).add_node(critic, gate=Gate()).add_node("on", _says("on"))
    graph.add_edge(START, "scout").add_edge(START, "rival").add_edge("scout", "critic").add_edge(
        "critic", "on"
    )
    graph.add_edge("on", "critic").add_edge("helper", END)
    return graph.compile(session)


async def cached(session: Session) -> None:
    """A task that runs once, and one whose writes are taken from the cache."""
    graph = StateGraph(State).add_node("counts", _says("counts", n=1), cache=CachePolicy())
    app = graph.add_edge(START, "counts").compile(session)
    for thread in ("first", "second"):
        await app.invoke({"log": [], "n": 0}, thread_id=thread)


async def talked(session: Session) -> None:
    """A model that has no quota, and has it again; a second run that goes on with what was said."""
    Supply.there = False
    run = await session.start(spoken())
    await run.wait()
    Supply.there = True
    await (await session.resume(run.id)).wait()
    await (await session.start(joined())).wait()


async def stepped(session: Session) -> None:
    """Threads that loop, are looked after, clash, and have roles."""
    app = looped(session)
    result = await app.invoke({"log": []}, thread_id="looped")
    while result.reason == "awaiting_answer":
        result = await app.invoke(Answer("yes"), thread_id="looped")
    await app.update_state("looped", {"log": ["by hand"]})
    await app.invoke(None, thread_id="looped", interrupt_before=[])
    app = clashing(session)
    await app.invoke({"log": [], "n": 0}, thread_id="clashing")
    await app.resolve("clashing", "left@1", "drop")
    await app.resolve("clashing", "right@1", "value", {"n": 3})
    await app.invoke(None, thread_id="clashing")
    app = peopled(session)
    Supply.there = False
    await app.invoke({"log": [], "n": 0}, thread_id="peopled")
    Supply.there = True
    await app.resolve("peopled", "scout@1", "rerun")
    await app.resolve("peopled", "rival@1", "drop")
    result = await app.invoke(None, thread_id="peopled")
    while result.reason == "gate_undecided":
        result = await app.invoke(Answer("APPROVE"), thread_id="peopled")
