"""Graphs as nodes: C17, C18, C35, C41, C42, C54 to C57, X8, X11, and kills with a child in flight."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from orchestrator.errors import GraphError
from orchestrator.supersteps import (
    END,
    PARENT,
    START,
    Answer,
    Answers,
    Budget,
    Command,
    RetryPolicy,
    Send,
    StateGraph,
    interrupt,
)
from tests.supersteps.rig import Log, lawful, records, says


class Inner(TypedDict):
    log: Annotated[list, operator.add]
    mine: Annotated[list, operator.add]


def over(child: Any, *, schema: type = Log, memory: Any = None, **options: Any) -> StateGraph:
    """A graph of which ``sub`` is the only node."""
    graph = StateGraph(schema).add_node("sub", child, memory=memory, **options)
    return graph.add_edge(START, "sub")


def inner(*nodes: tuple[str, Any], schema: type = Inner) -> StateGraph:
    """Nodes in a row."""
    graph = StateGraph(schema)
    last = START
    for name, fn in nodes:
        graph.add_node(name, fn).add_edge(last, name)
        last = name
    return graph


async def test_a_child_s_output_is_its_diff_and_never_what_it_was_given():
    child = inner(("one", says("one")), ("two", says("two"))).compile()
    app = over(child).add_node("after", says("after")).add_edge("sub", "after").compile()
    result = await app.invoke({"log": ["in"]}, thread_id="t")
    assert result.state == {"log": ["in", "one", "two", "after"], "total": 0}
    kinds = lawful(app)
    assert kinds.count("ChildRunStarted") == kinds.count("ChildRunEnded") == 1
    lawful(app, "t.sub-1")
    first = records(app, "t.sub-1")[0].facts[0]
    assert (first.parent, first.parent_node) == ("t", "sub@1")


async def test_of_a_key_of_one_write_the_parent_gets_what_the_child_ended_with():
    async def counts(state):
        return {"n": state["n"] + 1}

    child = inner(("one", counts), ("two", counts), schema=Log)
    result = await over(child).compile().invoke({"n": 1})
    assert result.state["n"] == 3


async def test_C17_an_update_for_the_parent_sets_a_key_that_the_child_does_not_know():
    async def leaves(_state):
        return [Command(update={"mine": ["kept"]}), Command(graph=PARENT, update={"n": 5})]

    child = inner(("leaves", leaves), ("never", says("never")))
    app = over(child).compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok and result.state["n"] == 5 and result.state["log"] == []
    assert [one.source for one in await app.get_state_history("t")] == ["step", "input"]
    below = child.compile(session=app._driver.session)
    # its own writes are committed first, and nothing of it runs any more
    assert (await below.get_state("t.sub-1")).values["mine"] == ["kept"]
    assert (await below.get_state("t.sub-1")).next == ()
    lawful(app, "t.sub-1")


async def test_C18_a_goto_for_the_parent_leads_to_a_sibling_of_its_node():
    async def leaves(_state):
        return Command(graph=PARENT, goto=["other", Send("other", {"sent": 1})], update={"log": ["left"]})

    child = inner(("leaves", leaves), ("never", says("never")))

    async def other(state):
        return {"log": ["sent" if "sent" in state else "other"]}

    graph = over(child).add_node("other", other).add_node("static", says("static"))
    result = await graph.add_edge("sub", "static").compile().invoke({"log": []})
    assert result.state["log"] == ["left", "other", "sent"]


async def test_C18_a_goto_to_what_the_parent_does_not_have_fails_its_task_by_name():
    async def leaves(_state):
        return Command(graph=PARENT, goto="nowhere")

    result = await over(inner(("leaves", leaves))).compile().invoke({"log": []})
    assert result.reason == "failed" and "'nowhere'" in result.failures[0].message
    result = await inner(("leaves", leaves)).compile().invoke({"log": []})
    assert "no graph called this one" in result.failures[0].message


async def test_C35_the_failure_of_an_inner_node_reaches_the_handler_of_the_parent_s_node():
    async def breaks(_state):
        raise ValueError("inside")

    seen = []

    async def handler(_state, error):
        seen.append((error.node, error.type, error.message))
        return {"log": ["handled"]}

    child = inner(("breaks", breaks))
    result = await over(child, error_handler=handler).compile().invoke({"log": []}, thread_id="t")
    assert result.ok and result.state["log"] == ["handled"]
    assert seen[0][:2] == ("sub", "ChildRunError") and "breaks@1: ValueError: inside" in seen[0][2]
    result = await over(child).compile().invoke({"log": []})
    assert result.failures[0].task == "sub@1" and "inside" in result.failures[0].message


async def test_a_failed_child_goes_on_where_it_failed_and_its_finished_tasks_are_kept():
    calls = []

    async def flaky(_state):
        calls.append("flaky")
        if calls.count("flaky") < 3:
            raise ConnectionError("not yet")
        return {"log": ["flaky"]}

    async def once(_state):
        calls.append("once")
        return {"log": ["once"]}

    child = inner(("once", once), ("flaky", flaky))
    app = over(child, retry=RetryPolicy(max_attempts=2, initial_interval=0)).compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "failed"
    result = await app.invoke(None, thread_id="t")
    assert result.ok and result.state["log"] == ["once", "flaky"]
    assert calls == ["once", "flaky", "flaky", "flaky"]
    lawful(app)
    lawful(app, "t.sub-1")


async def test_a_state_that_was_put_right_is_what_a_failed_child_begins_again_with():
    """X4 with a child."""

    async def picky(state):
        if not state["n"]:
            raise ValueError("n is 0")
        return {"log": [state["n"]]}

    app = over(inner(("picky", picky), schema=Log)).compile()
    assert (await app.invoke({"n": 0}, thread_id="t")).reason == "failed"
    await app.update_state("t", {"n": 4})
    result = await app.invoke(None, thread_id="t")
    assert result.ok and result.state["log"] == [4]


async def test_C41_five_sends_to_an_asking_child_are_answered_by_one_map():
    async def asks(state):
        return {"log": [f"{state['mine'][0]}:{await interrupt(state['mine'][0])}"]}

    graph = StateGraph(Log).add_node("start", says()).add_node("sub", inner(("asks", asks)))
    graph.add_edge(START, "start")
    graph.add_conditional_edges("start", lambda s: [Send("sub", {"mine": [n]}) for n in range(5)])
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert [one.value for one in result.interrupts] == list(range(5))
    assert result.interrupts[3].namespace == ("sub@2.3",) and result.interrupts[3].id == "sub@2.3/asks@1:#0"
    result = await app.invoke(Answers({one.id: one.value * 10 for one in result.interrupts}), thread_id="t")
    assert result.ok and result.state["log"] == ["0:0", "1:10", "2:20", "3:30", "4:40"]
    lawful(app)


async def test_C42_one_answer_per_invoke_and_the_answered_child_is_never_run_again():
    calls = []

    async def asks(state):
        calls.append(state["mine"][0])
        return {"log": [f"{state['mine'][0]}{await interrupt('?')}"]}

    graph = StateGraph(Log).add_node("start", says()).add_node("sub", inner(("asks", asks)))
    graph.add_edge(START, "start")
    graph.add_conditional_edges("start", lambda s: [Send("sub", {"mine": [n]}) for n in "ab"])
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    result = await app.invoke(Answers({result.interrupts[1].id: "!"}), thread_id="t")
    assert result.state["log"] == ["b!"] and len(result.interrupts) == 1
    tasks = (await app.get_state("t")).tasks
    assert [(one.status, bool(one.interrupts)) for one in tasks] == [("ready", True), ("completed", False)]
    result = await app.invoke(Answer("?"), thread_id="t")
    assert result.ok and result.state["log"] == ["a?", "b!"] and calls == ["a", "b", "b", "a"]


async def test_C42_a_child_with_two_questions_takes_five_invokes():
    async def asks(_state):
        return {"log": [await interrupt("?")]}

    child = StateGraph(Inner).add_node("left", asks).add_node("right", asks)
    child.add_edge(START, "left").add_edge(START, "right")
    graph = StateGraph(Log).add_node("start", says()).add_node("sub", child)
    graph.add_edge(START, "start").add_conditional_edges("start", lambda s: [Send("sub", {"mine": []})] * 2)
    app = graph.compile()
    result, invokes = await app.invoke({"log": []}, thread_id="t"), 1
    while not result.ok:
        result = await app.invoke(Answers({result.interrupts[0].id: invokes}), thread_id="t")
        invokes += 1
    assert invokes == 5 and result.state["log"] == [1, 2, 3, 4]


async def test_C54_a_child_begins_empty_with_every_call_and_goes_on_where_it_asked():
    async def asks(state):
        return {"mine": [len(state["mine"])], "log": [await interrupt(len(state["mine"]))]}

    app = over(inner(("before", says()), ("asks", asks))).compile()
    for turn in range(2):
        result = await app.invoke({"log": []}, thread_id="t")
        assert result.interrupts[0].value == 0
        assert (await app.invoke(Answer(turn), thread_id="t")).ok
    assert (await app.get_state("t")).values["log"] == [0, 1]
    # the first node of the child ran once a call
    assert sum(type(f).__name__ == "NodeStarted" for r in records(app, "t.sub-2") for f in r.facts) == 3


async def test_C55_a_child_that_remembers_goes_on_with_its_own_state():
    async def grows(state):
        return {"mine": ["here"], "log": [len(state["mine"])]}

    graph = over(inner(("grows", grows)), memory="thread")
    graph.add_conditional_edges("sub", lambda s: "sub" if len(s["log"]) < 3 else END, ["sub", END])
    app = graph.compile()
    async with app.stream({"log": []}, thread_id="t", mode="updates", subgraphs=True) as stream:
        seen = [(ns, next(iter(item))) async for ns, item in stream]
    assert seen == [
        (("sub@1",), "grows"),
        ((), "sub"),
        (("sub@2",), "grows"),
        ((), "sub"),
        (("sub@3",), "grows"),
        ((), "sub"),
    ]
    assert (await app.get_state("t")).values["log"] == [0, 1, 2]
    assert (await app.invoke({"log": []}, thread_id="t")).state["log"] == [0, 1, 2, 3]
    lawful(app, "t.sub")


async def test_C56_a_replayed_parent_sees_what_its_child_remembered_then():
    async def grows(state):
        return {"mine": ["x"], "log": [len(state["mine"])]}

    graph = StateGraph(Log).add_node("first", inner(("grows", grows)), memory="thread")
    graph.add_node("second", inner(("grows", grows)), memory="thread")
    app = graph.add_edge(START, "first").add_edge("first", "second").compile()
    await app.invoke({"log": []}, thread_id="t")
    result = await app.invoke({"log": []}, thread_id="t")
    # two that remember are apart
    assert result.state["log"] == [0, 0, 1, 1]
    await app.invoke({"log": []}, thread_id="t")
    turn = next(one for one in await app.get_state_history("t") if one.values["log"] == [0, 0] and one.next)
    again = await app.invoke(None, thread_id="t", at=turn.checkpoint)
    assert again.state["log"] == [0, 0, 1, 1] and again.thread_id != "t"
    assert (await app.invoke({"log": []}, thread_id="t")).state["log"][-2:] == [3, 3]


async def test_C57_a_drain_asked_for_inside_a_child_stops_the_whole_tree():
    async def one(_state, turn):
        assert app.drain(turn.run)
        return {"log": ["one"]}

    app = over(inner(("one", one), ("two", says("two")))).compile()
    for durability in ("sync", "exit"):
        thread = f"t-{durability}"
        result = await app.invoke({"log": []}, thread_id=thread, durability=durability)
        assert (result.reason, result.next) == ("drained", ("sub",))
        result = await app.invoke(None, thread_id=thread)
        assert result.ok and result.state["log"] == ["one", "two"]


async def test_X8_nested_graphs_under_a_limit_of_one_finish():
    running, most = [], []

    async def work(_state):
        running.append(1)
        most.append(len(running))
        await interrupted_by_others()
        running.pop()
        return {"log": ["w"]}

    innermost = StateGraph(Inner).add_node("a", work).add_node("b", work)
    innermost.add_edge(START, "a").add_edge(START, "b")
    middle = inner(("sub", innermost), ("own", work))
    graph = StateGraph(Log)
    for name in ("x", "y"):
        graph.add_node(name, middle).add_edge(START, name)
    result = await graph.compile(concurrency=1).invoke({"log": []})
    assert result.ok and result.state["log"] == ["w"] * 6 and max(most) == 1


async def test_one_limiter_counts_bodies_of_the_whole_tree():
    running, most = [], []

    async def work(_state):
        running.append(1)
        most.append(len(running))
        await interrupted_by_others()
        running.pop()
        return {"log": ["w"]}

    graph = StateGraph(Log).add_node("start", says()).add_node("sub", inner(("work", work)))
    graph.add_edge(START, "start")
    graph.add_conditional_edges("start", lambda s: [Send("sub", {"mine": []}) for _ in range(6)])
    result = await graph.compile(concurrency=2).invoke({"log": []})
    assert result.ok and max(most) == 2


async def interrupted_by_others():
    for _ in range(3):
        await anyio.lowlevel.checkpoint()


async def test_X11_sends_to_a_child_that_remembers_each_find_their_own_over_two_turns():
    async def grows(state):
        return {"mine": [len(state["mine"])], "log": [state["mine"]]}

    graph = (
        StateGraph(Log).add_node("start", says()).add_node("sub", inner(("grows", grows)), memory="thread")
    )
    graph.add_edge(START, "start")
    graph.add_conditional_edges(
        "start", lambda s: [Send("sub", {"mine": [n]}, key=n) for n in ("left", "right")]
    )
    for _ in range(3):
        app = graph.compile()
        await app.invoke({"log": []}, thread_id="t")
        result = await app.invoke({"log": []}, thread_id="t")
        assert result.state["log"] == [["left"], ["right"], ["left", 1, "left"], ["right", 1, "right"]]


async def test_a_graph_that_calls_itself_is_bounded_by_depth_and_goes_on_with_a_grant():
    graph = StateGraph(Log)

    async def deeper(state):
        return {"n": state["n"] - 1, "log": [state["n"]]}

    graph.add_node("deeper", deeper).add_node("self", graph)
    graph.add_edge(START, "deeper")
    graph.add_conditional_edges("deeper", lambda s: "self" if s["n"] else END, ["self", END])
    app = graph.compile()
    result = await app.invoke({"n": 4}, thread_id="t", budget=Budget(depth=2))
    assert result.reason == "budget_exhausted" and result.next == ("self",)
    result = await app.invoke(None, thread_id="t", grant={"depth": 1})
    assert result.ok and result.state["log"] == [4, 3, 2, 1]
    lawful(app)
    held = [
        f.detail
        for r in records(app, "t.self-2.self-2")
        for f in r.facts
        if type(f).__name__ == "ChildRunHeld"
    ]
    assert held == ["depth: 2 graphs call each other here; grant depth to go deeper"]


async def test_tasks_of_children_count_in_the_whole_tree_and_steps_in_their_own_run():
    child = inner(("one", says("1")), ("two", says("2")), ("three", says("3")))
    app = over(child).add_node("after", says("after")).add_edge("sub", "after").compile()
    assert (await app.invoke({"log": []}, budget=Budget(steps=3))).ok
    result = await app.invoke({"log": []}, thread_id="t", budget=Budget(tasks=4))
    # sub and its three: one is missing
    assert (result.reason, result.next, result.detail) == ("budget_exhausted", ("after",), "tasks")
    assert (await app.invoke(None, thread_id="t", grant={"tasks": 1})).ok
    result = await app.invoke({"log": []}, thread_id="u", budget=Budget(tasks=3))
    assert (result.reason, result.next) == ("budget_exhausted", ("sub",))
    assert (await app.invoke(None, thread_id="u", grant={"tasks": 2})).ok


async def test_a_fork_has_children_of_its_own():
    async def asks(_state):
        return {"log": [await interrupt("?")]}

    app = over(inner(("asks", asks))).compile()
    await app.invoke({"log": []}, thread_id="t")
    fork = await app.fork("t", name="f")
    assert (await app.invoke(Answer("original"), thread_id="t")).state["log"] == ["original"]
    assert (await app.invoke(Answer("fork"), thread_id=fork)).state["log"] == ["fork"]


async def test_what_cannot_be_a_node_is_said():
    child = inner(("one", says("one")))
    with pytest.raises(GraphError, match="give add_node"):
        StateGraph(Log).add_node(child)
    with pytest.raises(GraphError, match="'call' or 'thread'"):
        StateGraph(Log).add_node("sub", child, memory="for ever")
    with pytest.raises(GraphError, match="no graph"):
        StateGraph(Log).add_node("sub", says("x"), memory="call")
