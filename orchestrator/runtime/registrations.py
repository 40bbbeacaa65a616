"""What a session knows: roles, verbs, handlers, branches, and who taps its bus."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import copy_context
from inspect import iscoroutinefunction
from typing import Any

from anyio import Event
from anyio.abc import TaskGroup

from emissions import Emission
from orchestrator.agents import DEFAULT_BRANCH, Branch
from orchestrator.agents.providers import Providers
from orchestrator.agents.servers import Servers
from orchestrator.agents.toolbox import Toolbox
from orchestrator.errors import ExecutionError, OperationError
from orchestrator.runtime import taps
from orchestrator.runtime.bus import Bus
from orchestrator.runtime.threads import loop_token, run_in_thread, say_on_loop
from roles import Catalogue, McpServer, Role, Tool

__all__ = ["Registrations"]


class Registrations:
    """The part of a session that is told things before anything runs.

    Attributes:
        roles: the session's roles. branches: its branches by name. bus: its notice lane.
        tools: what roles may name as their tools.
        providers: what it knows of the providers that it calls.
    """

    def __init__(self, roles: Iterable[Role]) -> None:
        """Begin with ``roles`` and nothing else."""
        self.roles = Catalogue(roles, origin="Session(roles=)")
        self.branches: dict[str, Branch] = {DEFAULT_BRANCH: Branch(DEFAULT_BRANCH)}
        self.bus = Bus()
        self.providers = Providers()
        self._operations: dict[str, Callable[[Any], Any]] = {}
        self._handlers: dict[type[Emission], Callable[..., Any]] = {}
        self._group: TaskGroup | None = None
        self._servers = Servers(self._open)
        self.tools = Toolbox(_in_thread, self._servers)

    def _open(self) -> TaskGroup:
        if self._group is None:
            message = "the session is not open; use `async with Session(...) as session:`"
            raise ExecutionError(message)
        return self._group

    def handles(self, type_: type[Emission], fn: Callable[..., Any]) -> None:
        """Let ``fn(emission, view)`` answer every emission of a type with changes.

        ``fn`` is a plain, pure function; it returns Inject, Veto, Write, Steer, a list of them or None.

        Raises:
            OperationError: the type has a handler; the message names both. Or ``fn`` is async.
        """
        if iscoroutinefunction(fn):
            message = f"the handler {_name(fn)} is async; handlers are plain functions that do not wait"
            raise OperationError(message)
        known = self._handlers.get(type_)
        if known is not None:
            message = f"{type_.__name__} is handled by {_name(known)}; {_name(fn)} would be a second handler"
            raise OperationError(message)
        self._handlers[type_] = fn

    @property
    def operations(self) -> frozenset[str]:
        """Names of the operations that nodes may perform."""
        return frozenset(self._operations)

    def register_operation(self, name: str, fn: Callable[[Any], Any]) -> None:
        """Add a verb: ``async def fn(turn) -> value``. It works with no role at all.

        Raises:
            OperationError: the name is taken, or ``fn`` is not an ``async def``.
        """
        if name in self._operations:
            message = f"operation {name!r} is {_name(self._operations[name])}; a verb has one meaning"
            raise OperationError(message)
        if not iscoroutinefunction(fn):
            message = f"operation {name!r}: {_name(fn)} is not an `async def fn(turn)`"
            raise OperationError(message)
        self._operations[name] = fn

    def register_tool(self, tool: Callable[..., Any] | Tool | McpServer, *, name: str = "") -> None:
        """Let roles name a tool: a function with types, or a server, whose tools are named ``server.tool``.

        Args:
            tool: what they may use; a function is called by its name.
            name: what a function is called instead.

        Raises:
            OperationError: the name is taken, or a parameter of the function has no type.
            RoleError: nothing can call it.
        """
        if not isinstance(tool, Tool | McpServer):
            tool = Tool(name or getattr(tool, "__name__", ""), tool)
        self.tools.add(tool)

    @asynccontextmanager
    async def tap(
        self,
        fn: taps.Receiver,
        kinds: Iterable[str] | None = None,
        buffer: int = taps.DEFAULT_BUFFER,
        overflow: taps.Overflow = "drop_newest",
    ) -> AsyncIterator[taps.Tap]:
        """Observe every run of the session: ``fn(envelope)``, plain or async.

        A tap cannot fail, slow or change a run. One that lags skips records and is told by a ``Missed``
        envelope. On leaving it has a second to take what is pending.

        Args:
            kinds: kinds of events; None is all. buffer: pending facts. overflow: ``drop_newest`` or
                ``drop_oldest``.
        """
        group = self._open()
        tap = taps.Tap(fn, kinds, buffer, overflow)
        done = Event()
        if tap.threaded:
            _serve_on_thread(tap, done)
        else:
            group.start_soon(_serve, tap, done, name="callboard tap")
        self.bus.connect(tap.receive)
        try:
            yield tap
        finally:
            self.bus.disconnect(tap.receive)
            await taps.drain(tap, done)


async def _in_thread(fn: Callable[[], Any]) -> Any:
    return await run_in_thread(fn, copy_context())


def _name(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__qualname__", repr(fn)))


async def _serve(tap: taps.Tap, done: Event) -> None:
    try:
        await tap.serve()
    finally:
        done.set()


def _serve_on_thread(tap: taps.Tap, done: Event) -> None:
    token = loop_token()

    def serve() -> None:
        tap.serve_thread()
        say_on_loop(token, done.set)

    threading.Thread(target=serve, name="callboard tap", daemon=True).start()
