"""The cast of the release gate: who mends, who checks, who judges, who writes the note."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from typing import Any

import anyio

from orchestrator import Document, OperationOutcome, Turn, Verdict, VerificationResult, role

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
    command = [sys.executable, *words[1:]] if words[0] == "python" else words
    shown, seconds = shlex.join(words), turn.parameters["seconds"]
    # Byte code is trusted by time and size: that of the round before could hide what was mended.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(turn.workdir / "bytecode")}
    try:
        with anyio.fail_after(seconds):
            done = await anyio.run_process(
                command, cwd=turn.parameters["folder"], env=environment, check=False
            )
    except TimeoutError:
        return Ran(shown, None, f"stopped after {seconds:g} s")
    except OSError as error:
        return Ran(shown, None, f"cannot be started: {error}")
    said = (done.stdout + done.stderr).decode(errors="replace").strip()
    return Ran(shown, done.returncode, said[-TAIL:])


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
