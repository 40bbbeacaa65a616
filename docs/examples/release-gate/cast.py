"""The cast of the release gate: who mends, who checks, who judges, who writes the note."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream

from orchestrator import Document, OperationOutcome, Turn, Verdict, VerificationResult, role

HERE = Path(__file__).parent
TAIL = 2_000
"""Characters of a command's output that are kept: its end, where the reasons are."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended. `code` is None if it was stopped at its timeout or could not be started."""

    command: str
    code: int | None
    tail: str


async def run(turn: Turn) -> Ran:
    """Run the command of a turn in its folder: a list of arguments, never a shell."""
    words = shlex.split(turn.parameters["command"])
    command = linter() if words == ["lint"] else words
    shown, seconds = shlex.join(command), turn.parameters["seconds"]
    if command[0] == "python":
        command = [sys.executable, *command[1:]]
    # Byte code is trusted by time and size: that of the round before could hide what was mended.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(turn.workdir / "bytecode")}
    try:
        with anyio.fail_after(seconds):
            code, said = await in_group(command, turn.parameters["folder"], environment)
    except TimeoutError:
        return Ran(shown, None, f"stopped after {seconds:g} s")
    except OSError as error:
        return Ran(shown, None, f"cannot be started: {error}")
    return Ran(shown, code, said.decode(errors="replace").strip()[-TAIL:])


def linter() -> list[str]:
    """Ruff if it is on PATH; else the check that lies beside this file, which needs nothing but Python."""
    return ["ruff", "check", "."] if shutil.which("ruff") else ["python", str(HERE / "lint.py"), "."]


async def in_group(command: list[str], folder: str, environment: dict[str, str]) -> tuple[int, bytes]:
    """Run a command in a process group of its own, which is killed however this ends: no child is left."""
    said = bytearray()
    process = await anyio.open_process(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with anyio.create_task_group() as reading:
            reading.start_soon(keep, process.stdout, said)
            code = await process.wait()
            # what it left in the background could hold the pipe open
            kill(process.pid)
        return code, bytes(said)
    finally:
        kill(process.pid)
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def keep(stream: ByteReceiveStream, said: bytearray) -> None:
    """Read to the end and keep the tail."""
    async for part in stream:
        said += part
        del said[: -4 * TAIL]


def kill(group: int) -> None:
    """Kill every process of a group; one that is gone is none."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@role(emits=(OperationOutcome,))
async def fixer(turn: Turn) -> dict[str, Any]:
    """Do nothing in the first round; when the gate has sent the work back, run the command that mends it."""
    if turn.rework is None:
        return {"text": "first round: as it is"}
    if not turn.parameters["command"].strip():
        text = f"round {turn.rework.round}: there is no fixer, so nothing was mended"
        turn.report(text)
        return {"text": text}
    ran = await run(turn)
    status = "succeeded" if ran.code == 0 else "failed"
    await turn.emit(
        OperationOutcome(
            action=ran.command,
            target=turn.parameters["folder"],
            status=status,
            changes=[ran.tail or "no output"],
        )
    )
    return {"text": f"round {turn.rework.round}: {ran.command} gave {ran.code}\n{ran.tail}".rstrip()}


@role(emits=(VerificationResult,))
async def checker(turn: Turn) -> dict[str, Any]:
    """Run one check; how it ended is a VerificationResult whose gap is the end of the output."""
    if not turn.parameters["command"].strip():
        return {"text": "left out: there is no command"}
    ran = await run(turn)
    passed = ran.code == 0
    gaps = [] if passed else [ran.tail or f"exit code {ran.code}, no output"]
    await turn.emit(VerificationResult(suite=turn.node.partition("@")[0], passed=passed, gaps=gaps))
    return {"command": ran.command, "exit_code": ran.code, "text": ran.tail}


@role(emits=(Verdict,))
async def judge(turn: Turn) -> Verdict:
    """A gate: every check has to have passed, and there has to be one."""
    checks = turn.emissions(VerificationResult)
    failed = [check for check in checks if not check.passed]
    if failed or not checks:
        return Verdict(
            verdict="REJECT",
            rationale=f"did not pass: {', '.join(check.suite for check in failed) or 'nothing was checked'}",
            evidence="\n\n".join(f"{check.suite}:\n{check.gaps[0]}" for check in failed) or None,
            reversible_by="a project in which each of these commands exits with 0",
        )
    return Verdict(verdict="APPROVE", rationale=f"passed: {', '.join(check.suite for check in checks)}")


@role(emits=(Document,))
async def scribe(turn: Turn) -> dict[str, Any]:
    """Write the note of what passed."""
    release, verdict = turn.parameters["release"], turn.inputs["review"]
    suites = [check.suite for check in turn.emissions(VerificationResult)]
    title = f"Release {release}"
    text = "\n".join(
        [f"# {title}", "", verdict["rationale"], "", *(f"- {suite}: passed" for suite in suites), ""]
    )
    await anyio.Path(turn.artifacts["note"]).write_text(text, encoding="utf-8")
    await turn.emit(Document(title=title, content=text, format="markdown"))
    return {"text": text}
