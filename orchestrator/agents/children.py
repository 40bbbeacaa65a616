"""A program that we have started: a process group of its own, bounded output, nothing of it left behind."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import killpg
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from anyio.abc import ByteReceiveStream, Process

from orchestrator.agents.secrecy import redacted
from orchestrator.errors import ExecutionError

__all__ = ["Child", "ProgramError", "with_child"]

T = TypeVar("T")

#: Seconds between SIGTERM and SIGKILL.
_GRACE: Final = 2.0
#: Seconds in which the output of a program that has ended may be silent, and may go on at all: what it has
#: started may hold it for ever.
_SILENCE: Final = 0.5
_AFTERWARDS: Final = 10.0
#: Seconds that a program may live on when it has closed its output.
_LINGER: Final = 5.0
_TAIL: Final = 2_000
_LONGEST_LINE: Final = 1024 * 1024


class ProgramError(ExecutionError):
    """A program that could not be started, failed, or said too much."""


class Child:
    """A running program, as `with_child` gives it."""

    def __init__(self, name: str, process: Process, most: int) -> None:
        """``most``: bytes of output, on stdout and stderr together, that it may print."""
        self.name = name
        self._process, self._most = process, most
        self._read = 0
        self._errors = b""
        self._waiting: anyio.CancelScope | None = None
        #: when what is left of its output is given up
        self._until: float | None = None

    # --- its input -----------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        """Write to its stdin; one that does not want to hear it says so by its exit code."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    async def say_no_more(self) -> None:
        """Close its stdin."""
        assert self._process.stdin is not None
        await self._process.stdin.aclose()

    # --- its output ----------------------------------------------------------------------------

    async def each_line(self, take: Callable[[str], Awaitable[None]]) -> None:
        """Give every line to ``take``, its end included, until the output ends; a long one in pieces.

        Raises:
            ProgramError: it printed more than it may.
        """
        rest = b""
        while part := await self._receive():
            self._count(len(part))
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                await take(line.decode(errors="replace") + "\n")
            if len(rest) > _LONGEST_LINE:
                await take(rest.decode(errors="replace"))
                rest = b""
        if rest:
            await take(rest.decode(errors="replace"))

    async def _receive(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        with anyio.CancelScope() as self._waiting:
            if self._until is not None:
                self._waiting.deadline = min(anyio.current_time() + _SILENCE, self._until)
            try:
                return await stdout.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return b""
        return b""

    def _count(self, size: int) -> None:
        self._read += size
        if self._read > self._most:
            raise ProgramError(
                f"{self.name} printed more than {self._most:,} bytes; "
                "raise output= of its program, or let it print less"
            )

    async def listen_errors(self) -> None:
        """Keep the end of what it says on stderr; its amount counts."""
        stderr: ByteReceiveStream | None = self._process.stderr
        assert stderr is not None
        async for part in stderr:
            self._errors = (self._errors + part)[-_TAIL:]
            self._count(len(part))

    def tail(self) -> str:
        """The last words on stderr."""
        text = redacted(self._errors.decode(errors="replace").strip())
        return f": {text}" if text else ", and said nothing on stderr"

    # --- its end -------------------------------------------------------------------------------

    async def watch(self) -> None:
        """When it has ended, its output is read to the end, but not for ever."""
        await self._process.wait()
        self._until = anyio.current_time() + _AFTERWARDS
        if self._waiting is not None:
            self._waiting.deadline = anyio.current_time() + _SILENCE

    async def ended(self) -> None:
        """Wait for its end, after its output.

        Raises:
            ProgramError: it lives on though it has closed its output, or it failed.
        """
        with anyio.move_on_after(_LINGER):
            await self._process.wait()
        code = self._process.returncode
        if code is None:
            raise ProgramError(f"{self.name} closed its output and had not ended {_LINGER:g} s later")
        if code:
            raise ProgramError(f"{self.name} {await self.outcome()}{self.tail()}")

    async def outcome(self) -> str:
        """How it ended, for an error; one that closed its output has a moment to end."""
        with anyio.move_on_after(_SILENCE):
            await self._process.wait()
        code = self._process.returncode
        if code is None:
            return "closed its output"
        return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"

    async def end(self) -> None:
        """End the whole process group: asked first, then killed; nothing of it is left."""
        process = self._process
        if process.returncode is None:
            _signal(process, signal.SIGTERM)
            with anyio.move_on_after(_GRACE):
                await process.wait()
        _signal(process, signal.SIGKILL)
        await process.wait()
        await process.aclose()


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return


async def with_child(
    argv: Sequence[str],
    talk: Callable[[Child], Awaitable[T]],
    *,
    folder: Path,
    env: Mapping[str, str],
    most: int,
) -> T:
    """Start a program, talk to it, and leave nothing of it behind, whatever happens.

    Args:
        argv: the program and its arguments; no shell. talk: what passes between us; its value is given back.
        folder: where it works. env: all that it sees of the environment. most: bytes that it may print.

    Raises:
        ProgramError: it could not be started, or printed more than it may.
    """
    try:
        process = await anyio.open_process(argv, cwd=folder, env=env, start_new_session=True)
    except OSError as error:
        raise ProgramError(f"{argv[0]}: {error.strerror or error}; is it installed, and on PATH?") from None
    child = Child(argv[0], process, most)
    given: list[T] = []
    failed: list[ExecutionError] = []

    async def guarded(body: Callable[[], Awaitable[Any]]) -> None:
        try:
            await body()
        except ExecutionError as error:
            # raised outside: a task group would wrap it
            failed.append(error)
            group.cancel_scope.cancel()

    async def talked() -> None:
        given.append(await talk(child))

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(guarded, child.listen_errors)
            group.start_soon(child.watch)
            await guarded(talked)
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await child.end()
    if failed:
        raise failed[0]
    return given[0]
