"""Servers of tools, each connected to once in a session, when it is first needed, and ended with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import anyio
from anyio.abc import TaskGroup

from orchestrator.agents.backends import mcp_client
from orchestrator.agents.tools import ReadyTool, ToolError
from orchestrator.errors import OrchestratorError
from roles import McpServer

__all__ = ["Servers"]

#: Seconds in which a server that was asked to end does so before it is cut off.
_GRACE: Final = 10.0


class _Live:
    """One connection: a task holds it, since only that may close it."""

    def __init__(self) -> None:
        self.ready, self.stop, self.over = anyio.Event(), anyio.Event(), anyio.Event()
        self.scope = anyio.CancelScope()
        self.gone = False
        self.fault: str | None = None
        self.tools: Mapping[str, ReadyTool] = {}

    async def _use(self, tools: Mapping[str, ReadyTool]) -> None:
        self.tools = tools
        self.ready.set()
        await self.stop.wait()

    def lose(self) -> None:
        """The next turn that needs the server makes a new connection."""
        self.gone = True
        self.stop.set()

    async def hold(self, server: McpServer) -> None:
        try:
            with self.scope:
                await mcp_client().serve(server, self._use, self.lose)
        except OrchestratorError as error:
            self.fault = str(error)
        except Exception as error:  # noqa: BLE001 (a library's: it must not end the session)
            self.fault = f"server {server.name}: {type(error).__name__}: {error}"
        finally:
            self.gone = True
            self.ready.set()
            self.over.set()


class Servers:
    """The connections of one session."""

    def __init__(self, group: Callable[[], TaskGroup]) -> None:
        """``group`` gives the session's task group, in which the connections are held."""
        self._group = group
        self._live: dict[McpServer, _Live] = {}

    async def tools(self, server: McpServer) -> Mapping[str, ReadyTool]:
        """The tools of a server by its own names; it is started or connected to if it is not.

        Raises:
            ToolError: it cannot be, or not within its timeout. OperationError: the extra is missing.
        """
        mcp_client()
        live = self._live.get(server)
        if live is None or live.gone:
            live = self._live[server] = _Live()
            self._group().start_soon(live.hold, server, name=f"callboard server {server.name}")
        with anyio.move_on_after(server.timeout) as waited:
            await live.ready.wait()
        if waited.cancelled_caught:
            live.scope.cancel()
            message = f"server {server.name} was not ready within {server.timeout:g} s; raise its timeout"
            raise ToolError(f"{message}, or see whether it speaks MCP")
        if live.fault is not None:
            raise ToolError(live.fault)
        return live.tools

    async def close(self) -> None:
        """End every connection, and what was started for it."""
        for live in self._live.values():
            live.stop.set()
        with anyio.move_on_after(_GRACE):
            for live in self._live.values():
                await live.over.wait()
        for live in self._live.values():
            live.scope.cancel()
        self._live.clear()
