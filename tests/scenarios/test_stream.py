"""STREAM of the bug reports: what readers get, once and in order. Web feeds are no part of the engine."""

from __future__ import annotations

import gc

import anyio
import pytest

from orchestrator import OperationGraphBuilder, Session, SpawnRequest, role
from tests.scenarios.conftest import lawful, ok


def chain(count):
    graph = OperationGraphBuilder()
    for number in range(count):
        graph.add_operation(ok, node_id=f"n{number}")
    return graph


@pytest.mark.parametrize("way", ["break", "collect", "other task"])
async def test_STREAM_53_early_exit_is_clean(way):
    """STREAM 53: broken off, collected, or closed from another task: no scope error, children stopped."""
    stopped = []

    @role()
    async def stays(turn):
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(turn.node)

    graph = chain(2)
    graph.add_operation(stays, node_id="slow", depends_on=[])
    async with Session() as session:
        if way == "other task":
            stream = session.flow_stream(graph)
            events = await stream.__aenter__()

            async def close():
                await stream.__aexit__(None, None, None)

            async for _ in events:
                break
            async with anyio.create_task_group() as group:
                group.start_soon(close)
        else:
            async with session.flow_stream(graph) as events:
                async for _ in events:
                    break
        del events
        if way == "collect":
            gc.collect()
            await anyio.lowlevel.checkpoint()
        assert stopped == ["slow"]
        assert session.runs() == []


@pytest.mark.parametrize("after", [0, 1, 5, 17])
async def test_STREAM_54_57_a_late_reader(after):
    """STREAM 54, 57: a reader that attaches late, or again with a cursor: each event once, in order."""
    held, go = anyio.Event(), anyio.Event()

    @role()
    async def holds(turn):
        held.set()
        await go.wait()

    graph = chain(5)
    graph.add_operation(holds, node_id="last")
    async with Session() as session:
        live = await session.start(graph)
        await held.wait()
        first, second = [], []

        async def read(into, start):
            async for event in live.events(after=start):
                into.append(event.json())

        async with anyio.create_task_group() as group:
            group.start_soon(read, first, after)
            group.start_soon(read, second, 0)
            while not second:
                await anyio.lowlevel.checkpoint()
            go.set()
        run = await lawful(live)
    assert second == [fact.json() for fact in run.facts]
    assert first == [fact.json() for fact in run.facts if fact.seq > after]


async def test_STREAM_55_one_terminal_event_the_very_last():
    """STREAM 55: the last node spawns and reports on its way: the end is told once, after everything."""

    @role(emits=(SpawnRequest,))
    async def last(turn):
        turn.report("working")
        await turn.emit(SpawnRequest(assignee="ok"))
        turn.report("still")

    seen = []

    async def tap(envelope):
        seen.append(envelope.kind)

    graph = OperationGraphBuilder()
    graph.add_operation(last, node_id="a")
    async with Session([ok]) as session, session.tap(tap):
        run = await lawful(await session.start(graph))
    assert run.facts[-1].kind == "RunEnded"
    assert seen[-1] == "RunEnded"
    assert seen.count("RunEnded") == 1
    assert seen.count("NodeProgress") == 2


async def test_STREAM_60_a_run_that_is_over_before_the_reader_comes():
    """STREAM 60: every event, then the end; also for the settlement stream of a run without a delay."""
    async with Session() as session:
        live = await session.start(chain(3))
        await live.wait()
        facts = [event.json() async for event in live.events()]
        again = [event.json() async for event in live.events()]
        async with session.flow_stream(chain(3)) as events:
            (other,) = session.runs()
            await other.wait()
            names = [event.name async for event in events]
    assert facts == again
    assert b"RunEnded" in facts[-1]
    assert names == ["n0", "n1", "n2"]


async def test_STREAM_kinds_and_two_runs():
    """Streams of two runs at once: each reader sees its own run only, and only the kinds it asked for."""
    async with Session() as session:
        lives = [await session.start(chain(4)) for _ in range(2)]
        for live in lives:
            events = [event async for event in live.events(kinds=("NodeStarted",))]
            assert {event.run for event in events} == {live.id}
            assert [event.kind for event in events] == ["NodeStarted"] * 4
