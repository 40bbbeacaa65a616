"""Stepped runs beside LangGraph (extra ``bench``): the same graphs of no-op nodes, in one process, in turns.

Figures are CPU seconds of the process, threads included, so that a busy machine and a slow disk do not
decide; the least of several repetitions, both warmed. Storage is what the files hold.
"""

from __future__ import annotations

import operator
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio
import pytest

pytest.importorskip("langgraph", reason='pip install -e ".[bench]"')
pytest.importorskip("langgraph.checkpoint.sqlite", reason='pip install -e ".[bench]"')

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END as LG_END
from langgraph.graph import START as LG_START
from langgraph.graph import StateGraph as LgStateGraph
from langgraph.types import Send as LgSend

from orchestrator.supersteps import END, START, Budget, Send, StateGraph
from tests.benchmarks.measure import best

pytestmark = pytest.mark.benchmark

#: No saver: at most this share of LangGraph's time per step and per Send.
IN_MEMORY = 0.2
#: With every step on disk before the next one.
ON_DISK = 0.5
#: Bytes on disk per byte of a conversation.
STORED = 3.0
REPETITIONS = 5

Run = Callable[[], Awaitable[Any]]


class Counted(TypedDict):
    n: int


class Talk(TypedDict):
    messages: Annotated[list, operator.add]


async def one_more(state: Any) -> Any:
    return {"n": state["n"] + 1}


async def nothing(_state: Any) -> None:
    return None


def loops(graph: Any, start: str, end: str, steps: int) -> Any:
    """One node, visited ``steps`` times."""
    graph.add_node("node", one_more)
    graph.add_edge(start, "node")
    graph.add_conditional_edges("node", lambda s: "node" if s["n"] < steps else end, ["node", end])
    return graph


def fans(graph: Any, start: str, send: Any, width: int) -> Any:
    """A node that sends ``width`` tasks to another."""
    graph.add_node("first", nothing)
    graph.add_node("node", nothing)
    graph.add_edge(start, "first")
    graph.add_conditional_edges("first", lambda _: [send("node", {"n": i}) for i in range(width)], ["node"])
    return graph


def spent(run: Run) -> Callable[[], float]:
    """CPU seconds that a coroutine takes on asyncio, the loop's own beginning and end left out."""

    async def measured() -> float:
        began = time.process_time()
        await run()
        return time.process_time() - began

    return lambda: anyio.run(measured)


def compared(ours: Run, theirs: Run, count: int, what: str, repetitions: int = REPETITIONS) -> float:
    """Our share of their time, printed with both figures."""
    least = best({"ours": spent(ours), "theirs": spent(theirs)}, repetitions)
    ratio = least["ours"] / least["theirs"]
    print(
        f"\n{what:<34} ours {least['ours'] / count * 1e6:8.1f} us   langgraph "
        f"{least['theirs'] / count * 1e6:8.1f} us   {ratio:.3f}"
    )
    return ratio


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on tmpfs where there is one: what is compared is work, not a disk."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="callboard-bench-", dir=place))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("count", [1_000, 5_000])
@pytest.mark.parametrize("shape", ["steps", "sends"])
def test_without_a_saver_at_most_a_fifth(shape: str, count: int) -> None:
    budget = Budget(steps=count + 10, concurrency=None)
    if shape == "steps":
        ours = loops(StateGraph(Counted), START, END, count).compile()
        theirs = loops(LgStateGraph(Counted), LG_START, LG_END, count).compile()
    else:
        ours = fans(StateGraph(Counted), START, Send, count).compile()
        theirs = fans(LgStateGraph(Counted), LG_START, LgSend, count).compile()

    async def our() -> None:
        result = await ours.invoke({"n": 0}, budget=budget)
        assert result.ok, result

    async def their() -> None:
        await theirs.ainvoke({"n": 0}, {"recursion_limit": count + 10})

    ratio = compared(our, their, count, f"{shape} {count}, no saver", 3 if count > 1_000 else REPETITIONS)
    assert ratio <= IN_MEMORY


@pytest.mark.parametrize("shape", ["steps", "sends"])
def test_every_step_on_disk_at_most_half(shape: str, memory: Path) -> None:
    count = 1_000
    budget = Budget(steps=count + 10, concurrency=None)
    numbers = iter(range(10_000))

    async def our() -> None:
        made = StateGraph(Counted)
        made = loops(made, START, END, count) if shape == "steps" else fans(made, START, Send, count)
        app = made.compile(journal=memory / f"ours-{next(numbers)}.db")
        result = await app.invoke({"n": 0}, thread_id="t", budget=budget, durability="sync")
        assert result.ok, result

    async def their() -> None:
        made = LgStateGraph(Counted)
        made = (
            loops(made, LG_START, LG_END, count) if shape == "steps" else fans(made, LG_START, LgSend, count)
        )
        async with AsyncSqliteSaver.from_conn_string(str(memory / f"theirs-{next(numbers)}.db")) as saver:
            config = {"configurable": {"thread_id": "t"}, "recursion_limit": count + 10}
            await made.compile(checkpointer=saver).ainvoke({"n": 0}, config, durability="sync")

    assert compared(our, their, count, f"{shape} {count}, sync on disk", 3) <= ON_DISK


def stored(folder: Path, name: str) -> int:
    """Bytes of a database and of what stands beside it."""
    return sum(path.stat().st_size for path in folder.glob(f"{name}*"))


def test_a_conversation_takes_at_most_three_times_its_payload(memory: Path) -> None:
    """200 turns: a message of 800 bytes, and an answer of 800."""
    turns, text = 200, "x" * 800
    payload = turns * 2 * len(text)

    async def answers(_state: Any) -> Any:
        return {"messages": [text]}

    async def talk() -> tuple[int, int]:
        made = StateGraph(Talk).add_node("answers", answers).add_edge(START, "answers")
        app = made.compile(journal=memory / "ours.db")
        for _ in range(turns):
            assert (await app.invoke({"messages": [text]}, thread_id="t")).ok
        peer = LgStateGraph(Talk)
        peer.add_node("answers", answers)
        peer.add_edge(LG_START, "answers")
        async with AsyncSqliteSaver.from_conn_string(str(memory / "theirs.db")) as saver:
            theirs = peer.compile(checkpointer=saver)
            for _ in range(turns):
                await theirs.ainvoke({"messages": [text]}, {"configurable": {"thread_id": "t"}})
        return stored(memory, "ours.db"), stored(memory, "theirs.db")

    ours, theirs = anyio.run(talk)
    print(
        f"\n200 turns, {payload:,} bytes: ours {ours:,} ({ours / payload:.2f}x), "
        f"langgraph {theirs:,} ({theirs / payload:.1f}x)"
    )
    assert ours <= STORED * payload
