"""The tools of a session, and which of them a role may use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from orchestrator.agents.backends import mcp_client
from orchestrator.agents.servers import Servers
from orchestrator.agents.tools import InThread, ReadyTool, function_tool
from orchestrator.errors import OperationError
from roles import McpServer, Role, Tool
from roles.tools import Bound, bound, listed, tool_name

__all__ = ["Toolbox"]

#: What a provider takes in the name of a function.
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64


class Toolbox:
    """Tools by name: functions, and servers whose tools are named ``server.tool``."""

    def __init__(self, in_thread: InThread, servers: Servers) -> None:
        """``in_thread``: where plain functions run. ``servers``: the session's connections."""
        self._in_thread, self._servers = in_thread, servers
        self._known: dict[str, Tool | McpServer] = {}

    @property
    def names(self) -> frozenset[str]:
        """What is known by name: functions and servers."""
        return frozenset(self._known)

    def add(self, one: Tool | McpServer) -> None:
        """Add a function or a server.

        Raises:
            OperationError: the name is taken, or the function's parameters have no types.
        """
        if one.name in self._known:
            raise OperationError(f"two tools or servers are called {one.name!r}; a name means one")
        if isinstance(one, Tool):
            function_tool(one, self._in_thread)
        self._known[one.name] = one

    def check(self, role: Role) -> None:
        """Refuse a role whose tools cannot all be found, before anything runs.

        Raises:
            OperationError: a name is unknown, a function has no types, or an extra is missing.
        """
        for entry in self._entries(role):
            if isinstance(entry, Tool):
                function_tool(entry, self._in_thread)
            else:
                mcp_client()

    async def of(self, role: Role, may: Callable[[str], bool]) -> dict[str, ReadyTool]:
        """The tools of a role as they can be called, by the names that allow-lists have for them.

        Args:
            role: whose. may: whether the node may use a tool of this name.

        Raises:
            OperationError: a name is unknown, or two tools have one name for a model.
            ToolError: a server cannot be reached.
        """
        found: dict[str, ReadyTool] = {}
        for entry in self._entries(role):
            if isinstance(entry, Tool):
                if may(entry.name):
                    found[entry.name] = function_tool(entry, self._in_thread)
            elif may(entry.listed) or any(sign in entry.listed for sign in "*?["):
                served = await self._served(role, entry)
                found |= {name: tool for name, tool in served.items() if may(name)}
        names = [tool.name for tool in found.values()]
        for name in names:
            if names.count(name) > 1:
                raise OperationError(f"role {role.name}: two tools are {name!r} to a model; rename one")
        return found

    async def named(self, name: str) -> ReadyTool:
        """One of the session's own tools: ``look_up``, or ``server.tool``.

        Raises:
            OperationError: there is none of this name. ToolError: its server cannot be reached.
        """
        found = await self.of(Role("session", tools=(name,)), lambda _name: True)
        if name not in found:
            raise OperationError(f"{name!r} names no single tool; write one name")
        return found[name]

    def _entries(self, role: Role) -> Iterator[Tool | Bound]:
        """What a role lists, found."""
        for listed_as in role.tools:
            entry: Any = bound(listed_as, self._known)
            if isinstance(entry, str):
                known = ", ".join(sorted(self._known)) or "none"
                raise OperationError(
                    f"role {role.name}: there is no tool {entry!r}; give the function itself, write @tool in "
                    f"its cast, or session.register_tool(fn); the session has: {known}"
                )
            yield entry if isinstance(entry, Tool | Bound) else Tool(tool_name(entry), entry)

    async def _served(self, role: Role, entry: Bound) -> Mapping[str, ReadyTool]:
        server = entry.server
        tools = await self._servers.tools(server)
        offered = {f"{server.name}.{name}": tool for name, tool in tools.items()}
        found = {name: tool for name, tool in offered.items() if listed(name, (entry.listed,))}
        if not found:
            raise OperationError(
                f"role {role.name}: server {server.name} offers no {entry.listed!r}; it offers "
                f"{', '.join(sorted(offered)) or 'nothing'}"
            )
        return {name: _callable(name, tool) for name, tool in found.items()}


def _callable(name: str, tool: ReadyTool) -> ReadyTool:
    """A server's tool under a name that every provider takes."""
    return ReadyTool(_FORBIDDEN.sub("_", name)[:_LONGEST], tool.description, tool.schema, tool.perform)
