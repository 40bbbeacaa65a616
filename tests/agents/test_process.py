"""Programs that perform roles: what they are told, what they give, how they end (kernel.md 6)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator import ArtifactProduced, Finding, OperationGraphBuilder, Role, Session, Verdict, role
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


def found(folder: Path, name: str) -> list[Path]:
    return list(folder.rglob(name))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.is_file() and state.read_text().rpartition(")")[2].split()[0] == "Z"


async def all_gone(file: Path) -> None:
    """A process that was killed needs a moment to be gone."""
    for pid in map(int, file.read_text().split()):  # noqa: ASYNC240
        with anyio.fail_after(10):
            while not gone(pid):
                await anyio.lowlevel.checkpoint()


@pytest.mark.slow
async def test_its_whole_group_ends_with_the_turn(tmp_path: Path):
    """A timeout ends the program and what it has started, also where it ignores being asked."""
    node, _ = await ran(made("nothing"), tmp_path, timeout=1.5)
    assert node.error.type == "TimeoutError"
    (file,) = found(tmp_path, "pids")
    await all_gone(file)


async def test_what_it_has_started_holds_its_output(tmp_path: Path):
    """bad-inputs 40: its value is taken when it has ended, and nothing that it started is left."""
    node, _ = await ran(made("grandchild"), tmp_path)
    assert node.value == {"text": "done\n", "exit_code": 0}
    (file,) = found(tmp_path, "pids")
    await all_gone(file)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("gigabyte", "printed more than 4,194,304 bytes"),
        ("complains", "printed more than 4,194,304 bytes"),
        ("segfault", "was ended by signal 11"),
    ],
)
async def test_how_it_is_ended(mode: str, words: str, tmp_path: Path):
    """bad-inputs 40: 1 GB of output, of complaints, a crash: each by its limit, with its reason."""
    node, _ = await ran(made(mode), tmp_path)
    assert node.error.type == "ProgramError"
    assert words in node.error.message


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_one_that_closes_its_output_and_lives(tmp_path: Path):
    """bad-inputs 40: it has five seconds to end."""
    node, _ = await ran(made("deaf"), tmp_path)
    assert "closed its output and had not ended 5 s later" in node.error.message
    (file,) = found(tmp_path, "pids")
    assert gone(int(file.read_text()))


async def test_odd_output(tmp_path: Path):
    """bad-inputs 40: a line of 100 kB is one line, bytes that are no UTF-8 are marked."""
    node, _ = await ran(made("long_line"), tmp_path)
    assert node.value["text"] == "y" * 100_000 + "\n"
    node, _ = await ran(made("garbled"), tmp_path)
    assert node.value["text"] == "caf\ufffd \ufffd\n"


async def test_one_that_reads_for_ever(tmp_path: Path):
    """bad-inputs 40: its input ends with its value, or with what it is told."""
    node, _ = await ran(made("reads", protocol="lines"), tmp_path)
    assert node.value == "work"


async def test_what_cannot_be_read_is_refused_on_record(tmp_path: Path):
    """An emission on a line that is none: its program is answered, the record has the refusal."""
    node, facts = await ran(made("lines", protocol="lines"), tmp_path)
    assert node.value[2] == "invalid"
    assert ("EmissionRefused", "invalid") in kinds(facts)


async def test_a_claim_without_its_file(tmp_path: Path):
    """roles.md: ArtifactProduced with a missing file, or one outside of the node's folder, is refused."""
    node, facts = await ran(made("claims", emits=(ArtifactProduced,)), tmp_path)
    assert node.error is None
    taken = [fact.data["payload"]["path"] for fact in facts if fact.kind == "EmissionAccepted"]
    refused = [fact.data for fact in facts if fact.kind == "EmissionRefused"]
    assert taken == ["there.txt"]
    assert [one["reason"] for one in refused] == ["invalid", "invalid"]
    assert "missing.txt" in refused[0]["detail"]


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
