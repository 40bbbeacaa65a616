"""History, replay, forks, update_state, ownership: C48 to C52, S01 to S07, X2, X6."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import Session
from orchestrator.errors import OperationError, RunOwnedError
from orchestrator.supersteps import START, Answer, Command, StateGraph, interrupt
from tests.supersteps.rig import Log, chain, lawful, records, says


async def test_C48_replaying_the_last_checkpoint_runs_nothing():
    calls = []

    async def node(_state):
        calls.append(1)
        return {"log": ["a"]}

    app = StateGraph(Log).add_node("a", node).add_edge(START, "a").compile()
    first = await app.invoke({"log": []}, thread_id="t")
    again = await app.invoke(None, thread_id="t", at=first.checkpoint)
    assert again.ok and again.state == first.state and calls == [1] and again.thread_id != "t"


async def test_C48_replaying_one_checkpoint_asks_the_same_each_time_and_moves_no_other_head():
    async def asks(_state):
        return {"log": [await interrupt("which?")]}

    graph = StateGraph(Log).add_node("a", says("a")).add_node("asks", asks)
    app = graph.add_edge(START, "a").add_edge("a", "asks").compile()
    await app.invoke({"log": []}, thread_id="t")
    await app.invoke(Answer("x"), thread_id="t")
    head = await app.get_state("t")
    seen = [await app.invoke(None, thread_id="t", at=2) for _ in range(3)]
    assert {one.state["log"][0] for one in seen} == {"a"}
    assert [[i.id for i in one.interrupts] for one in seen] == [["asks@2:#0"]] * 3
    assert await app.get_state("t") == head
    assert len({one.thread_id for one in seen}) == 3


async def test_C49_a_fork_between_two_questions_asks_the_second_only():
    def asks(word):
        async def node(_state):
            return {"log": [f"{word}{await interrupt(word)}"]}

        return node

    graph = StateGraph(Log).add_node("a", says("a")).add_node("i1", asks("one")).add_node("i2", asks("two"))
    graph.add_node("b", says("b")).add_edge(START, "a").add_edge("a", "i1").add_edge("i1", "i2").add_edge(
        "i2", "b"
    )
    app = graph.compile()
    await app.invoke({"log": []}, thread_id="t")
    await app.invoke(Answer("-1"), thread_id="t")
    await app.invoke(Answer("-2"), thread_id="t")
    forked = await app.invoke(None, thread_id="t", at=3)
    assert [one.value for one in forked.interrupts] == ["two"]
    result = await app.invoke(Answer("-new"), thread_id=forked.thread_id)
    assert result.state["log"] == ["a", "one-1", "two-new", "b"]
    earlier = await app.invoke(None, thread_id="t", at=2)
    assert [one.value for one in earlier.interrupts] == ["one"]


async def test_C51_updates_of_an_old_checkpoint_are_independent_forks():
    app = chain("a", "b")
    await app.invoke({"log": []}, thread_id="t")
    before = await app.get_state_history("t")
    one = await app.update_state("t", {"log": ["one"]}, at=2)
    two = await app.update_state("t", {"log": ["two"]}, at=2)
    assert (one.values["log"], two.values["log"]) == (["a", "one"], ["a", "two"])
    assert one.source == "update" and one.next == ("b",)
    assert (await app.invoke(None, thread_id=one.thread_id)).state["log"] == ["a", "one", "b"]
    assert await app.get_state_history("t") == before
    plain = await app.fork("t", at=2, name="copy")
    assert (await app.get_state(plain)).values["log"] == ["a"]
    with pytest.raises(OperationError, match="already"):
        await app.fork("t", name="copy")


async def test_update_as_a_node_follows_its_edges_and_leaves_the_frontier():
    app = chain("a", "b", "c", interrupt_before="*")
    await app.invoke({"log": []}, thread_id="t")
    state = await app.update_state("t", {"log": ["by hand"]}, as_node="a")
    assert state.next == ("b",)
    assert (await app.invoke(None, thread_id="t", interrupt_before=[])).state["log"] == ["by hand", "b", "c"]
    # on a thread that has ended it opens it again
    state = await app.update_state("t", {"log": ["more"]}, as_node="b")
    assert state.next == ("c",)
    assert (await app.invoke(None, thread_id="t", interrupt_before=[])).state["log"][-2:] == ["more", "c"]
    lawful(app)


async def test_update_with_a_command_routes_as_the_node_would():
    app = chain("a", "b", "c", interrupt_before=["a"])
    await app.invoke({"log": []}, thread_id="t")
    state = await app.update_state("t", Command(update={"log": ["x"]}, goto="c"), as_node="a")
    assert state.next == ("c",)


async def test_X2_a_renamed_node_is_named_and_can_be_told(tmp_path):
    path = tmp_path / "journal.db"
    await chain("a", "old", journal=path, interrupt_before=["old"]).invoke({"log": []}, thread_id="t")
    app = chain("a", "new", journal=path)
    with pytest.raises(OperationError, match="'old' is to run and is no node"):
        await app.invoke(None, thread_id="t")
    result = await app.invoke(None, thread_id="t", rename={"old": "new"})
    assert result.ok and result.state["log"] == ["a", "new"]
    lawful(app)


async def test_X6_one_owner_within_a_process():
    begun, go = anyio.Event(), anyio.Event()

    async def waits(_state):
        begun.set()
        await go.wait()

    app = StateGraph(Log).add_node("waits", waits).add_edge(START, "waits").compile()
    async with anyio.create_task_group() as group:

        async def drive():
            assert (await app.invoke({"log": []}, thread_id="t")).ok

        group.start_soon(drive)
        await begun.wait()
        for attempt in (
            lambda: app.invoke({"log": []}, thread_id="t"),
            lambda: app.update_state("t", {"log": []}),
        ):
            with pytest.raises(RunOwnedError):
                await attempt()
        go.set()


async def test_S01_S02_threads_and_checkpoints_are_found_by_their_ids():
    app = chain("a")
    await app.invoke({"log": ["one"]}, thread_id="1")
    await app.invoke({"log": ["two"]}, thread_id="2")
    newest = await app.get_state("1")
    assert newest == await app.get_state("1", at=newest.checkpoint)
    assert newest.values["log"] == ["one", "a"] and (await app.get_state("2")).values["log"] == ["two", "a"]
    with pytest.raises(OperationError, match="no thread"):
        await app.get_state("3")
    with pytest.raises(OperationError, match="no checkpoint"):
        await app.get_state("1", at=99)
    with pytest.raises(OperationError, match="cannot name a run"):
        await app.invoke({"log": []}, thread_id="../etc")


async def test_S04_history_is_newest_first_and_takes_a_limit():
    app = chain("a", "b")
    await app.invoke({"log": []}, thread_id="t")
    history = await app.get_state_history("t")
    assert [one.checkpoint for one in history] == [3, 2, 1]
    assert [one.next for one in history] == [(), ("b",), ("a",)]
    assert await app.get_state_history("t", limit=1) == history[:1]


async def test_S07_a_journal_that_is_opened_again_says_the_same(tmp_path):
    path = tmp_path / "journal.db"
    app = chain("a", "b", journal=path)
    await app.invoke({"log": ["in"]}, thread_id="t")
    again = chain("a", "b", journal=path)
    assert await again.get_state_history("t") == await app.get_state_history("t")
    assert (await again.invoke({"log": ["more"]}, thread_id="t")).state["log"] == [
        "in",
        "a",
        "b",
        "more",
        "a",
        "b",
    ]
    lawful(again)


async def test_storage_grows_with_what_is_written(tmp_path):
    """200 turns of 800-byte messages: linear, and at most three times the payload."""
    path = tmp_path / "journal.db"

    async def reply(_state):
        return {"log": ["r" * 800]}

    app = StateGraph(Log).add_node("reply", reply).add_edge(START, "reply").compile(journal=path)
    sizes = []
    for turn in range(200):
        await app.invoke({"log": ["q" * 800]}, thread_id="t", durability="exit")
        if turn in (99, 199):
            sizes.append(sum(len(bytes(v)) for r in records(app, "t") for v in r.values))
    payload = 200 * 2 * 800
    assert sizes[1] <= 2.05 * sizes[0]
    whole = sum(file.stat().st_size for file in tmp_path.iterdir() if "wal" not in file.name)
    assert whole <= 3 * payload, whole


async def test_a_thread_is_not_resumed_as_a_graph(tmp_path):
    """By a session or the command line, which cannot know its functions: it says where to go on."""
    path = tmp_path / "journal.db"
    app = chain("a", "b", journal=path, interrupt_before=["b"])
    await app.invoke({"log": []}, thread_id="t")
    before = len(records(app, "t"))
    async with Session(journal=path) as session:
        for attempt in (session.resume("t"), session.retry("t"), session.fork("t", at=1)):
            with pytest.raises(OperationError, match="stepped graph"):
                await attempt
    assert len(records(app, "t")) == before
    assert (await app.invoke(None, thread_id="t")).ok
