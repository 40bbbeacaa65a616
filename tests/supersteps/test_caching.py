"""Cached writes (supersteps.md 11): C59, and what is never found."""

from __future__ import annotations

import operator
import time
from typing import Annotated, TypedDict

import apsw
import pytest
from anyio.lowlevel import checkpoint

from orchestrator import Session, role
from orchestrator.core.spec import Budget
from orchestrator.errors import GraphError, JournalError
from orchestrator.journal.caching import MemoryCache
from orchestrator.journal.checking import verify
from orchestrator.supersteps import (
    END,
    START,
    Answer,
    Answers,
    CachePolicy,
    Command,
    Overwrite,
    RetryPolicy,
    Send,
    StateGraph,
    Untracked,
    interrupt,
)
from orchestrator.supersteps.caching import cache_of
from tests.supersteps.rig import Log, lawful, records

pytestmark = pytest.mark.anyio


class Loop(TypedDict):
    todo: list
    n: int
    out: Annotated[list, operator.add]


class Reads(TypedDict):
    n: int


def doubling(calls, journal=None, **policy):
    """A loop over a list: double a number, which is cached, and ask."""

    async def take(state):
        return {"n": state["todo"][0], "todo": state["todo"][1:]}

    async def double(state: Reads):
        calls.append(state["n"])
        return {"out": [state["n"] * 2]}

    async def ask(_state):
        return {"out": [await interrupt("go on?")]}

    graph = StateGraph(Loop, name="doubling").add_node("take", take).add_node("ask", ask)
    graph.add_node("double", double, cache=CachePolicy(**policy))
    graph.add_edge(START, "take").add_edge("take", "double").add_edge("double", "ask")
    graph.add_conditional_edges("ask", lambda state: "take" if state["todo"] else END, ["take", END])
    return graph.compile(journal=journal)


async def through(app, thread):
    result = await app.invoke({"todo": [1, 1, 2, 2, 3, 3]}, thread_id=thread)
    for letter in "abcdef":
        assert result.reason == "awaiting_answer", result
        result = await app.invoke(Answer(letter), thread_id=thread)
    assert result.ok, result
    return result.state["out"]


OUT = [2, "a", 2, "b", 4, "c", 4, "d", 6, "e", 6, "f"]


@pytest.mark.parametrize("kept", [False, True])
async def test_C59_cached_calls_across_answers_threads_and_a_clear(kept, ram):
    calls = []
    app = doubling(calls, ram / "j.db" if kept else None)
    assert await through(app, "t") == OUT and calls == [1, 2, 3]
    assert await through(app, "u") == OUT and calls == [1, 2, 3]
    assert await app.clear_cache(["ask"]) == 0 and await app.clear_cache() == 3
    assert await through(app, "v") == OUT and len(calls) == 6
    assert lawful(app, "t").count("TaskCached") == 3 and lawful(app, "u").count("TaskCached") == 6


async def test_C59_another_process_finds_it_and_a_replay_needs_no_cache(ram):
    calls = []
    await through(doubling(calls, ram / "j.db"), "t")
    again = doubling(calls, ram / "j.db")
    assert await through(again, "u") == OUT and calls == [1, 2, 3]
    await again.clear_cache()
    assert (await again.get_state("u")).values["out"] == OUT
    assert not [fault for run in ("t", "u") for fault in verify(ram / "j.db", run)]


async def test_C59_ttl_by_the_wall_clock(monkeypatch):
    calls = []
    app = doubling(calls, ttl=60.0)
    await through(app, "t")
    now = time.time_ns()
    clock = [now + 59 * 10**9]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    await through(app, "u")
    assert len(calls) == 3
    clock[0] = now + 200 * 10**9
    await through(app, "v")

    # what was made again stands for the next
    assert calls[3:] == [1, 2, 3]


def fan(node, count=3, *, also=(), schema=Log, journal=None, session=None, concurrency=None, **options):
    """``node``, cached, is sent the same argument several times in one step."""

    async def start(_state):
        return None

    graph = StateGraph(schema).add_node("start", start).add_node("node", node, **options)
    for name, fn in also:
        graph.add_node(name, fn)
    graph.add_edge(START, "start")
    sends = [Send("node", {"n": 1}) for _ in range(count)]
    graph.add_conditional_edges("start", lambda s: [*sends, *(name for name, _ in also)])
    return graph.compile(journal=journal, session=session, concurrency=concurrency)


@pytest.mark.parametrize("concurrency", [None, 1])
async def test_equal_keys_in_one_step_run_once_and_write_the_same(concurrency):
    calls = []

    async def node(arg):
        calls.append(arg["n"])
        await checkpoint()
        return [{"log": ["a"]}, Command(update={"total": 2})]

    app = fan(node, cache=CachePolicy(), concurrency=concurrency)
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok and calls == [1]
    assert result.state["log"] == ["a"] * 3 and result.state["total"] == 6
    assert lawful(app).count("TaskCached") == 2


async def test_a_failure_is_not_cached_and_who_waited_for_it_tries(ram):
    calls = []

    async def node(_arg):
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("no")
        return {"log": ["a"]}

    app = fan(node, 2, cache=CachePolicy(), journal=ram / "j.db")
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "failed" and len(calls) == 2
    result = await app.invoke(None, thread_id="t")
    assert result.ok and result.state["log"] == ["a", "a"]
    lawful(app)


async def test_a_retried_attempt_that_succeeds_is_cached():
    calls = []

    async def node(_arg):
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("no")
        return {"log": ["a"]}

    app = fan(node, 1, cache=CachePolicy(), retry=RetryPolicy(initial_interval=0.0, jitter=0.0))
    for thread in "tu":
        assert (await app.invoke({"log": []}, thread_id=thread)).state["log"] == ["a"]
    assert len(calls) == 2


async def test_what_a_handler_answered_is_not_cached():
    calls = []

    async def node(_arg):
        calls.append(1)
        raise ConnectionError("no")

    async def handler(_state, _error):
        return {"log": ["handled"]}

    app = fan(node, 1, cache=CachePolicy(), error_handler=handler)
    for thread in "tu":
        assert (await app.invoke({"log": []}, thread_id=thread)).state["log"] == ["handled"]
    assert len(calls) == 2


async def test_C59_questions_and_what_depends_on_answers_are_not_cached():
    calls = []

    async def node(_arg):
        calls.append(1)
        return {"log": [await interrupt("which?")]}

    app = fan(node, 2, cache=CachePolicy())
    result = await app.invoke({"log": []}, thread_id="t")
    assert [one.value for one in result.interrupts] == ["which?"] * 2
    for answer in "ab":
        result = await app.invoke(Command(resume=_first(result, answer)), thread_id="t")
    assert result.ok and result.state["log"] == ["a", "b"] and len(calls) == 4
    assert "TaskCached" not in lawful(app)
    result = await app.invoke({"log": []}, thread_id="u")
    assert result.reason == "awaiting_answer"


def _first(result, answer):
    return Answers({result.interrupts[0].id: answer})


async def test_explicit_commands_are_kept_and_conditional_edges_are_asked_again():
    calls = []
    where = ["left"]

    async def steers(_state):
        calls.append("steers")
        return Command(update={"log": Overwrite(["over"])}, goto=[Send("work", 7), Send("work", 8, key="k")])

    async def plain(_state):
        calls.append("plain")
        return {"n": 1}

    async def work(arg):
        return {"log": [arg]}

    async def names(_state):
        return {"log": ["name"]}

    graph = StateGraph(Log).add_node("steers", steers, cache=CachePolicy(), destinations=("work",))
    graph.add_node("plain", plain, cache=CachePolicy(key=lambda state: None)).add_node("work", work)
    graph.add_node("left", names).add_node("right", names)
    graph.add_edge(START, "steers").add_edge("work", "plain")
    graph.add_conditional_edges("plain", lambda state: where[0], ["left", "right"])
    app = graph.compile()
    for thread, side in (("t", "left"), ("u", "right")):
        where[0] = side
        result = await app.invoke({"log": ["in"]}, thread_id=thread)
        assert result.state["log"] == ["over", 7, 8, "name"]
        ready = [f.node for r in records(app, thread) for f in r.facts if type(f).__name__ == "NodeCompleted"]
        assert ready[-1].startswith(f"{side}@")
    assert calls == ["steers", "plain"]
    lawful(app, "u")


async def test_a_fault_of_the_cache_is_a_miss_and_is_said():
    class Broken(MemoryCache):
        def get(self, key):
            raise JournalError("the disk is gone")

        put = get

    calls, told = [], []

    async def node(_arg):
        calls.append(1)
        return {"log": ["a"]}

    async with Session() as session, session.tap(told.append, kinds=("NodeProgress",)):
        app = fan(node, 2, cache=CachePolicy(), session=session)
        caches = cache_of(session.store)
        caches.get = caches.put = Broken().get
        for thread in "tu":
            result = await app.invoke({"log": []}, thread_id=thread)
            assert result.ok and result.state["log"] == ["a", "a"]
    # the tasks of one step share what one of them made, all the same
    assert len(calls) == 2
    assert "the disk is gone" in told[0].data["text"]


async def test_a_key_that_cannot_be_made_is_a_miss():
    calls = []

    async def node(_arg):
        calls.append(1)
        return {"log": ["a"]}

    app = fan(node, 2, cache=CachePolicy(key=lambda arg: arg["nothing"]))
    assert (await app.invoke({"log": []}, thread_id="t")).ok and len(calls) == 2


async def test_a_hit_is_a_visit_and_no_task_of_the_budget():
    async def node(_arg):
        return {"log": ["a"]}

    app = fan(node, 3, cache=CachePolicy())
    await app.invoke({"log": []}, thread_id="t")
    state = app._driver._threads._known["t"][0].state.steps
    assert state.visits == {"start": 1, "node": 3} and state.tasks == 2
    result = await app.invoke({"log": []}, thread_id="u", budget=Budget(visits=2))
    assert result.reason == "budget_exhausted"


async def test_the_stream_marks_a_hit():
    async def node(_arg):
        return {"log": ["a"]}

    app = fan(node, 2, cache=CachePolicy())
    async with app.stream({"log": []}, mode="tasks") as stream:
        seen = [(item["node"], item["is"]) async for item in stream]
    assert seen.count(("node", "cached")) == 1 and seen.count(("node", "completed")) == 1


async def test_what_is_never_recorded_is_never_kept(ram):
    class Loose(TypedDict):
        log: Annotated[list, operator.add]
        secret: Annotated[str, Untracked()]

    calls = []

    async def node(_arg):
        calls.append(1)
        return {"log": ["a"], "secret": "hush"}

    app = fan(node, 1, schema=Loose, cache=CachePolicy(), journal=ram / "j.db")
    for thread in "tu":
        assert (await app.invoke({"log": []}, thread_id=thread)).ok
    assert len(calls) == 2
    assert b"hush" not in (ram / "j.db").read_bytes()


async def test_resolve_rerun_runs_the_node_again():
    calls = []

    async def node(_arg):
        calls.append(1)
        return {"n": 1}

    async def other(_state):
        return {"n": 2}

    app = fan(node, 1, also=[("other", other)], cache=CachePolicy())
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "failed" and len(calls) == 1
    await app.resolve("t", "other@2", "drop")
    await app.resolve("t", "node@2.0", "rerun")
    assert (await app.invoke(None, thread_id="t")).ok and len(calls) == 2


class Node:
    async def __call__(self, _state):
        return {"log": ["a"]}


async def node_of_source(_state):
    return {"log": ["a"]}


def test_code_without_source_needs_a_version():
    scope = {}
    exec("async def node(state):\n    return None", scope)
    with pytest.raises(GraphError, match=r"no source.*version="):
        fan(scope["node"], cache=CachePolicy())
    with pytest.raises(GraphError, match="no source"):
        fan(Node(), cache=CachePolicy())
    fan(scope["node"], cache=CachePolicy(version="1"))
    with pytest.raises(GraphError, match="ttl"):
        fan(node_of_source, cache=CachePolicy(ttl=0))


async def test_another_version_or_other_values_around_the_code_is_another_key():
    calls = []

    def made(word):
        async def node(_arg):
            calls.append(word)
            return {"log": [word]}

        return node

    async with Session() as session:
        for word, version in (("a", None), ("b", None), ("a", None), ("c", "1"), ("c", "2"), ("d", "2")):
            app = fan(made(word), 1, cache=CachePolicy(version=version), session=session)
            await app.invoke({"log": []})
    assert calls == ["a", "b", "c", "c"]


def test_the_cache_of_a_journal_is_made_when_it_is_needed(ram):
    app = fan(node_of_source, cache=CachePolicy(), journal=ram / "j.db")
    cache = cache_of(app._driver.session.store)
    tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'cache'"
    assert apsw.Connection(str(ram / "j.db")).execute(tables).get == 0
    assert cache.get("k") is None
    cache.put("k", ("g", "n"), b"v", None)
    cache.put("old", ("g", "n"), b"v", 1e-9)
    cache.put("new", ("g", "m"), b"v", 60.0)
    assert cache.get("k").value == b"v" and cache.get("old") is None
    assert cache.clear("other", None) == 0 and cache.clear("g", ["m"]) == 1 and cache.clear("g", None) == 1


def test_roles_and_graphs_are_not_cached():
    @role()
    async def speaks(turn):
        return None

    for node in (speaks, fan(node_of_source)):
        with pytest.raises(GraphError, match="cache= is for a function"):
            fan(node, cache=CachePolicy())
