"""Models as nodes: one conversation a node, forks for Sends, usage in the budgets (supersteps.md 18)."""

from __future__ import annotations

import operator
import uuid
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from emissions import SpawnRequest, Verdict
from orchestrator.agents.models import register_model
from orchestrator.runtime.session import Session
from orchestrator.supersteps import END, START, Answer, Budget, RetryPolicy, Send, StateGraph
from roles import Role, role
from tests.supersteps.rig import lawful, records


@pytest.fixture
def anyio_backend() -> str:
    """The library that calls models runs on asyncio only."""
    return "asyncio"


def model(say) -> str:
    """A model that answers with what ``say(history)`` gives: a text, or (tool, arguments)."""
    name = f"steps-{uuid.uuid4().hex[:8]}"

    def whole(messages, info) -> ModelResponse:
        given = say(messages)
        part = TextPart(given) if isinstance(given, str) else ToolCallPart(given[0], given[1])
        return ModelResponse(parts=[part])

    async def stream(messages, info):
        import json

        given = say(messages)
        if isinstance(given, str):
            yield given
        else:
            yield {0: DeltaToolCall(name=given[0], json_args=json.dumps(given[1]), tool_call_id="1")}

    register_model(name, FunctionModel(whole, stream_function=stream))
    return name


def turns(messages: Any) -> int:
    """How many answers the model's conversation holds."""
    return sum(isinstance(message, ModelResponse) for message in messages)


def speaker(say, name="speaker", **more) -> Role:
    return Role(name, body="You speak.", models=(model(say),), **more)


class Words(TypedDict):
    log: Annotated[list, operator.add]
    said: Any


@pytest.mark.parametrize(("fresh", "seen"), [(False, [0, 1, 2]), (True, [0, 0, 0])])
async def test_one_conversation_a_node_continued_on_every_visit_unless_fresh(fresh, seen, tmp_path):
    """Also by the next input of the thread, and by another process, which has only the record."""
    heard = []

    def say(messages):
        heard.append(turns(messages))
        return f"answer {turns(messages)}"

    cast = speaker(say)

    def made():
        graph = StateGraph(Words).add_node("speaker", cast, writes="said", fresh=fresh)
        graph.add_node("count", _count).add_edge(START, "speaker").add_edge("speaker", "count")
        graph.add_conditional_edges(
            "count", lambda s: "speaker" if len(s["log"]) % 3 else END, ["speaker", END]
        )
        return graph.compile(journal=tmp_path / "j.db")

    app = made()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok, result.failures
    assert heard == seen
    assert result.state["said"] == {"text": f"answer {seen[-1]}"}
    result = await made().invoke({"log": []}, thread_id="t")
    assert result.ok and heard[3:] == ([0, 0, 0] if fresh else [3, 4, 5])
    lawful(app)


async def _count(state):
    return {"log": ["turn"]}


async def test_two_nodes_of_one_role_and_two_threads_are_four_conversations():
    heard = []

    def say(messages):
        heard.append(turns(messages))
        return "yes"

    cast = speaker(say)
    graph = StateGraph(Words).add_node("one", cast, writes="said").add_node("two", cast, writes="said")
    app = graph.add_edge(START, "one").add_edge("one", "two").compile()
    for thread in ("a", "b"):
        assert (await app.invoke({"log": []}, thread_id=thread)).ok
    assert heard == [0, 0, 0, 0]
    await app.invoke({"log": []}, thread_id="a")
    assert heard[4:] == [1, 1]


async def test_each_send_forks_the_conversation_as_the_step_found_it():
    """Siblings share the prefix and nothing else; forks keep theirs, and are never merged back."""
    heard: dict[str, list[int]] = {}

    def say(messages):
        text = str(messages[-1])
        who = next(
            (name for name in ("alpha", "beta") if f"'{name}'" in text or f'"{name}"' in text), "plain"
        )
        heard.setdefault(who, []).append(turns(messages))
        return f"{who} speaks"

    cast = speaker(say, emits=())

    class Said(TypedDict):
        log: Annotated[list, operator.add]
        said: Annotated[list, lambda old, new: [*old, new]]

    graph = StateGraph(Said).add_node("speaker", cast, writes="said").add_node("fan", _count)
    graph.add_edge(START, "speaker").add_edge("speaker", "fan")

    def fan(state):
        if len(state["log"]) > 2:
            return END
        # the node itself speaks in the same step: its forks do not hear that
        return ["speaker", *(Send("speaker", {"who": name}, key=name) for name in ("alpha", "beta"))]

    graph.add_conditional_edges("fan", fan, ["speaker", END])
    app = graph.compile(concurrency=1)
    result = await app.invoke({"log": [], "said": []}, thread_id="t")
    assert result.ok, result.failures
    assert heard["plain"] == [0, 1, 2]
    # the first fork begins with the one answer of before; the second visit goes on with its own
    assert heard["alpha"] == [1, 2] and heard["beta"] == [1, 2]
    names = {
        fact.branch
        for record in records(app, "t")
        for fact in record.facts
        if type(fact).__name__ == "BranchCreated"
    }
    assert names == {"speaker", "speaker@3.alpha", "speaker@3.beta"}
    lawful(app)


async def test_an_attempt_continues_its_conversation():
    """The failed tail leaves it; the next attempt is told what failed."""
    heard = []

    def say(messages):
        heard.append((turns(messages), "Attempt 1 at this failed" in str(messages[-1])))
        return "not a number" if len(heard) == 1 else "7"

    graph = StateGraph(Words)
    again = RetryPolicy(max_attempts=2, initial_interval=0)
    graph.add_node("speaker", speaker(say), writes="said", retry=again).add_edge(START, "speaker")

    def path(state):
        if state["said"]["text"] == "7":
            return END
        raise ValueError("no number")

    app = graph.add_conditional_edges("speaker", path, [END]).compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok, result.failures
    assert heard == [(0, False), (1, True)]
    lawful(app)


@pytest.mark.parametrize(
    ("word", "reason"), [("APPROVE-WITH-FIXES", "completed"), ("REJECT", "gate_rejected")]
)
async def test_a_gate_that_is_a_model_and_spawns(word, reason):
    """Verdict and SpawnRequest over tools; the receipt is the tool's answer."""
    step = {0: ("emit_spawn_request", {"assignee": "helper", "instruction": "help", "independent": True}),
            1: ("emit_verdict", {"verdict": word, "rationale": "so"})}  # fmt: skip

    def say(messages):
        return step.get(turns(messages), "done")

    @role()
    async def helper(turn):
        return {"log": [turn.instruction]}

    critic = speaker(say, "critic", emits=(Verdict, SpawnRequest))
    graph = StateGraph(Words).add_node(critic, gate=True).add_node(helper).add_node("after", _count)
    app = graph.add_edge(START, "critic").add_edge("critic", "after").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == reason, result
    assert result.state["log"] == (["turn", "help"] if reason == "completed" else ["help"])
    lawful(app)


async def test_usage_counts_in_the_budget_and_can_be_granted():
    def say(messages):
        return "some words"

    app = _loop(speaker(say)).compile()
    result = await app.invoke({"log": []}, thread_id="t", budget=Budget(tokens=60))
    assert result.reason == "budget_exhausted" and result.detail == "tokens"
    used = sum(
        fact.input_tokens + fact.output_tokens
        for record in records(app, "t")
        for fact in record.facts
        if type(fact).__name__ == "UsageRecorded"
    )
    assert used >= 60
    lawful(app)
    result = await app.invoke(None, thread_id="t", grant={"tokens": 100_000})
    assert result.ok
    # the next input has a budget of its own
    assert (await app.invoke({"log": []}, thread_id="t", budget=Budget(tokens=100_000))).ok
    lawful(app)


def _loop(cast):
    graph = StateGraph(Words).add_node("speaker", cast, writes="said").add_node("count", _count)
    graph.add_edge(START, "speaker").add_edge("speaker", "count")
    return graph.add_conditional_edges(
        "count", lambda s: "speaker" if len(s["log"]) < 5 else END, ["speaker", END]
    )


async def test_a_models_state_and_parameters_are_shown_and_a_person_is_asked():
    seen = []

    def say(messages):
        seen.append(str(messages))
        if turns(messages) == 0:
            return "ask_person", {"question": "Which?"}
        return "thanks"

    cast = speaker(say)
    graph = StateGraph(Words).add_node("speaker", cast, writes="said", asks=True, instruction="Choose.")
    app = graph.add_edge(START, "speaker").compile()
    result = await app.invoke({"log": ["seven pears"]}, thread_id="t")
    if result.reason == "awaiting_answer":
        result = await app.invoke(Answer("this one"), thread_id="t")
    assert result.ok, result
    assert "seven pears" in seen[0] and "Choose." in seen[0]
    lawful(app)


async def test_any_role_runs_without_a_key():
    """``Session(model="test")`` performs every role that has no function."""
    graph = StateGraph(Words).add_node("speaker", Role("r", body="B"), writes="said")
    app = graph.add_edge(START, "speaker").compile(Session(model="test"))
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok, result.failures
    assert result.state["said"]["text"]
