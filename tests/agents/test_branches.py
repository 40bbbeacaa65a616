"""Branches: a conversation on record by delta, continued across turns and processes (kernel.md 7)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator import OperationGraphBuilder, Retry, Session
from orchestrator.agents import Branch, Message
from orchestrator.agents.branches import answered, from_data, to_data

if TYPE_CHECKING:
    from pathlib import Path


def said(branch: Branch) -> list[Any]:
    return [message.content for message in branch.messages]


def test_a_tail_is_nobody_elses_until_it_is_settled():
    """A copy takes what is settled; leaving a turn keeps as much of its tail as is said."""
    branch = Branch("talk", messages=[Message("user", "a")])
    branch.take()
    branch.say("assistant", "b")
    branch.say("user", "c")
    assert [message.content for message in branch.clone("copy").messages] == ["a"]
    with pytest.raises(RuntimeError, match="in use"):
        branch.take()
    branch.leave(1)
    assert said(branch) == ["a", "b"]
    assert not branch.taken


def test_what_was_answered():
    """The last answer that asks for nothing more; a call that nobody answered is not one."""
    messages = [
        Message("user", "do"),
        Message("assistant", "done"),
        Message("user", "more"),
        Message("assistant", {"call": 1}, open=True),
        Message("tool", "out"),
    ]
    assert answered(messages) == 2
    assert answered(messages[2:]) == 0
    assert from_data(to_data(messages)) == messages


async def test_an_attempt_goes_on_from_its_last_answer():
    """Kernel 7: the failed tail leaves the conversation, and stays in the record."""

    async def talk(turn: Any) -> list[Any]:
        heard = said(turn.branch)
        turn.branch.say("user", f"ask {turn.attempt}")
        turn.branch.say("assistant", f"answer {turn.attempt}")
        if turn.attempt == 1:
            turn.branch.say("user", "unanswered")
            raise RuntimeError("lost")
        return heard

    graph = OperationGraphBuilder()
    graph.add_operation("chat", node_id="talks", retry=Retry(attempts=2))
    async with Session() as session:
        session.register_operation("chat", talk)
        run = await session.start(graph)
        result = await run.wait()
        async with run.events() as events:
            facts = [event async for event in events if event.kind == "BranchExtended"]
        assert said(session.branches["default"]) == ["ask 1", "answer 1", "ask 2", "answer 2"]
    assert result["talks"].value == ["ask 1", "answer 1"]
    told = [(fact.attempt, fact.data["kept"], len(fact.data["messages"])) for fact in facts]
    assert told == [(1, True, 2), (1, False, 1), (2, True, 2)]


async def test_fresh_starts_empty_and_says_so():
    """``fresh: true``: every turn begins with nothing; the record says that it was the node's wish."""

    async def talk(turn: Any) -> list[Any]:
        heard = said(turn.branch)
        turn.branch.say("assistant", turn.attempt)
        if turn.attempt == 1:
            raise RuntimeError("again")
        return heard

    graph = OperationGraphBuilder()
    graph.add_operation("chat", node_id="first", depends_on=[], retry=Retry(attempts=2))
    graph.add_operation("chat", node_id="talks", depends_on=["first"], fresh=True, retry=Retry(attempts=2))
    async with Session() as session:
        session.register_operation("chat", talk)
        run = await session.start(graph)
        result = await run.wait()
        async with run.events() as events:
            made = [event async for event in events if event.kind == "BranchCreated"]
    assert (result["first"].value, result["talks"].value) == ([1], [])
    assert [(fact.node, fact.data["fresh"], fact.data["source"]) for fact in made] == [
        ("talks", True, None), ("talks", True, None),
    ]  # fmt: skip


async def test_two_runs_of_a_session_take_turns_on_a_shared_branch():
    """One conversation, one speaker: also where the speakers are nodes of two runs."""
    import anyio

    inside: list[str] = []

    async def talk(turn: Any) -> None:
        assert not inside
        inside.append(turn.run)
        turn.branch.say("user", turn.run)
        await anyio.lowlevel.checkpoint()
        turn.branch.say("assistant", turn.run)
        inside.clear()

    graph = OperationGraphBuilder()
    graph.add_operation("chat", node_id="talks")
    async with Session() as session:
        session.register_operation("chat", talk)
        runs = [await session.start(graph) for _ in range(3)]
        for run in runs:
            assert (await run.wait()).ok
        words = said(session.branches["default"])
    assert words == [run.id for run in runs for _ in range(2)]


SCRIPT = """
    import os, signal, sys
    import anyio
    from orchestrator import OperationGraphBuilder, Session

    async def talk(turn):
        turn.branch.say("user", f"ask {turn.node}")
        if turn.node == "second" and "die" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        turn.branch.say("assistant", f"answer {turn.node}")
        return [message.content for message in turn.branch.messages]

    async def main():
        graph = OperationGraphBuilder()
        graph.add_operation("chat", node_id="first", depends_on=[])
        graph.add_operation("chat", node_id="second", depends_on=["first"], inherit_context=True)
        graph.add_operation("chat", node_id="third", depends_on=["second"], branch="default")
        async with Session(journal="runs.db") as session:
            session.register_operation("chat", talk)
            run = await session.start(graph) if "die" in sys.argv else await session.resume()
            result = await run.wait()
            print(result["second"].value, result["third"].value)

    anyio.run(main)
"""


def test_a_killed_process_leaves_its_conversations(tmp_path: Path):
    """Killed inside a turn: another process goes on with every conversation as it was settled."""
    script = tmp_path / "talk.py"
    script.write_text(textwrap.dedent(SCRIPT))
    killed = subprocess.run([sys.executable, script, "die"], cwd=tmp_path, capture_output=True, check=False)
    assert killed.returncode == -9
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second, third = ([f"ask {name}", f"answer {name}"] for name in ("first", "second", "third"))
    assert done.stdout.strip() == f"{first + second} {first + third}"
