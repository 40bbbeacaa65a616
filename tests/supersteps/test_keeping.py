"""What threads cost on disk, and threads that are kept no longer; C24 and S05."""

from __future__ import annotations

from typing import Annotated, TypedDict

import pytest

from orchestrator.errors import OperationError, RunOwnedError
from orchestrator.supersteps import START, StateGraph, add_messages
from tests.supersteps.rig import Log, chain

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kept", [False, True])
async def test_C24_S05_a_deleted_thread_leaves_nothing_and_others_are_as_they_were(kept, ram):
    app = chain("a", "b", journal=ram / "j.db" if kept else None)
    for thread in ("t", "t2", "other"):
        await app.invoke({"log": [thread]}, thread_id=thread)
    fork = await app.fork("t", at=1, name="branch")
    before = [await app.get_state_history(one) for one in ("t2", "other", fork)]
    assert await app.delete_thread("t")
    with pytest.raises(OperationError, match="no thread 't'"):
        await app.get_state("t")
    assert not await app.delete_thread("t") and not await app.delete_thread("nobody")
    assert [await app.get_state_history(one) for one in ("t2", "other", fork)] == before
    assert (await app.invoke({"log": ["new"]}, thread_id="t")).state["log"] == ["new", "a", "b"]
    assert len(await app.get_state_history("t")) == 3


async def test_S05_a_thread_that_is_driven_is_not_deleted(ram):
    made = []

    async def node(_state):
        with pytest.raises(RunOwnedError):
            await made[0].delete_thread("t")
        return {"log": ["a"]}

    made.append(StateGraph(Log).add_node("node", node).add_edge(START, "node").compile(journal=ram / "j.db"))
    assert (await made[0].invoke({"log": []}, thread_id="t")).state["log"] == ["a"]


class Chat(TypedDict):
    messages: Annotated[list, add_messages]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_200_turns_of_800_bytes_cost_at_most_three_times_that(ram):
    """Storage grows with writes, not with steps times state (supersteps.md 16)."""

    async def reply(state):
        return {"messages": [{"role": "assistant", "content": "r" * 800}]}

    app = StateGraph(Chat).add_node("reply", reply).add_edge(START, "reply").compile(journal=ram / "j.db")
    for _ in range(100):
        given = {"messages": [{"role": "user", "content": "u" * 800}]}
        result = await app.invoke(given, thread_id="t")
    assert len(result.state["messages"]) == 200
    assert sum(path.stat().st_size for path in ram.iterdir()) <= 3 * 200 * 800
