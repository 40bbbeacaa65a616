"""Threads of stepped graphs, as `show` tells them: steps, state, tasks, and the way on that works."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import pytest

from orchestrator.cli.commands import invoke
from orchestrator.supersteps import END, START, StateGraph
from orchestrator.supersteps.sessions import Session


class State(TypedDict, total=False):
    """What the threads of this file keep."""

    text: str


async def first(state: State) -> State:
    """Count on."""
    return {"text": state.get("text", "") + "x"}


async def joined(state: State) -> State:
    """Say that it ran."""
    return {"text": state.get("text", "") + "+"}


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What `show last` prints of the journal of a test."""
    monkeypatch.setenv("CALLBOARD_JOURNAL", str(tmp_path / "journal.db"))

    def show() -> str:
        capsys.readouterr()
        assert invoke(["show", "last"]) == 0
        return capsys.readouterr().out

    return show


@pytest.mark.anyio
async def test_a_thread_is_told_by_its_steps(tmp_path: Path, shown):
    """Steps, the checkpoint and the state stand under the headline; a thread that completed has no next."""
    graph = StateGraph(State)
    graph.add_node("first", first)
    graph.add_edge(START, "first")
    graph.add_edge("first", END)
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await graph.compile(session).invoke({"text": "a"}, thread_id="one")
        assert result.ok
    told = shown()
    assert " completed: 1 node" in told
    assert "  steps     1 step and 1 task since the last input; step 1 of the thread, checkpoint" in told
    assert '  state     text = "ax"' in told
    assert "  next " not in told


@pytest.mark.anyio
async def test_joins_that_wait_are_pointed_to_what_works(tmp_path: Path, shown):
    """A stuck thread is not told to inject, and what it is told does go on with it."""
    graph = StateGraph(State)
    graph.add_node("first", first)
    for name in ("p", "q", "x", "y"):
        graph.add_node(name, joined)
    graph.add_edge(START, "first")
    graph.add_edge(["first", "x"], "p").add_edge(["first", "y"], "q")
    graph.add_edge("q", "x").add_edge("p", "y")
    async with Session(journal=tmp_path / "journal.db") as session:
        compiled = graph.compile(session)
        result = await compiled.invoke({"text": "a"}, thread_id="two")
        assert result.reason == "stuck"
        told = shown()
        assert "inject" not in told
        assert "await graph.update_state('two', UPDATE, as_node=NODE)" in told
        await compiled.update_state("two", {"text": "given "}, as_node="x")
        result = await compiled.invoke(None, thread_id="two")
        assert result.state["text"].startswith("given +")
