"""Lines for stdout, written on a thread: who reads slowly slows neither the run nor its signals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TextIO

from anyio import Event, create_task_group, to_thread

from orchestrator.cli.edge import write

__all__ = ["Outlet", "outlet"]

#: Characters that may wait for a slow reader before whoever writes has to wait as well.
_LIMIT: Final = 1 << 20


class Outlet:
    """A queue of lines before a stream; made by ``outlet``.

    Attributes:
        fault: why the stream cannot be written; None while it can. A reader that left is no fault.
    """

    def __init__(self, stream: TextIO) -> None:
        self.fault: OSError | None = None
        self._stream = stream
        self._lines: list[str | bytes] = []
        self._size = 0
        self._arrived, self._room = Event(), Event()
        self._closed = False
        self._broken = False

    async def put(self, line: str | bytes) -> None:
        """Write one line; waits only while very much is pending."""
        if self._broken:
            return
        self._lines.append(line)
        self._size += len(line)
        self._arrived.set()
        while self._size > _LIMIT and not self._broken:
            self._room = Event()
            await self._room.wait()

    async def drained(self) -> None:
        """Wait until everything was written, or nobody reads any more."""
        while self._size and not self._broken:
            self._room = Event()
            await self._room.wait()

    def close(self) -> None:
        """Write what is pending, and then nothing more."""
        self._closed = True
        self._arrived.set()

    async def serve(self) -> None:
        """Write until closed and empty."""
        while True:
            lines, self._lines = self._lines, []
            if lines:
                text = b"".join(self._encoded(line) for line in lines)
                await to_thread.run_sync(self._write, text, abandon_on_cancel=True)
                self._size = sum(map(len, self._lines))
                self._room.set()
            elif self._closed:
                return
            else:
                self._arrived = Event()
                await self._arrived.wait()

    def _encoded(self, line: str | bytes) -> bytes:
        if isinstance(line, bytes):
            return line + b"\n"
        return f"{line}\n".encode(self._stream.encoding or "utf-8", "replace")

    def _write(self, text: bytes) -> None:
        if self._broken:
            return
        try:
            self._broken = not write(self._stream, text)
        except OSError as error:
            self._broken, self.fault = True, error


@asynccontextmanager
async def outlet(stream: TextIO) -> AsyncIterator[Outlet]:
    """An outlet that has written everything when it is left."""
    made = Outlet(stream)
    async with create_task_group() as group:
        group.start_soon(made.serve, name="callboard outlet")
        try:
            yield made
        finally:
            made.close()
