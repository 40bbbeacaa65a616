"""A new input on a thread with work left, and threads that are removed: C23, C24, S03, S05."""

from __future__ import annotations

import operator
import sqlite3
from contextlib import closing
from typing import Annotated, TypedDict

import pytest

from orchestrator.errors import OperationError, RunOwnedError
from orchestrator.supersteps import (
    START,
    Answer,
    EmptyInputError,
    InvalidUpdateError,
    PendingWorkError,
    StateGraph,
    add_messages,
    interrupt,
)
from tests.supersteps.rig import Log, chain, lawful, records


def asking(journal=None):
    async def asks(state):
        return {"log": [await interrupt(state["n"])]}

    return StateGraph(Log).add_node("asks", asks).add_edge(START, "asks").compile(journal=journal)


@pytest.mark.parametrize("on_disk", [False, True])
async def test_C23_an_enqueued_input_runs_when_the_work_before_it_has_ended(on_disk, tmp_path):
    path = tmp_path / "runs.db" if on_disk else None
    app = asking(path)
    await app.invoke({"n": 1}, thread_id="t")
    with pytest.raises(PendingWorkError, match="on_pending='enqueue'"):
        await app.invoke({"n": 2}, thread_id="t")
    result = await app.invoke({"n": 2}, thread_id="t", on_pending="enqueue")
    assert result.reason == "awaiting_answer" and result.interrupts[0].value == 1
    if on_disk:
        app = asking(path)
    result = await app.invoke({"n": 3}, thread_id="t", on_pending="enqueue")
    assert result.interrupts[0].value == 1
    # each answer ends one input's work; the next begins at once, in the order in which they came
    for answer, asked in (("a", 2), ("b", 3)):
        result = await app.invoke(Answer(answer), thread_id="t")
        assert result.reason == "awaiting_answer" and result.interrupts[0].value == asked
    result = await app.invoke(Answer("c"), thread_id="t")
    assert result.ok and result.state["log"] == ["a", "b", "c"]
    assert lawful(app).count("InputQueued") == 2


async def test_an_enqueued_input_behind_nothing_is_an_input():
    app = chain("a")
    for _ in range(2):
        result = await app.invoke({"log": []}, thread_id="t", on_pending="enqueue")
    assert result.state["log"] == ["a", "a"] and "InputQueued" not in lawful(app)


async def test_C24_an_input_that_replaces_drops_what_is_left_and_what_waits():
    app = asking()
    await app.invoke({"n": 1}, thread_id="t")
    await app.invoke({"n": 2}, thread_id="t", on_pending="enqueue")
    result = await app.invoke({"n": 3}, thread_id="t", on_pending="replace")
    assert result.interrupts[0].value == 3
    result = await app.invoke(Answer("only"), thread_id="t")
    assert result.ok and result.state["log"] == ["only"]
    lawful(app)


async def test_what_cannot_be_enqueued_is_said_before_anything_runs():
    app = asking()
    await app.invoke({"n": 1}, thread_id="t")
    with pytest.raises(EmptyInputError):
        await app.invoke({}, thread_id="t", on_pending="enqueue")
    with pytest.raises(InvalidUpdateError, match="'nope'"):
        await app.invoke({"nope": 1}, thread_id="t", on_pending="enqueue")
    with pytest.raises(OperationError, match="'enqueue'"):
        await app.invoke({"n": 1}, thread_id="t", on_pending="later")
    assert "InputQueued" not in lawful(app)


@pytest.mark.parametrize("on_disk", [False, True])
async def test_S05_a_thread_that_is_deleted_leaves_nothing_and_others_stay(on_disk, tmp_path):
    inner = chain("inner")
    graph = StateGraph(Log).add_node("sub", inner, memory="thread").add_edge(START, "sub")
    app = graph.compile(journal=tmp_path / "runs.db" if on_disk else None)
    for thread in ("t", "u"):
        await app.invoke({"log": []}, thread_id=thread)
    fork = await app.fork("t", name="f")
    await app.delete_thread("t")
    await app.delete_thread("nobody")
    store = app._driver.session.store
    assert [one for one in ("t", "t.sub", "u", "u.sub", "f", "f.sub") if store.exists(one)] == [
        "u",
        "u.sub",
        "f",
        "f.sub",
    ]
    with pytest.raises(OperationError, match="no thread 't'"):
        await app.get_state("t")
    assert (await app.invoke({"log": []}, thread_id=fork)).state["log"] == ["inner"] * 2
    assert (await app.invoke({"log": []}, thread_id="t")).state["log"] == ["inner"]


async def test_S05_a_thread_that_is_driven_is_not_deleted():
    async def deletes(_state):
        with pytest.raises(RunOwnedError):
            await app.delete_thread("t")

    app = StateGraph(Log).add_node("deletes", deletes).add_edge(START, "deletes").compile()
    assert (await app.invoke({"log": []}, thread_id="t")).ok


async def test_S05_a_copy_keeps_order_and_writes_and_leaves_its_source_as_it_is():
    app = chain("a", "b")
    await app.invoke({"log": []}, thread_id="t")
    before = len(records(app, "t"))
    copy = await app.fork("t", name="copy")
    shape = [(one.checkpoint, one.values, one.next) for one in await app.get_state_history("t")]
    assert shape == [(one.checkpoint, one.values, one.next) for one in await app.get_state_history(copy)]
    assert len(records(app, "t")) == before


async def test_S03_pending_writes_are_kept_once_in_order_and_end_with_their_step():
    class Two(TypedDict):
        log: Annotated[list, operator.add]

    async def writes(_state):
        return {"log": ["writes"]}

    async def fails(_state):
        raise ValueError("no")

    graph = StateGraph(Two).add_node("one", writes).add_node("two", fails).add_node("three", writes)
    for name in ("one", "two", "three"):
        graph.add_edge(START, name)
    app = graph.compile()
    for given in ({"log": []}, None):
        await app.invoke(given, thread_id="t")
        state = await app.get_state("t")
        assert [one.result for one in state.tasks] == [{"log": ["writes"]}, None, {"log": ["writes"]}]
        assert state.values["log"] == ["writes"] * 2 and state.tasks[1].error.type == "ValueError"
    await app.invoke({"log": ["new"]}, thread_id="t", on_pending="replace")
    assert (await app.get_state("t", at=2)).values["log"] == ["new"]


@pytest.mark.slow
async def test_a_conversation_of_200_turns_takes_at_most_three_times_its_payload(tmp_path):
    """Messages have ids, as those of providers have: one that gets its id here is on record twice."""

    class Chat(TypedDict):
        messages: Annotated[list, add_messages]

    async def answers(state):
        number = len(state["messages"])
        return {
            "messages": [{"role": "assistant", "id": f"a{number}", "content": f"{number:04}" + "a" * 796}]
        }

    path = tmp_path / "runs.db"
    app = StateGraph(Chat).add_node("answers", answers).add_edge(START, "answers").compile(journal=path)
    sizes = []
    for turn in range(200):
        said = {"role": "user", "id": f"u{turn}", "content": f"{turn:04}" + "u" * 796}
        await app.invoke({"messages": [said]}, thread_id="t", durability="exit")
        if turn in {99, 199}:
            sizes.append(size(path))
    assert len((await app.get_state("t")).values["messages"]) == 400
    assert sizes[1] <= 3 * 400 * 800
    # it grows with what is written, not with steps times state
    assert sizes[1] / sizes[0] <= 2.3


def size(path):
    with closing(sqlite3.connect(path)) as file:
        pages, page = (file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return pages * page
