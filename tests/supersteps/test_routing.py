"""Sends, Commands, conditional edges, joins, deferral, budgets: C07, C11 to C19, X7, X8, X12."""

from __future__ import annotations

import operator
import random
from typing import Annotated, TypedDict

import anyio
import pytest

from orchestrator.errors import DuplicateNodeError, GraphError, UnknownNodeError
from orchestrator.supersteps import END, START, Budget, Command, Send, StateGraph
from tests.supersteps.rig import Log, chain, lawful, says


def built(*names):
    graph = StateGraph(Log)
    for name in names:
        graph.add_node(name, says(name))
    return graph


async def test_C07_order_is_that_of_routing_whatever_finishes_first():
    """The same list over shuffled completion orders."""
    for seed in range(30):
        draw = random.Random(seed)
        gates = {name: anyio.Event() for name in ("slow", "fast", "third")}

        def waits(name, gates=gates):
            async def node(_state):
                await gates[name].wait()
                return {"log": [name]}

            return node

        async def opens(_state, gates=gates, draw=draw):
            for name in draw.sample(sorted(gates), 3):
                gates[name].set()
                await anyio.lowlevel.checkpoint()

        graph = StateGraph(Log)
        for name in ("slow", "fast", "third"):
            graph.add_node(name, waits(name)).add_edge(START, name)
        graph.add_node("opens", opens).add_edge(START, "opens")
        result = await graph.compile().invoke({"log": []})
        assert result.state["log"] == ["slow", "fast", "third"]


@pytest.mark.parametrize("joined", [False, True])
async def test_C11_a_deferred_node_runs_once_when_nothing_else_is_left(joined):
    graph = built("rewrite", "one", "two", "analyzer")
    graph.add_node("qa", says("qa"), defer=True)
    graph.add_edge(START, "rewrite").add_edge("rewrite", "one").add_edge("rewrite", "two")
    graph.add_edge("one", "analyzer")
    if joined:
        graph.add_edge(["analyzer", "two"], "qa")
    else:
        graph.add_edge("analyzer", "qa").add_edge("two", "qa")
    app = graph.compile(interrupt_before=["qa"])
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.state["log"] == ["rewrite", "one", "two", "analyzer"] and result.next == ("qa",)
    await app.update_state("t", {"log": ["doc5"]})
    result = await app.invoke(None, thread_id="t")
    assert result.state["log"] == ["rewrite", "one", "two", "analyzer", "doc5", "qa"]
    assert (await app.get_state("t")).step == 4
    lawful(app)


def test_C13_faults_of_a_graph_are_told_at_compile():
    with pytest.raises(GraphError, match="no entry point"):
        built("a").compile()
    with pytest.raises(UnknownNodeError, match="'b'"):
        built("a").add_edge(START, "a").add_edge("a", "b").compile()
    with pytest.raises(DuplicateNodeError):
        built("a").add_node("a", says())
    with pytest.raises(GraphError):
        built(END)
    with pytest.raises(GraphError, match="nothing leads to START"):
        built("a").add_edge("a", START)
    with pytest.raises(GraphError, match="async def"):
        StateGraph(Log).add_node("sync", lambda state: None)
    with pytest.raises(UnknownNodeError):
        built("a").add_edge(START, "a").compile(interrupt_before=["b"])


@pytest.mark.parametrize(("limit", "peak"), [(10, 10), (None, 100)])
async def test_C14_a_fan_of_sends_under_a_limit(limit, peak):
    class State(TypedDict):
        items: Annotated[list, operator.add]

    running = most = 0
    full = anyio.Event()

    async def start(_state):
        return {"items": ["0"]}

    async def work(arg):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == peak:
            full.set()
        await full.wait()
        running -= 1
        return {"items": [arg]}

    graph = StateGraph(State).add_node("one", start).add_node("two", work).add_node("three", start)
    graph.add_edge(START, "one").add_conditional_edges("one", lambda s: [Send("two", i) for i in range(100)])
    graph.add_edge("two", "three")
    app = graph.compile(concurrency=limit)
    result = await app.invoke({"items": []}, thread_id="t")
    assert result.state["items"] == ["0", *range(100), "0"]
    assert most == peak
    held = await app.invoke({"items": ["again"]}, thread_id="u", interrupt_before=["two"])
    assert held.state["items"] == ["again", "0"]
    assert (await app.invoke(None, thread_id="u", interrupt_before=[])).state["items"][2:102] == list(
        range(100)
    )
    lawful(app)


async def test_C15_a_send_carries_data_and_nothing_else():
    async def sends(_state):
        return Command(goto=[Send("a", Command(update={}))])

    graph = built("a").add_node("sends", sends).add_edge(START, "sends")
    (failure,) = (await graph.compile().invoke({"log": []})).failures
    assert "send it JSON data" in failure.message


async def test_C16_a_planner_that_routes_by_command():
    class State(TypedDict):
        messages: Annotated[list, operator.add]
        plan: list

    async def planner(state):
        if not state["plan"]:
            return None
        first, *rest = state["plan"]
        return Command(goto=first, update={"plan": rest})

    def step(name):
        async def node(_state):
            return Command(goto="planner", update={"messages": [name]})

        return node

    graph = StateGraph(State).add_node("planner", planner)
    for name in ("step1", "step2", "step3", "step4"):
        graph.add_node(name, step(name))
    graph.add_edge(START, "planner")
    plan = ["step1", ["step2", "step3"], "step4"]
    result = await graph.compile().invoke({"messages": ["start"], "plan": plan})
    assert result.state == {"messages": ["start", "step1", "step2", "step3", "step4"], "plan": []}


async def test_C19_a_path_sees_its_own_node_and_no_sibling():
    seen = []

    def path(state):
        seen.append(list(state["log"]))
        return END

    graph = built("one", "two").add_edge(START, "one").add_edge(START, "two")
    graph.add_conditional_edges("one", path)
    await graph.compile().invoke({"log": ["in"]})
    assert seen == [["in", "one"]]


async def test_goto_replaces_edges_and_also_adds_to_them():
    async def goes(_state):
        return Command(goto="c")

    async def adds(_state):
        return Command(also="c")

    for node, log in ((goes, ["c"]), (adds, ["b", "c"])):
        graph = built("b", "c").add_node("a", node).add_edge(START, "a").add_edge("a", "b")
        assert (await graph.compile().invoke({"log": []})).state["log"] == log


@pytest.mark.parametrize("target", ["nowhere", 7])
async def test_an_unknown_target_fails_the_task(target):
    async def goes(_state):
        return Command(goto=[target])

    graph = StateGraph(Log).add_node("goes", goes).add_edge(START, "goes")
    (failure,) = (await graph.compile().invoke({"log": []})).failures
    assert failure.type == "InvalidUpdateError" and repr(target) in failure.message


async def test_two_sends_under_one_key_are_an_error_that_names_it():
    async def sends(_state):
        return Command(goto=[Send("a", 1, key="k"), Send("a", 2, key="k")])

    graph = built("a").add_node("sends", sends).add_edge(START, "sends")
    (failure,) = (await graph.compile().invoke({"log": []})).failures
    assert "'k'" in failure.message


async def test_a_sends_key_is_its_identity():
    async def sends(_state):
        return Command(goto=[Send("a", 1, key="left"), Send("a", 2, key="right"), Send("a", 3)])

    graph = built("a").add_node("sends", sends).add_edge(START, "sends")
    app = graph.compile(interrupt_after=["a"])
    async with app.stream({"log": []}, thread_id="t", mode="tasks") as stream:
        started = [item["task"] async for item in stream if item["is"] == "started"]
    assert started == ["sends@1", "a@2.left", "a@2.right", "a@2.0"]


async def test_X7_a_join_waits_for_the_longer_branch():
    graph = built("a", "b", "b2", "c").add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2")
    graph.add_edge(["a", "b2"], "c")
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.state["log"] == ["a", "b", "b2", "c"]
    # arrivals of one turn never count in the next
    again = await app.invoke({"log": ["-"]}, thread_id="t")
    assert again.state["log"][4:] == ["-", "a", "b", "b2", "c"]


async def test_X7_an_untaken_branch_is_discounted():
    graph = built("a", "b", "c", "d").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda s: "b", ["b", "c"]).add_edge(["b", "c"], "d")
    assert (await graph.compile().invoke({"log": []})).state["log"] == ["a", "b", "d"]


async def test_X7_joins_that_wait_for_each_other_are_stuck_and_say_so():
    graph = built("a", "b", "p", "q", "x", "y").add_edge(START, "a").add_edge(START, "b")
    graph.add_edge(["a", "x"], "p").add_edge(["b", "y"], "q").add_edge("q", "x").add_edge("p", "y")
    result = await graph.compile().invoke({"log": []}, thread_id="t")
    assert result.reason == "stuck"
    assert "p waits for x" in result.detail and "q waits for y" in result.detail


async def test_X12_a_chain_of_n_needs_n_steps_and_a_grant_is_exact():
    names = [f"n{i}" for i in range(6)]
    app = chain(*names)
    assert (await app.invoke({"log": []}, budget=Budget(steps=6))).ok
    result = await app.invoke({"log": []}, thread_id="t", budget=Budget(steps=2))
    assert (result.reason, result.detail, result.state["log"]) == ("budget_exhausted", "steps", ["n0", "n1"])
    result = await app.invoke(None, thread_id="t", grant={"steps": 3})
    assert (result.reason, result.state["log"]) == ("budget_exhausted", names[:5])
    assert (await app.invoke(None, thread_id="t", grant={"steps": 1})).ok
    lawful(app)


async def test_a_budget_of_visits_stops_a_loop_and_one_of_tasks_a_fan():
    graph = built("a").add_edge(START, "a").add_edge("a", "a")
    result = await graph.compile().invoke({"log": []}, budget=Budget(visits=3))
    assert (result.reason, result.detail, result.state["log"]) == ("budget_exhausted", "visits", ["a"] * 3)
    graph = built("a", "b").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda s: [Send("b", n) for n in range(5)])
    result = await graph.compile().invoke({"log": []}, budget=Budget(tasks=5))
    # a step that would exceed it does not start
    assert (result.detail, result.state["log"], len(result.next)) == ("tasks", ["a"], 5)


async def test_a_loop_without_a_budget_stops_at_the_house_limit():
    graph = built("a").add_edge(START, "a").add_edge("a", "a")
    result = await graph.compile().invoke({"log": []})
    assert (result.reason, len(result.state["log"])) == ("budget_exhausted", 1000)


async def test_X8_a_limit_of_one_finishes_a_fan():
    graph = built("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    assert (await graph.compile(concurrency=1).invoke({"log": []})).state["log"] == ["a", "b", "c"]


async def test_the_configs_of_langgraph_are_refused_with_where_they_go():
    with pytest.raises(GraphError.__base__, match="thread_id="):
        await chain("a").invoke({"log": []}, config={"configurable": {"thread_id": "1"}})


@pytest.mark.parametrize("table", [None, {"end": END, "b": "b", "c": "c"}])
@pytest.mark.parametrize(
    ("given", "log", "fault"),
    [
        ("end", ["a"], ""),
        (["b", "b"], ["a", "b"], ""),
        (["b", "c"], ["a", "b", "c"], ""),
        ([], ["a"], ""),
        ("nowhere", ["a"], "'nowhere'"),
        (None, ["a"], "gave None"),
    ],
)
async def test_what_a_router_may_give(table, given, log, fault):
    """COND 33: END always; an unknown name or None fails its node; [] leads nowhere; duplicates run once."""
    told = END if given == "end" and table is None else given
    graph = built("a", "b", "c").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda _state: told, table)
    result = await graph.compile().invoke({"log": []})
    assert result.state["log"] == ([] if fault else log)
    assert [one.node for one in result.failures] == (["a"] if fault else [])
    if fault:
        assert fault in result.failures[0].message
        assert "b" in result.failures[0].message.partition(fault)[2] or given is None


@pytest.mark.parametrize(("how", "log"), [("goto", ["c", "d"]), ("also", ["b", "c", "c", "d", "d"])])
async def test_a_jump_replaces_or_adds_as_it_says(how, log):
    """COND 34: A -> B -> C -> D, A jumps to C: goto replaces the edge, so D runs once; also adds to it."""

    async def jumps(_state):
        return Command(**{how: "c"})

    graph = built("b", "c", "d").add_node("a", jumps)
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", "d")
    result = await graph.compile().invoke({"log": []})
    assert sorted(result.state["log"]) == log
