"""Programs as agents: a list of arguments, an environment by allow-list, a process group that dies with them.

What the program is told comes on its stdin, or in a file. Under the protocol ``text`` it prints text; lines
are progress, tagged blocks in it are emissions. Under ``lines`` each line of its output is one JSON object:
``{"emit": KIND, "payload": {...}}`` is answered on stdin with its receipt, ``{"report": TEXT}`` is progress,
``{"value": ...}`` is its value; the first line of its stdin is ``{"system": ..., "user": ...}``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from emissions import EMISSIONS, parse_mapping
from orchestrator.agents.branches import Message
from orchestrator.agents.children import Child, ProgramError, with_child
from orchestrator.agents.jobs import Job, emitted
from orchestrator.agents.secrecy import redacted, redacted_data
from orchestrator.agents.surroundings import environment, located
from orchestrator.core.encoding import decoded, encoded
from roles.programs import INSTRUCTION, Program

__all__ = ["ProgramError", "perform", "result_of", "surroundings", "told"]

_LINE: Final = 500


async def perform(job: Job) -> Any:
    """Run the role's program once.

    Raises:
        ProgramError: it did not start, failed, printed more than it may, did not end after its output, or
            left no readable result.
    """
    program = job.role.program
    assert program is not None
    folder = job.stage.workdir
    argv, on_stdin = _argv(program, job, folder)
    value = await with_child(
        argv,
        partial(_talk, job, program, on_stdin),
        folder=folder,
        env=surroundings(program, job),
        most=program.output,
    )
    job.say((Message("assistant", value, job.stage.node),))
    return value


def told(job: Job) -> str:
    """All that a program is told; it has no memory, so the conversation stands before what is new."""
    if not job.history:
        return str(job.prompt)
    lines = [
        f"[{message.role}]\n{_words(message.content)}" for message in job.history if message.role != "system"
    ]
    before = "\n\n".join(("## The conversation so far", *lines))
    return f"{job.prompt.system}\n\n{before}\n\n{job.prompt.user}"


def _words(content: object) -> str:
    return content if isinstance(content, str) else bytes(encoded(content)).decode()


def _argv(program: Program, job: Job, folder: Path) -> tuple[list[str], bytes]:
    """The arguments, and what comes on stdin."""
    argv = located(program.argv, job.role.origin)
    if program.protocol == "lines":
        first = {"system": job.prompt.system, "user": job.prompt.user, "node": job.stage.node}
        return argv, bytes(encoded(first)) + b"\n"
    if INSTRUCTION not in argv:
        return argv, told(job).encode(errors="replace")
    file = folder / ".instruction.md"
    file.write_text(told(job), encoding="utf-8", errors="replace")
    return [str(file) if word == INSTRUCTION else word for word in argv], b""


def surroundings(program: Program, job: Job) -> dict[str, str]:
    """All that a program sees of the environment.

    Raises:
        ExecutionError: a variable that it needs is not set.
    """
    return {
        **environment(program.env, program.argv[0]),
        "CALLBOARD_RUN": job.stage.run,
        "CALLBOARD_NODE": job.stage.node,
        "CALLBOARD_ATTEMPT": str(job.stage.attempt),
    }


async def _talk(job: Job, program: Program, on_stdin: bytes, child: Child) -> Any:
    """Until it has closed its output and ended."""
    talk = _Talk(job, program, child)
    async with anyio.create_task_group() as group:
        group.start_soon(talk.tell, on_stdin)
        try:
            await child.each_line(talk.line)
            await child.ended()
        except ProgramError as error:
            # raised outside: a task group would wrap it
            talk.failed = error
        group.cancel_scope.cancel()
    if talk.failed is not None:
        raise talk.failed
    return talk.value(job.stage.workdir)


class _Talk:
    """What passes between a turn and its program."""

    def __init__(self, job: Job, program: Program, child: Child) -> None:
        self._job, self._program, self._child = job, program, child
        self._out: list[str] = []
        self._given: list[Any] = []
        self.failed: ProgramError | None = None

    async def tell(self, text: bytes) -> None:
        await self._child.send(text)
        if self._program.protocol == "text":
            await self._child.say_no_more()

    async def line(self, line: str) -> None:
        # what it was given by name it may print, and nobody may keep
        line = redacted(line)
        if self._program.protocol == "text":
            self._out.append(line)
            if line.strip():
                self._job.stage.report(line.strip()[:_LINE])
            return
        if line.strip():
            await self._message(line)

    async def _message(self, line: str) -> None:
        name = self._program.argv[0]
        try:
            said = decoded(line)
        except ValueError:
            raise ProgramError(f"a line of {name} is no JSON: {line.strip()[:80]!r}") from None
        if not isinstance(said, dict) or not {"emit", "report", "value"} & said.keys():
            raise ProgramError(f"a line of {name} says nothing known: {line.strip()[:80]!r}")
        if "report" in said:
            self._job.stage.report(str(said["report"])[:_LINE])
        if "emit" in said:
            await self._emit(str(said["emit"]), said.get("payload", {}))
        if "value" in said:
            self._given.append(said["value"])
            # it has nothing more to hear: one that reads to the end of its input ends now
            await self._child.say_no_more()

    async def _emit(self, kind: str, payload: object) -> None:
        types = {type_.emission_kind: type_ for type_ in self._job.brief.grants} | dict(EMISSIONS)
        receipt = await emitted(self._job, parse_mapping(kind, payload, types))
        await self._child.send(bytes(encoded(receipt)) + b"\n")

    def value(self, folder: Path) -> Any:
        """The node's value."""
        text = "".join(self._out)
        if self._program.result is None:
            if self._program.protocol == "lines":
                return self._given[-1] if self._given else None
            return {"text": text, "exit_code": 0}
        self._job.read(text)
        return result_of(folder, self._program.result)


def result_of(folder: Path, name: str) -> Any:
    """The value that a program left in a file.

    Raises:
        ProgramError: it is not there, or is not JSON.
    """
    file = folder / name
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise ProgramError(
            f"its result {name} is not there; the program has to write it in its working folder"
        )
    try:
        return redacted_data(decoded(file.read_bytes()))
    except ValueError as error:
        raise ProgramError(f"its result {name} cannot be read: {error}") from None
