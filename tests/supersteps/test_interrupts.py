"""Interrupts, breakpoints, memoised steps: C37 to C46, C57, C58, X9."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from orchestrator.errors import OperationError
from orchestrator.supersteps import (
    START,
    Answer,
    Answers,
    Command,
    RetryPolicy,
    Send,
    StateGraph,
    interrupt,
)
from tests.supersteps.rig import Log, chain, lawful, says


class Key(TypedDict):
    my_key: Annotated[str, operator.add]
    steps: Annotated[list, operator.add]


def asking(*nodes, schema: Any = Log, **options: Any):
    graph = StateGraph(schema)
    for name, fn in nodes:
        graph.add_node(name, fn, **options).add_edge(START, name)
    return graph.compile()


async def test_C37_each_resume_answers_the_next_question_and_the_state_waits():
    async def node(_state):
        one = await interrupt("one")
        two = await interrupt("two")
        return {"steps": [one, two]}

    app = asking(("node", node), schema=Key)
    result = await app.invoke({"my_key": "x"}, thread_id="t")
    assert [one.value for one in result.interrupts] == ["one"]
    result = await app.invoke(Answer("step1"), thread_id="t")
    assert [one.value for one in result.interrupts] == ["two"] and result.state == {
        "my_key": "x",
        "steps": [],
    }
    result = await app.invoke(Answer("step2"), thread_id="t")
    assert result.ok and result.state["steps"] == ["step1", "step2"]
    lawful(app)


@pytest.mark.parametrize("by_id", [False, True])
async def test_C38_an_update_with_an_answer_comes_before_the_node_runs_again(by_id):
    async def node(state):
        before = state["my_key"]
        answers = [await interrupt("one"), await interrupt("two")]
        return {"my_key": " ".join(["", *answers]) if before else ""}

    app = asking(("node", node), schema=Key)
    result = await app.invoke({"my_key": "DE"}, thread_id="t")
    for answer in ("answer 1", "answer 2"):
        said = Answers({result.interrupts[0].id: answer}) if by_id else Answer(answer)
        update = {"my_key": " foofoo"} if answer == "answer 1" else None
        result = await app.invoke(Command(resume=said, update=update), thread_id="t")
    assert result.state["my_key"] == "DE foofoo answer 1 answer 2"
    lawful(app)


async def test_C39_a_node_asks_until_the_answer_is_right():
    async def node(_state):
        question = "age?"
        for _ in range(10):
            answer = await interrupt(question)
            if answer >= 18:
                return {"n": answer}
            question = "invalid response"
        return None

    app = asking(("node", node))
    await app.invoke({"log": []}, thread_id="t")
    for answer, asked in ((13, "invalid response"), (15, "invalid response")):
        result = await app.invoke(Answer(answer), thread_id="t")
        assert result.interrupts[0].value == asked
    assert (await app.invoke(Answer(19), thread_id="t")).state["n"] == 19


async def test_C41_two_questions_need_their_ids():
    async def node(_state):
        return {"log": [await interrupt("which?")]}

    app = asking(("left", node), ("right", node))
    result = await app.invoke({"log": []}, thread_id="t")
    with pytest.raises(OperationError, match="left@1:#0, right@1:#0"):
        await app.invoke(Answer(1), thread_id="t")
    with pytest.raises(OperationError, match="no open interrupt"):
        await app.invoke(Answers({"nobody": 1}), thread_id="t")
    result = await app.invoke(Answers({one.id: one.node for one in result.interrupts}), thread_id="t")
    assert result.ok and result.state["log"] == ["left", "right"]


async def test_C42_answers_one_by_one_run_each_task_once_more():
    calls = []

    async def child(arg):
        calls.append(arg)
        return {"log": [f"{arg}{await interrupt(arg)}"]}

    graph = StateGraph(Log).add_node("start", says()).add_node("child", child)
    graph.add_edge(START, "start").add_conditional_edges(
        "start", lambda s: [Send("child", "a"), Send("child", "b")]
    )
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert [one.value for one in result.interrupts] == ["a", "b"]
    result = await app.invoke(Answers({result.interrupts[1].id: "!"}), thread_id="t")
    assert [one.value for one in result.interrupts] == ["a"] and result.state["log"] == ["b!"]
    result = await app.invoke(Answer("?"), thread_id="t")
    assert result.ok and result.state["log"] == ["a?", "b!"]
    assert calls == ["a", "b", "b", "a"]
    lawful(app)


async def test_C44_a_breakpoint_after_every_node():
    app = chain("step_1", "step_2", "step_3", interrupt_after="*")
    seen = [(await app.invoke({"log": []}, thread_id="t")).next]
    seen += [(await app.invoke(None, thread_id="t")).next for _ in range(2)]
    assert seen == [("step_2",), ("step_3",), ()]
    # one checkpoint for the input and one for each step: there is no hidden step of START
    assert len(await app.get_state_history("t")) == 4
    lawful(app)


async def test_C45_an_interrupt_is_no_attempt_and_stands_in_the_streams():
    calls = []

    async def node(_state):
        calls.append(1)
        return {"log": [await interrupt("which?")]}

    app = asking(("node", node), retry=RetryPolicy(max_attempts=3))
    async with app.stream({"log": []}, thread_id="t", mode=["updates", "values"]) as stream:
        items = [item async for item in stream]
    asked = [item["__interrupt__"][0].value for _, item in items if "__interrupt__" in item]
    assert calls == [1] and asked == ["which?"] * 2


async def test_C46_a_breakpoint_before_and_a_goto_that_replaces_the_frontier():
    def app():
        graph = StateGraph(Key)
        for name in ("node1", "node2"):

            async def node(_state, name=name):
                return {"my_key": f"|{name}"}

            graph.add_node(name, node)
        return graph.add_edge(START, "node1").add_edge("node1", "node2").compile(interrupt_before=["node1"])

    one = app()
    result = await one.invoke({"my_key": "abc"}, thread_id="t")
    assert result.reason == "interrupted" and result.next == ("node1",) and "before node1" in result.detail
    assert (await one.invoke(None, thread_id="t")).state["my_key"] == "abc|node1|node2"
    two = app()
    await two.invoke({"my_key": "abc"}, thread_id="t")
    assert (await two.invoke(Command(goto=["node2"]), thread_id="t")).state["my_key"] == "abc|node2"
    lawful(two)


async def test_a_goto_on_an_interrupted_thread_replaces_what_was_pending_and_keeps_what_has_finished():
    async def asks(_state):
        return {"log": [await interrupt("?")]}

    graph = (
        StateGraph(Log).add_node("asks", asks).add_node("done", says("done")).add_node("else_", says("else"))
    )
    app = graph.add_edge(START, "asks").add_edge(START, "done").compile()
    await app.invoke({"log": []}, thread_id="t")
    result = await app.invoke(Command(goto="else_", update={"log": ["told"]}), thread_id="t")
    assert result.ok and result.state["log"] == ["done", "told", "else"]
    lawful(app)


async def test_C57_a_drain_stops_at_the_boundary_and_the_thread_goes_on():
    async def one(_state):
        app.drain("t")
        return {"log": ["one"]}

    graph = StateGraph(Log).add_node("one", one).add_node("two", says("two"))
    app = graph.add_edge(START, "one").add_edge("one", "two").compile()
    for durability in ("sync", "exit"):
        result = await app.invoke({"log": []}, thread_id="t", durability=durability, on_pending="replace")
        assert (result.reason, result.state["log"][-1], result.next) == ("drained", "one", ("two",))
    assert (await app.invoke(None, thread_id="t")).state["log"][-2:] == ["one", "two"]
    lawful(app)


async def test_C57_a_drain_in_the_last_step_is_a_normal_finish():
    async def one(_state):
        app.drain("t")
        return {"log": ["one"]}

    app = StateGraph(Log).add_node("one", one).add_edge(START, "one").compile()
    assert (await app.invoke({"log": []}, thread_id="t")).ok


async def test_C58_what_a_node_memoised_is_not_made_again():
    calls = []

    async def node(_state, turn):
        async def mapped(n):
            calls.append(n)
            return str(n) * 2

        words = [await turn.step(f"map {n}", lambda n=n: mapped(n)) for n in (0, 1)]
        answer = await interrupt("go?")
        return {"log": [word + answer for word in words]}

    app = asking(("node", node))
    await app.invoke({"log": []}, thread_id="t")
    result = await app.invoke(Answer("answer"), thread_id="t")
    assert result.state["log"] == ["00answer", "11answer"] and calls == [0, 1]


@pytest.mark.parametrize("answer", [None, {}, {"0123456789abcdef0123456789abcdef": 1}, False, "5", 5, [], ""])
async def test_X9_any_data_is_an_answer_and_arrives_unchanged(answer):
    async def node(_state):
        return {"log": [await interrupt(answer)]}

    app = asking(("node", node))
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.interrupts[0].value == answer
    result = await app.invoke(Answer(answer), thread_id="t")
    assert result.state["log"] == [answer] and type(result.state["log"][0]) is type(answer)


async def test_X9_an_answer_that_is_not_wrapped_is_refused():
    async def node(_state):
        return {"log": [await interrupt("?")]}

    app = asking(("node", node))
    await app.invoke({"log": []}, thread_id="t")
    with pytest.raises(OperationError, match="wrap it"):
        await app.invoke(Command(resume="yes"), thread_id="t")  # type: ignore[arg-type]


async def test_questions_inside_a_task_group_are_answered_under_their_keys():
    async def node(_state):
        found = {}

        async def ask(key):
            found[key] = await interrupt(f"{key}?", key=key)

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "a")
            group.start_soon(ask, "b")
        return {"log": [found["a"], found["b"]]}

    app = asking(("node", node))
    result = await app.invoke({"log": []}, thread_id="t")
    answers = {"a": 1, "b": 2}
    while result.interrupts:
        said = Answers({one.id: answers.pop(one.key) for one in result.interrupts})
        result = await app.invoke(said, thread_id="t")
    assert result.state["log"] == [1, 2] and not answers
    lawful(app)


async def test_going_on_without_an_answer_asks_again():
    calls = []

    async def node(state):
        calls.append(state["n"])
        return {"log": [await interrupt(state["n"])]}

    app = asking(("node", node))
    await app.invoke({"n": 1}, thread_id="t")
    await app.update_state("t", {"n": 2})
    result = await app.invoke(None, thread_id="t")
    assert [one.value for one in result.interrupts] == [2] and calls == [1, 2]
    lawful(app)


async def test_interrupt_outside_a_node_says_so():
    with pytest.raises(OperationError.__base__, match="outside a node"):
        await interrupt("?")
