"""JSON-RPC over the lines of a program, in both directions; on any event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio

from orchestrator.agents.children import Child, ProgramError
from orchestrator.agents.secrecy import redacted
from orchestrator.core.encoding import decoded, encoded

__all__ = ["INVALID", "UNKNOWN", "Peer", "PeerError"]

#: JSON-RPC's codes.
UNKNOWN: Final = -32601
INVALID: Final = -32602
_INTERNAL: Final = -32603


class PeerError(ProgramError):
    """An answer that is an error: the peer's to us, or ours to the peer.

    Attributes:
        code: JSON-RPC's.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Pending:
    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.result: Any = None
        self.error: ProgramError | None = None


class Peer:
    """The other side of a connection.

    Args:
        child: the program. serve: answers its requests, ``serve(method, params)``, or raises PeerError; hears
            its notifications too, whose answer nobody gets.
    """

    def __init__(self, child: Child, serve: Callable[[str, Mapping[str, Any]], Awaitable[Any]]) -> None:
        self._child, self._serve = child, serve
        self._pending: dict[int, _Pending] = {}
        self._number = 0
        self._closed: ProgramError | None = None

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask, and wait for the answer.

        Raises:
            PeerError: the answer is an error. ProgramError: there will be none.
        """
        if self._closed is not None:
            raise self._closed
        self._number += 1
        number, pending = self._number, _Pending()
        self._pending[number] = pending
        await self._send({"id": number, "method": method, "params": params})
        await pending.done.wait()
        if pending.error is not None:
            raise pending.error
        return pending.result

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Say something that has no answer."""
        await self._send({"method": method, "params": params})

    async def quiet(self) -> None:
        """Wait until nothing is asked of it any more: it answers, or is gone."""
        for pending in list(self._pending.values()):
            await pending.done.wait()

    async def listen(self) -> None:
        """Read until the output ends; then whoever waits for an answer is told that there will be none."""
        try:
            await self._child.each_line(self._line)
            error = ProgramError(f"{self._child.name} {await self._child.outcome()}{self._child.tail()}")
        except ProgramError as found:
            error = found
        self._closed = error
        for pending in self._pending.values():
            pending.error = error
            pending.done.set()
        self._pending.clear()

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._child.send(bytes(encoded({"jsonrpc": "2.0", **message})) + b"\n")

    async def _line(self, line: str) -> None:
        if not line.strip():
            return
        try:
            said = decoded(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise ProgramError(f"a line of {self._child.name} is no message: {line.strip()[:80]!r}")
        if "method" in said:
            await self._asked(said)
        elif isinstance(said.get("id"), int) and said["id"] in self._pending:
            self._answered(self._pending.pop(said["id"]), said)

    def _answered(self, pending: _Pending, said: Mapping[str, Any]) -> None:
        error = said.get("error")
        if isinstance(error, dict):
            message = redacted(f"{error.get('message', 'an error')}")
            code = error.get("code")
            pending.error = PeerError(code if isinstance(code, int) else _INTERNAL, message)
        pending.result = said.get("result")
        pending.done.set()

    async def _asked(self, said: Mapping[str, Any]) -> None:
        params = said.get("params")
        try:
            given = await self._serve(str(said["method"]), params if isinstance(params, dict) else {})
            answer: dict[str, Any] = {"result": given}
        except PeerError as error:
            answer = {"error": {"code": error.code, "message": str(error)}}
        if "id" in said:
            await self._send({"id": said["id"], **answer})
