"""A session: one process's handle on roles, bus, branches and journal. Runs happen in a session."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from inspect import iscoroutinefunction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from anyio import CancelScope, Event
from anyio.abc import TaskGroup

from emissions import Emission
from orchestrator.agents import DEFAULT_BRANCH, Branch
from orchestrator.core.resuming import EVERY_FAILED
from orchestrator.core.spec import Budget
from orchestrator.errors import ExecutionError, OperationError, RunOwnedError
from orchestrator.journal import Journal
from orchestrator.journal.files import Fsync
from orchestrator.runtime import taps
from orchestrator.runtime.branching import Branches
from orchestrator.runtime.bus import Bus
from orchestrator.runtime.definitions import definition_of
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.identity import new_run_id
from orchestrator.runtime.options import RunOptions
from orchestrator.runtime.planning import prepare
from orchestrator.runtime.recovery import Recovery
from orchestrator.runtime.results import RunResult
from orchestrator.runtime.reviving import revive
from orchestrator.runtime.run import Run
from orchestrator.runtime.sources import Runnable, bound_of, source_of
from orchestrator.runtime.stores import MemoryStore, store_of
from orchestrator.runtime.streams import SettlementStream
from orchestrator.runtime.threads import loop_token, say_on_loop
from orchestrator.runtime.wiring import DEFAULT_GRACE, Wiring
from roles import Catalogue, Role

__all__ = ["Session"]


class Session:
    """Runs graphs. An async context manager: its tasks live in its own task group.

    Args:
        roles: roles that graphs and spawns may name.
        journal: path of the journal file; None keeps records in memory. A function that makes a Journal
            (see ``orchestrator.journal``) is for tests and for stores of one's own.
        fsync: ``always`` survives a power cut, ``never`` survives the end of the process.
        limits: resource (``role:critic``, ``model:x``, ``name:db``) -> how many nodes at once.
        grace: seconds that a role has after it was told to stop.
        seed: of the jitter in backoffs; None draws one.
        folder: where nodes get their folders.

    Raises:
        RoleError: two roles have one name.
        OperationError: an argument does not fit.
    """

    def __init__(
        self,
        roles: Iterable[Role] = (),
        *,
        journal: str | Path | Callable[[], Journal] | None = None,
        fsync: Fsync = "always",
        limits: Mapping[str, int] | None = None,
        grace: float = DEFAULT_GRACE,
        seed: int | None = None,
        folder: str | Path = ".callboard/runs",
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.roles = Catalogue(roles, origin="Session(roles=)")
        self.branches: dict[str, Branch] = {DEFAULT_BRANCH: Branch(DEFAULT_BRANCH)}
        self.bus = Bus()
        self._store = store_of(journal, fsync)
        self._limits = dict(limits or {})
        self._grace, self._seed, self._folder = grace, seed, Path(folder)
        self._clock = clock
        self._operations: dict[str, Callable[[Any], Any]] = {}
        self._handlers: dict[type[Emission], Callable[..., Any]] = {}
        self._group: TaskGroup | None = None
        self._stack: AsyncExitStack | None = None
        self._runs: dict[str, Run] = {}

    # --- life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the session's task group."""
        if self._group is not None:
            message = "this session is open already; make a second one"
            raise ExecutionError(message)
        self._stack = AsyncExitStack()
        self._group = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Interrupt live runs, wait for them, let taps drain."""
        stack, group = self._stack, self._group
        self._stack = self._group = None
        if stack is None or group is None:
            return None
        with CancelScope(shield=True):
            for run in list(self._runs.values()):
                run.interrupt()
                await run.over()
        if exc is None:
            return await stack.__aexit__(None, None, None)
        # the caller's error leaves as it is, not inside a group: no task of ours had a part in it
        group.cancel_scope.cancel()
        await stack.__aexit__(None, None, None)
        return False

    def _open(self) -> TaskGroup:
        if self._group is None:
            message = "the session is not open; use `async with Session(...) as session:`"
            raise ExecutionError(message)
        return self._group

    # --- registering ---------------------------------------------------------------------------

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

    # --- running -------------------------------------------------------------------------------

    async def flow(
        self,
        what: Runnable,
        *,
        args: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        reducers: Mapping[str, Any] | None = None,
        known: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        branch: Branch | None = None,
        parallel: bool = True,
        on_settle: Callable[..., Any] | None = None,
        on_branch_created: Callable[[Branch], None] | None = None,
    ) -> RunResult:
        """Run a graph, a builder, a flow or a document, and return what it came to.

        Args:
            what: Graph, OperationGraphBuilder, Flow, or a path to a flow document.
            args: the flow's arguments. context: the first shared context.
            reducers: context key -> reducer, by name or as a function of (folded, next).
            known: node -> value or NodeResult: outcomes that are given, and do not run.
            budget: limits of this run; the document's where it is omitted.
            branch: the default branch of operations without a role. parallel: False runs one node at a time.
            on_settle: ``fn(node, view) -> Inject | list | None``, as a node is about to settle.
            on_branch_created: called once for every branch that is made.

        Returns:
            The result. A run that fails is a value; its ``reason`` says why it stopped.

        Raises:
            GraphError, FlowError, OperationError, RoleError: what was given cannot run; nothing has run.
            InternalError: a bug of ours.
        """
        run = self._make(
            what,
            RunOptions(
                args=args,
                context=context,
                reducers=reducers,
                known=known,
                budget=budget,
                branch=branch,
                parallel=parallel,
                on_settle=on_settle,
                on_branch_created=on_branch_created,
            ),
        )
        try:
            await run.drive()
        finally:
            self._forget(run)
        return await run.wait()

    async def start(
        self,
        what: Runnable,
        *,
        args: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        reducers: Mapping[str, Any] | None = None,
        known: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        branch: Branch | None = None,
        parallel: bool = True,
        on_settle: Callable[..., Any] | None = None,
        on_branch_created: Callable[[Branch], None] | None = None,
        waits_for_answers: bool = False,
    ) -> Run:
        """Start a run and return its live handle; see :meth:`flow`.

        Leaving the session interrupts runs that are still live. ``waits_for_answers``: somebody answers
        questions through the handle, so a run that only waits for answers is not suspended.
        """
        group = self._open()
        run = self._make(
            what,
            RunOptions(
                args=args,
                context=context,
                reducers=reducers,
                known=known,
                budget=budget,
                branch=branch,
                parallel=parallel,
                on_settle=on_settle,
                on_branch_created=on_branch_created,
                waits_for_answers=waits_for_answers,
            ),
        )
        await group.start(self._drive, run)
        return run

    @asynccontextmanager
    async def flow_stream(self, what: Runnable, **options: Any) -> AsyncIterator[SettlementStream]:
        """Run a graph and yield a stream of FlowEvents, one per settlement, in order.

        Leaving early cancels the run and waits for it. Options are those of :meth:`flow`.
        """
        run = await self.start(what, **options)
        try:
            yield SettlementStream(run.engine)
        finally:
            with CancelScope(shield=True):
                if run.result is None:
                    run.cancel(reason="the reader left")
                await run.over()

    async def resume(
        self,
        run: str = "last",
        *,
        budget: Mapping[str, float] | None = None,
        new_definition: bool = False,
        waits_for_answers: bool = False,
        on_settle: Callable[..., Any] | None = None,
    ) -> Run:
        """Go on with a run that was suspended or whose process died; settled nodes are not run again.

        Args:
            run: an unambiguous prefix of its id, or ``last``. budget: named limits to raise first.
            new_definition: use code and documents that have changed since the run began.
            waits_for_answers, on_settle: as for :meth:`start`.

        Raises:
            JournalError: no such run, it is driven by somebody (RunOwnedError), or its log is damaged.
            OperationError: it has ended, or one of its functions is gone or has changed.
        """
        options = RunOptions(waits_for_answers=waits_for_answers, on_settle=on_settle)
        return await self._continue(run, options, budget or {}, (), new_definition=new_definition)

    async def retry(
        self,
        run: str = "last",
        nodes: Iterable[str] | None = None,
        *,
        budget: Mapping[str, float] | None = None,
        new_definition: bool = False,
    ) -> Run:
        """Run failed nodes, or undecided gates, again, and what was skipped because of them.

        Args:
            run: as for :meth:`resume`. nodes: which; None is every failed node and undecided gate.

        Raises:
            OperationError: nothing is to be retried, or a node that was named did not fail.
        """
        wanted = (EVERY_FAILED,) if nodes is None else tuple(nodes)
        return await self._continue(run, RunOptions(), budget or {}, wanted, new_definition=new_definition)

    async def _continue(
        self,
        run: str,
        options: RunOptions,
        budget: Mapping[str, float],
        reopen: tuple[str, ...],
        *,
        new_definition: bool,
    ) -> Run:
        group = self._open()
        run_id = self._store.find(run)
        if run_id in self._runs:
            message = f"run {run_id} is live in this session; use its handle"
            raise RunOwnedError(message)
        journal, epoch = self._store.open(run_id)
        try:
            engine = revive(
                run_id, self._wiring(journal, options), self.roles, self._operations,
                Recovery(epoch=epoch, budget=budget, reopen=reopen), new_definition=new_definition,
            )  # fmt: skip
        except BaseException:
            self._store.close(run_id)
            raise
        live = self._launch(engine)
        await group.start(self._drive, live)
        return live

    def runs(self, status: str | None = None) -> list[Run]:
        """Live runs of this session; ``status`` narrows by reason (``""`` is live)."""
        return [run for run in self._runs.values() if status is None or run.engine.reason == status]

    async def _drive(self, run: Run, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        task_status.started()
        try:
            await run.drive()
        finally:
            self._forget(run)

    def _forget(self, run: Run) -> None:
        self._runs.pop(run.id, None)
        self._store.close(run.id)
        if run.result is not None and run.result.ok and isinstance(self._store, MemoryStore):
            self._store.forget(run.id)

    def _make(self, what: Runnable, options: RunOptions) -> Run:
        """Resolve everything that a run names; nothing has run if this raises."""
        self._open()
        bound = bound_of(what, options.args or {}, self.roles)
        limit = options.budget or bound.budget
        if not options.parallel:
            limit = msgspec.structs.replace(limit, concurrency=1)
        branches = {**self.branches, **_live_branches(bound.graph.branches)}
        if options.branch is not None:
            branches[DEFAULT_BRANCH] = options.branch
        prepared = prepare(
            bound.graph,
            roles=bound.roles,
            operations=self._operations,
            branches=branches,
            budget=limit,
            limits={**self._limits, **bound.limits},
            args=bound.args,
            context={**bound.context, **(options.context or {})},
            reducers={**bound.reducers, **(options.reducers or {})},
            known=options.known or {},
        )
        self.branches.update(branches)
        run_id = new_run_id()
        definition = definition_of(prepared, source_of(what), bound.outputs, durable=self._store.durable)
        journal = self._store.new(run_id, prepared.plan.name, definition.digest)
        return self._launch(Engine(run_id, prepared, self._wiring(journal, options), definition))

    def _wiring(self, journal: Journal, options: RunOptions) -> Wiring:
        return Wiring(
            journal=journal,
            bus=self.bus,
            branches=Branches(self.branches, options.on_branch_created),
            handlers=dict(self._handlers),
            on_settle=options.on_settle,
            folder=self._folder,
            grace=self._grace,
            seed=self._seed,
            clock=self._clock or time.monotonic_ns,
            waits_for_answers=options.waits_for_answers,
        )

    def _launch(self, engine: Engine) -> Run:
        """A run of this session that has not begun to be driven."""
        run = Run(engine)
        self._runs[run.id] = run
        return run


def _name(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__qualname__", repr(fn)))


def _live_branches(given: Mapping[str, object]) -> dict[str, Branch]:
    branches: dict[str, Branch] = {}
    for name, branch in given.items():
        if not isinstance(branch, Branch):
            message = f"branch {name!r} is a {type(branch).__name__}, not a Branch"
            raise OperationError(message)
        branches[name] = branch
    return branches


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
