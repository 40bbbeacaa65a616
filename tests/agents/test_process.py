"""Programs that perform roles: what they are told, what they give, how they end (kernel.md 6)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import Finding, OperationGraphBuilder, Role, Session, Verdict, role
from roles import Program, RoleError, load_roles

PROGRAM = str(Path(__file__).with_name("program.py"))


def made(*words: str, **more: Any) -> Role:
    emits = more.pop("emits", (Finding,))
    return Role(
        "worker", body="You count.", emits=emits, program=Program((sys.executable, PROGRAM, *words), **more)
    )


async def ran(cast: Role, tmp_path: Path, **more: Any) -> Any:
    graph = OperationGraphBuilder()
    graph.add_operation(cast, node_id="work", depends_on=[], instruction="Count the files.", **more)
    async with Session(folder=tmp_path, grace=1) as session:
        run = await session.start(graph)
        result = await run.wait()
        async with run.events() as events:
            facts = [event async for event in events]
    return result["work"], facts


def kinds(facts: Any, *wanted: str) -> list[tuple[str, Any]]:
    return [
        (fact.kind, fact.data.get("reason") or fact.data["payload"].get("description"))
        for fact in facts
        if fact.kind in (wanted or ("EmissionAccepted", "EmissionRefused"))
    ]


async def test_text(tmp_path: Path):
    """It is told on stdin; what it printed is its value; tagged blocks in it are emissions."""
    node, facts = await ran(made("text"), tmp_path)
    assert node.error is None
    assert node.value["text"].startswith("told True\n")
    assert node.value["exit_code"] == 0
    assert kinds(facts) == [("EmissionAccepted", "seen")]


async def test_json_lines(tmp_path: Path):
    """Each emission is answered with its receipt: accepted, not granted, invalid."""
    node, facts = await ran(made("lines", protocol="lines"), tmp_path)
    assert node.value == [None, "not_granted", "invalid"]
    assert kinds(facts)[:2] == [("EmissionAccepted", "one"), ("EmissionRefused", "not_granted")]


async def test_a_file(tmp_path: Path):
    """Told in a file, answering in a file: the blocks that it prints are emissions all the same."""
    node, facts = await ran(made("file", "{instruction}", result="out.json"), tmp_path)
    assert node.value == {"told": True}
    assert kinds(facts) == [("EmissionAccepted", "beside the file")]


async def test_the_environment_is_an_allow_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What it is not given by name it does not see."""
    monkeypatch.setenv("WORKER_TOKEN", "canary")
    monkeypatch.setenv("SOMEBODYS_SECRET", "canary")
    node, facts = await ran(made("env", env=("WORKER_TOKEN",)), tmp_path)
    names = json.loads(node.value["text"])
    assert "WORKER_TOKEN" in names
    assert "CALLBOARD_NODE" in names
    assert "SOMEBODYS_SECRET" not in names
    assert "canary" not in str(facts)
    node, _ = await ran(made("env", env=("NOBODY_SET_THIS",)), tmp_path)
    assert "NOBODY_SET_THIS" in node.error.message


@pytest.mark.parametrize(
    ("cast", "words"),
    [
        (made("fails"), "ended with exit code 3: the disk is full"),
        (made("floods", output=10_000), "printed more than 10,000 bytes"),
        (made("env", protocol="lines"), "says nothing known"),
        (made("prose", protocol="lines"), "is no JSON"),
        (made("text", result="out.json"), "out.json is not there"),
        (Role("worker", program=("no-such-program-anywhere",)), "is it installed"),
    ],
)
async def test_what_fails(cast: Role, words: str, tmp_path: Path):
    """Exit code, too much output, an unreadable answer, a missing one, no program: the error says so."""
    node, _ = await ran(cast, tmp_path)
    assert node.error.type == "ProgramError"
    assert words in node.error.message


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.is_file() and state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
async def test_its_whole_group_ends_with_the_turn(tmp_path: Path):
    """A timeout ends the program and what it has started, also where it ignores being asked."""
    node, _ = await ran(made("nothing"), tmp_path, timeout=1.5)
    assert node.error.type == "TimeoutError"
    (file,) = tmp_path.rglob("pids")  # noqa: ASYNC240
    for pid in map(int, file.read_text().split()):
        with anyio.fail_after(10):
            while not gone(pid):
                await anyio.lowlevel.checkpoint()


async def test_a_gate_that_is_a_program(tmp_path: Path):
    """A program's verdict, printed as a block, judges the gate."""

    @role()
    async def after(turn: Any) -> str:
        return "ran"

    for word, reason in (("APPROVE", "completed"), ("REJECT", "gate_rejected")):
        code = f'print(\'```verdict\\n{{"verdict": "{word}", "rationale": "so"}}\\n```\')'
        judge = Role("judge", emits=(Verdict,), program=(sys.executable, "-c", code))
        graph = OperationGraphBuilder()
        graph.add_operation(judge, node_id="gate", depends_on=[], gate=True)
        graph.add_operation(after, depends_on=["gate"])
        async with Session(folder=tmp_path) as session:
            assert (await session.flow(graph)).reason == reason


def test_declared_in_markdown(tmp_path: Path):
    """`program:` in the head of a role file; an argument that is a file beside it means that file."""
    (tmp_path / "w.md").write_text(
        "---\nprogram: {argv: [python3, w.py], result: out.json, env: [TOKEN]}\n---\nYou work.\n"
    )
    (tmp_path / "v.md").write_text("---\nprogram: [python3, w.py]\n---\nYou work.\n")
    first, second = load_roles(tmp_path)
    assert first.program == Program(("python3", "w.py"))
    assert second.program == Program(("python3", "w.py"), env=("TOKEN",), result="out.json")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("python x.py", "give its arguments"),
        ((), "argv is empty"),
        (("python", 3), "give a list of texts"),
    ],
)
def test_what_is_no_program(program: Any, words: str):
    """A text would need a shell; there is none."""
    with pytest.raises(RoleError, match=words):
        Role("worker", program=program)
