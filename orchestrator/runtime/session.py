"""A session: one process's handle on roles, bus, branches and journal. Runs happen in a session."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from anyio import CancelScope

from orchestrator.agents import Branch
from orchestrator.core.spec import Budget
from orchestrator.errors import ExecutionError, OperationError
from orchestrator.flows.flow import BoundFlow
from orchestrator.journal import Journal
from orchestrator.journal.files import Fsync
from orchestrator.runtime.definitions import definition_of
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.forecasting import forecast
from orchestrator.runtime.identity import new_run_id
from orchestrator.runtime.including import Includes
from orchestrator.runtime.options import RunOptions
from orchestrator.runtime.planning import Prepared, prepare
from orchestrator.runtime.results import RunResult
from orchestrator.runtime.run import Run
from orchestrator.runtime.runs import Runs
from orchestrator.runtime.schedules import schedule
from orchestrator.runtime.sources import Runnable, bound_of, source_of
from orchestrator.runtime.stores import MemoryStore, store_of
from orchestrator.runtime.streams import SettlementStream
from orchestrator.runtime.wiring import DEFAULT_GRACE
from roles import McpServer, Role, Tool

__all__ = ["Session"]


class Session(Runs):
    """Runs graphs. An async context manager: its tasks live in its own task group.

    Args:
        roles: roles that graphs and spawns may name.
        journal: path of the journal file; None keeps records in memory. A function that makes a Journal
            (see ``orchestrator.journal``) is for tests and for stores of one's own.
        fsync: ``always`` survives a power cut, ``never`` survives the end of the process.
        limits: resource (``role:critic``, ``model:x``, ``name:db``) -> how many nodes at once.
        grace: seconds that a role has after it was told to stop.
        model: performs every role that a model performs, such as ``test`` or ``openai:NAME``, also in a run
            that goes on; the roles' own models if None.
        seed: of the jitter in backoffs; None draws one.
        folder: where runs get their folders; ``runs`` beside the journal by default, without one on disk a
            temporary folder that goes when the session is left.
        tools: functions and servers that roles may name as their tools; see :meth:`register_tool`.

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
        folder: str | Path | None = None,
        clock: Callable[[], int] | None = None,
        model: str | None = None,
        tools: Iterable[Callable[..., Any] | Tool | McpServer] = (),
    ) -> None:
        super().__init__(roles, store_of(journal, fsync))
        for tool in tools:
            self.register_tool(tool)
        self._limits = dict(limits or {})
        self._grace, self._seed = grace, seed
        self._fleeting = folder is None and not self._store.durable
        self._folder = self._store.folder if folder is None else Path(folder)
        self._clock = clock or time.monotonic_ns
        self._model = model
        self._stack: AsyncExitStack | None = None
        self._includes = Includes(self)

    @property
    def limits(self) -> dict[str, int]:
        """Resource -> how many nodes at once."""
        return dict(self._limits)

    @property
    def model(self) -> str | None:
        """Who performs every role that a model performs; None leaves that to the roles."""
        return self._model

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
        with anyio.move_on_after(self._grace + DEFAULT_GRACE, shield=True):
            # bounded: a journal that never answers must not hold whoever leaves
            for run in list(self._runs.values()):
                run.interrupt()
                await run.over()
            await self._servers.close()
        if self._fleeting:
            shutil.rmtree(self._folder, ignore_errors=True)
        if exc is None:
            return await stack.__aexit__(None, None, None)
        # the caller's error leaves as it is, not inside a group: no task of ours had a part in it
        group.cancel_scope.cancel()
        await stack.__aexit__(None, None, None)
        return False

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
        reuse: str | None = None,
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
            reuse: an earlier run of this journal, as for :meth:`resume`: a node whose content (code,
                parameters, instruction, what its predecessors gave) equals that of a completed node
                there takes its outcome.

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
                reuse=reuse,
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
        reuse: str | None = None,
    ) -> Run:
        """Start a run and return its live handle; see :meth:`flow`.

        Leaving the session interrupts runs that are still live. ``waits_for_answers``: somebody answers
        questions through the handle, so a run that only waits for answers is not suspended.
        """
        return await self.begin(
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
                reuse=reuse,
            ),
        )

    async def begin(self, what: Runnable, options: RunOptions) -> Run:
        """``start`` with its options in one."""
        group = self._open()
        run = self._make(what, options)
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

    def _make(self, what: Runnable, options: RunOptions) -> Run:
        """Resolve everything that a run names; nothing has run if this raises."""
        self._open()
        bound = bound_of(what, options.args or {}, self.roles, self._operations, self.tools)
        if bound.graph.stepped:
            return self._launch(schedule("supersteps").begin(self, bound, options, source_of(what)))
        earlier = self._earlier(options.reuse)
        branches = {**self.branches, **_live_branches(bound.graph.branches, self.branches)}
        prepared = self._prepared(bound, options, branches)
        self.branches.update(branches)
        run_id = new_run_id() if options.child is None else options.child.run
        definition = definition_of(prepared, source_of(what), bound.outputs, durable=self._store.durable)
        # a child that was killed before its first record has a log, and nothing in it
        begun = options.child is not None and self._store.exists(run_id)
        journal = (
            self._store.own(run_id)[0]
            if begun
            else self._store.new(run_id, prepared.plan.name, definition.digest)
        )
        if isinstance(self._store, MemoryStore):
            self._store.prepared[run_id] = prepared
        engine = Engine(run_id, prepared, self.wiring(journal, options), definition)
        engine.reuse = earlier
        return self._launch(engine)

    def _prepared(self, bound: BoundFlow, options: RunOptions, branches: Mapping[str, Branch]) -> Prepared:
        limit = bound.budget if options.budget is None else options.budget
        if not isinstance(limit, Budget):
            raise OperationError(f"budget is {limit!r}; give a Budget, such as Budget(spawns=10)")
        if not options.parallel:
            limit = msgspec.structs.replace(limit, concurrency=1)
        return prepare(
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
            model=self._model,
            tools=self.tools,
        )

    def forecast(self, what: Runnable, options: RunOptions) -> tuple[int, int]:
        """How many nodes of a run would take an outcome of ``options.reuse``, and how many would run.

        Nothing runs and nothing is written; the session need not be open.

        Raises:
            OperationError, JournalError: as :meth:`start`.
        """
        bound = bound_of(what, options.args or {}, self.roles, self._operations, self.tools)
        if bound.graph.stepped:
            raise OperationError("a stepped flow takes no reuse=; its state is its context, by context=")
        earlier = self._earlier(options.reuse)
        branches = {**self.branches, **_live_branches(bound.graph.branches, self.branches)}
        prepared = self._prepared(bound, options, branches)
        definition = definition_of(prepared, source_of(what), bound.outputs, durable=self._store.durable)
        return forecast(prepared, definition, earlier)


def _live_branches(given: Mapping[str, object], known: Mapping[str, Branch]) -> dict[str, Branch]:
    branches: dict[str, Branch] = {}
    for name, named in given.items():
        # a document names branches; what the session has under a name is meant
        branch = known.get(name, Branch(name)) if named is None else named
        if not isinstance(branch, Branch):
            message = f"branch {name!r} is a {type(branch).__name__}, not a Branch"
            raise OperationError(message)
        branches[name] = branch
    return branches
