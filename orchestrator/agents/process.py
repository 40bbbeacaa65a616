"""Programs as agents: a list of arguments, an environment by allow-list, a process group that dies with them.

What the program is told comes on its stdin, or in a file. Under the protocol ``text`` it prints text; lines
are progress, tagged blocks in it are emissions. Under ``lines`` each line of its output is one JSON object:
``{"emit": KIND, "payload": {...}}`` is answered on stdin with its receipt, ``{"report": TEXT}`` is progress,
``{"value": ...}`` is its value; the first line of its stdin is ``{"system": ..., "user": ...}``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import ByteReceiveStream, Process

from emissions import EMISSIONS, Malformed, parse_mapping
from orchestrator.agents.branches import Message
from orchestrator.agents.jobs import Job
from orchestrator.agents.secrecy import redacted
from orchestrator.agents.surroundings import environment, located
from orchestrator.core.encoding import decoded, encoded
from orchestrator.errors import ExecutionError
from roles.programs import INSTRUCTION, Program

__all__ = ["ProgramError", "perform"]

#: Seconds between SIGTERM and SIGKILL.
_GRACE: Final = 2.0
_TAIL: Final = 2_000
_LINE: Final = 500
_LONGEST_LINE: Final = 1024 * 1024


class ProgramError(ExecutionError):
    """A program that could not be started, failed, or said too much."""


async def perform(job: Job) -> Any:
    """Run the role's program once.

    Raises:
        ProgramError: it did not start, ended with another exit code than 0, printed more than it may, or left
            no readable result.
    """
    program = job.role.program
    assert program is not None
    folder = job.stage.workdir
    told = _told(job)
    argv, on_stdin = _argv(program, job, folder, told)
    try:
        process = await anyio.open_process(
            argv, cwd=folder, env=_environment(program, job), start_new_session=True
        )
    except OSError as error:
        raise ProgramError(f"{argv[0]}: {error.strerror or error}; is it installed, and on PATH?") from None
    talk = _Talk(job, program, process)
    try:
        await talk.run(on_stdin)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
    code = process.returncode
    if code:
        ended = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise ProgramError(f"{argv[0]} {ended}{talk.tail()}")
    value = talk.value(folder)
    job.say((Message("assistant", value, job.stage.node),))
    return value


def _told(job: Job) -> str:
    """All that the program is told; it has no memory, so the conversation stands before what is new."""
    if not job.history:
        return str(job.prompt)
    lines = [
        f"[{message.role}]\n{_words(message.content)}" for message in job.history if message.role != "system"
    ]
    before = "\n\n".join(("## The conversation so far", *lines))
    return f"{job.prompt.system}\n\n{before}\n\n{job.prompt.user}"


def _words(content: object) -> str:
    return content if isinstance(content, str) else bytes(encoded(content)).decode()


def _argv(program: Program, job: Job, folder: Path, told: str) -> tuple[list[str], bytes]:
    """The arguments, and what comes on stdin."""
    argv = located(program.argv, job.role.origin)
    if program.protocol == "lines":
        first = {"system": job.prompt.system, "user": job.prompt.user, "node": job.stage.node}
        return argv, bytes(encoded(first)) + b"\n"
    if INSTRUCTION not in argv:
        return argv, told.encode(errors="replace")
    file = folder / ".instruction.md"
    file.write_text(told, encoding="utf-8", errors="replace")
    return [str(file) if word == INSTRUCTION else word for word in argv], b""


def _environment(program: Program, job: Job) -> dict[str, str]:
    return {
        **environment(program.env, program.argv[0]),
        "CALLBOARD_RUN": job.stage.run,
        "CALLBOARD_NODE": job.stage.node,
        "CALLBOARD_ATTEMPT": str(job.stage.attempt),
    }


async def _end(process: Process) -> None:
    """End the whole process group: asked first, then killed; nothing of it is left."""
    if process.returncode is None:
        _signal(process, signal.SIGTERM)
        with anyio.move_on_after(_GRACE):
            await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()
    await process.aclose()


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return


class _Talk:
    """What passes between a turn and its program."""

    def __init__(self, job: Job, program: Program, process: Process) -> None:
        self._job, self._program, self._process = job, program, process
        self._out: list[str] = []
        self._read = 0
        self._errors = b""
        self._given: list[Any] = []

    async def run(self, on_stdin: bytes) -> None:
        """Until it has closed its output and ended."""
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen_errors, process.stderr)
            group.start_soon(self._tell, on_stdin)
            failed: ProgramError | None = None
            try:
                await self._listen(process.stdout)
                await process.wait()
            except ProgramError as error:
                # raised outside: a task group would wrap it
                failed = error
            group.cancel_scope.cancel()
        if failed is not None:
            raise failed

    async def _tell(self, text: bytes) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            await stdin.send(text)
            if self._program.protocol == "text":
                await stdin.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # it does not want to hear it: its exit code says whether that was right
            return

    async def _listen(self, stream: ByteReceiveStream) -> None:
        rest = b""
        async for part in stream:
            self._count(len(part))
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                await self._line(line.decode(errors="replace") + "\n")
            if len(rest) > _LONGEST_LINE:
                await self._line(rest.decode(errors="replace"))
                rest = b""
        if rest:
            await self._line(rest.decode(errors="replace"))

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > self._program.output:
            raise ProgramError(
                f"{self._program.argv[0]} printed more than {self._program.output:,} bytes; "
                "raise output= of its program, or let it print less"
            )

    async def _listen_errors(self, stream: ByteReceiveStream) -> None:
        async for part in stream:
            self._errors = (self._errors + part)[-_TAIL:]

    async def _line(self, line: str) -> None:
        if self._program.protocol == "text":
            self._out.append(line)
            if line.strip():
                self._job.stage.report(line.strip()[:_LINE])
            return
        if line.strip():
            await self._message(line)

    async def _message(self, line: str) -> None:
        try:
            said = decoded(line)
        except ValueError:
            raise ProgramError(
                f"a line of {self._program.argv[0]} is no JSON: {line.strip()[:80]!r}"
            ) from None
        if not isinstance(said, dict) or not {"emit", "report", "value"} & said.keys():
            raise ProgramError(f"a line of {self._program.argv[0]} says nothing known: {line.strip()[:80]!r}")
        if "report" in said:
            self._job.stage.report(str(said["report"])[:_LINE])
        if "value" in said:
            self._given.append(said["value"])
        if "emit" in said:
            await self._emit(str(said["emit"]), said.get("payload", {}))

    async def _emit(self, kind: str, payload: object) -> None:
        types = {type_.emission_kind: type_ for type_ in self._job.brief.grants} | dict(EMISSIONS)
        emission = parse_mapping(kind, payload, types)
        if isinstance(emission, Malformed):
            answer: Mapping[str, Any] = {
                "accepted": False,
                "reason": emission.reason,
                "detail": emission.detail,
            }
        else:
            receipt = await self._job.stage.emit(emission)
            if receipt:
                answer = {"accepted": True, "node": receipt.node}
            else:
                answer = {"accepted": False, "reason": receipt.reason, "detail": receipt.detail}
        stdin = self._process.stdin
        assert stdin is not None
        try:
            await stdin.send(bytes(encoded(answer)) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    def tail(self) -> str:
        """The last words on stderr."""
        text = redacted(self._errors.decode(errors="replace").strip())
        return f": {text}" if text else ", and said nothing on stderr"

    def value(self, folder: Path) -> Any:
        """The node's value."""
        text = "".join(self._out)
        if self._program.result is None:
            if self._program.protocol == "lines":
                return self._given[-1] if self._given else None
            return {"text": text, "exit_code": 0}
        self._job.read(text)
        return _result(folder, self._program.result)


def _result(folder: Path, name: str) -> Any:
    file = folder / name
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise ProgramError(
            f"its result {name} is not there; the program has to write it in its working folder"
        )
    try:
        return decoded(file.read_bytes())
    except ValueError as error:
        raise ProgramError(f"its result {name} cannot be read: {error}") from None
