"""Agents that speak the Agent Client Protocol: their session, what they say, ask and cost, how they end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("acp")

from orchestrator import Finding, Gate, OperationGraphBuilder, Role, Session, Verdict, role
from orchestrator.agents import backends
from orchestrator.errors import OperationError
from roles import Program, RoleError

AGENT = str(Path(__file__).with_name("acp_agent.py"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the agent keeps its sessions."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


def agent(mode: str, store: Path, **more: Any) -> Role:
    fields = {name: more.pop(name) for name in ("returns", "timeout", "retry") if name in more}
    program = Program((sys.executable, AGENT, mode, str(store)), protocol="acp", **more)
    return Role("worker", body="You count.", emits=(Finding,), program=program, **fields)


async def ran(cast: Role, tmp_path: Path, journal: Any = None) -> Any:
    graph = OperationGraphBuilder()
    graph.add_operation(cast, node_id="work", depends_on=[], instruction="Count the files.")
    progress: list[str] = []
    async with (
        Session(folder=tmp_path / "runs", journal=journal) as session,
        session.tap(lambda one: progress.append(one.data["text"]), kinds=("NodeProgress",)),
    ):
        run = await session.start(graph)
        result = await run.wait()
        async with run.events() as events:
            facts = [event async for event in events]
    return result["work"], facts, progress


def files(folder: Path, name: str, under: str = "runs") -> list[Path]:
    return list((folder / under).rglob(name))


def told(store: Path, session: str) -> list[str]:
    """What an agent was told in a session, so far."""
    file = store / session
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def some(facts: Any, kind: str) -> list[Any]:
    return [fact.data for fact in facts if fact.kind == kind]


async def test_a_turn(tmp_path: Path, store: Path):
    """It is told, says, emits and costs; what it does is progress."""
    node, facts, progress = await ran(agent("simple", store), tmp_path)
    assert node.error is None
    assert node.value["text"].startswith("Turn 1 of s1. told: True.")
    assert [one["emission"] for one in some(facts, "EmissionAccepted")] == ["Finding"]
    assert (node.usage.requests, node.usage.input_tokens, node.usage.output_tokens) == (1, 10, 2)
    assert "read: look around" in progress
    assert any("Turn 1 of s1" in one for one in progress)


async def test_what_was_wrong_is_told_to_it(tmp_path: Path, store: Path):
    """A malformed emission is refused on record; it and a value that does not fit are told to the agent."""
    node, facts, _ = await ran(
        agent(
            "mends",
            store,
            returns={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        ),
        tmp_path,
    )
    assert node.value == {"n": 1}
    # the agent counts over its session; each prompt costs what is new
    usage = node.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens, usage.cost_usd) == (2, 20, 4, 0.5)
    assert [one["reason"] for one in some(facts, "EmissionRefused")] == ["invalid"]
    assert [one["payload"]["description"] for one in some(facts, "EmissionAccepted")] == ["mended"]
    second = told(store, "s1")[1]
    assert "finding was refused: invalid" in second
    assert "Your answer does not fit" in second


async def test_what_it_may_do(tmp_path: Path, store: Path):
    """What the role allows, by kind; files of its folder; no terminal. All of it is on record."""
    node, facts, _ = await ran(agent("asks", store, allow=("edit",)), tmp_path)
    answers = json.loads(node.value["text"])
    assert (answers["edit"], answers["execute"]) == ("y", "n")
    assert answers["read"] == {"content": "two\n"}
    assert "outside of the folder" in answers["outside"]["error"]["message"]
    assert "outside of the folder" in answers["escape"]["error"]["message"]
    assert "not offered here" in answers["terminal"]["error"]["message"]
    (written,) = files(tmp_path, "a.txt")
    assert written.parent.name == "new"
    said = [one["content"] for part in some(facts, "BranchExtended") for one in part["messages"]]
    assert {"asked": "edit", "for": "to edit", "answer": "allowed"} in said
    assert {"asked": "execute", "for": "to execute", "answer": "denied"} in said
    assert {"asked": "read", "for": "/etc/hostname", "answer": "denied"} in said


@pytest.mark.parametrize(
    ("mode", "more", "words"),
    [
        ("refuses", {}, "stopped: it refused to go on"),
        ("crashes", {}, "ended with exit code 9: out of memory"),
        ("new", {}, "speaks version 99 of ACP, not 1"),
        ("simple", {"output": 100}, "printed more than 100 bytes"),
    ],
)
async def test_what_fails(mode: str, more: Any, words: str, tmp_path: Path, store: Path):
    """A refusal, a crash in the middle of a prompt, another protocol, too much output."""
    node, _, _ = await ran(agent(mode, store, **more), tmp_path)
    assert node.error.type == "ProgramError"
    assert words in node.error.message


async def test_a_program_that_is_no_agent(tmp_path: Path, store: Path):
    """It prints prose, or ends at once."""
    for code, words in (
        ("print('Dear reader,', flush=True); input()", "is no message"),
        ("pass", "ended with exit code 0"),
    ):
        cast = Role("worker", body="B", program=Program((sys.executable, "-c", code), protocol="acp"))
        node, _, _ = await ran(cast, tmp_path)
        assert words in node.error.message


@pytest.mark.slow
async def test_one_that_hangs_is_cancelled_then_killed(tmp_path: Path, store: Path):
    """A timeout sends session/cancel, waits a moment, and ends the whole process group."""
    node, _, _ = await ran(agent("hangs", store, timeout=2.0), tmp_path)
    assert node.error.type == "TimeoutError"
    (pid,) = files(tmp_path, "pid")
    assert files(tmp_path, "cancelled") == [pid.with_name("cancelled")]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def rounds(cast: Role) -> OperationGraphBuilder:
    """Work, a gate that sends it back once, then is content."""

    @role(emits=(Verdict,))
    def judge(turn: Any) -> Any:
        return Verdict(verdict="APPROVE" if turn.rework else "REJECT", rationale="count again")

    graph = OperationGraphBuilder()
    graph.add_operation(cast, node_id="work", depends_on=[], instruction="Count the files.")
    graph.add_operation(judge, depends_on=["work"], gate=Gate(refusals=1, back_to="work"))
    return graph


async def test_a_later_round_continues_the_session(tmp_path: Path, store: Path):
    """kernel.md 7: the agent is told to go on with its own work; only what is new is sent."""
    async with Session(folder=tmp_path / "runs") as session:
        result = await session.flow(rounds(agent("simple", store)))
    assert result.reason == "completed", result.detail
    assert result["work"].value["text"].startswith("Turn 2 of s1.")
    assert "long ago" not in result["work"].value["text"]
    (later,) = told(store, "s1")[1:]
    assert "You count." not in later
    assert "count again" in later
    assert "What became of what you emitted" in later


async def test_an_agent_that_forgets_gets_the_transcript(tmp_path: Path, store: Path):
    """Without session/load the conversation is sent again, in a new session."""
    async with Session(folder=tmp_path / "runs") as session:
        result = await session.flow(rounds(agent("forgets", store)))
    assert result.reason == "completed", result.detail
    (again,) = told(store, "s2")
    assert "## The conversation so far" in again
    assert "Turn 1: False" in again


@pytest.mark.slow
async def test_an_attempt_goes_on_with_the_session(tmp_path: Path, store: Path):
    """The session's id is on record as soon as there is one, so that nothing is begun twice."""
    node, _, _ = await ran(agent("hangs once", store, timeout=1.5, retry=2), tmp_path)
    assert node.error is None
    assert node.value == {"text": "Turn 2: True"}
    assert files(tmp_path, "s1", "sessions") == [store / "s1"]


KILLED = """
import sys, anyio
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.agents.test_acp import agent
from orchestrator import OperationGraphBuilder, Session

async def main():
    folder = Path(sys.argv[2])
    graph = OperationGraphBuilder()
    cast = agent("hangs once", folder / "sessions")
    graph.add_operation(cast, node_id="work", depends_on=[], instruction="Count the files.")
    async with Session(journal=folder / "runs.db") as session:
        await session.flow(graph)

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_goes_on_after_a_kill(tmp_path: Path, store: Path):
    """Killed in the middle of a prompt: the resumed run continues the same session of the agent."""
    root = Path(__file__).parents[2]
    killed = await anyio.open_process([sys.executable, "-c", KILLED, str(root), str(tmp_path)], stderr=None)
    with anyio.fail_after(60):
        while not told(store, "s1"):
            await anyio.lowlevel.checkpoint()
    killed.kill()
    await killed.wait()
    async with Session([agent("hangs once", store)], journal=tmp_path / "runs.db") as session:
        run = await session.resume()
        result = await run.wait()
    assert result["work"].value == {"text": "Turn 2: True"}
    assert files(tmp_path, "s1", "sessions") == [store / "s1"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"allow": ("edit",)}, "it goes with protocol: acp"),
        ({"protocol": "acp", "allow": ("everything",)}, "there are read, edit"),
        ({"protocol": "tcp"}, "write text, lines or acp"),
    ],
)
def test_declared(given: Any, words: str):
    with pytest.raises(RoleError, match=words):
        Program(("x",), **given)


async def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: Path):
    """One line with the command that installs it, before anything runs."""

    def missing(_name: str) -> None:
        raise ImportError(name="acp")

    monkeypatch.setattr(backends, "import_module", missing)
    with pytest.raises(OperationError, match=r"pip install 'callboard\[agents\]'"):
        await ran(agent("simple", store), tmp_path)
