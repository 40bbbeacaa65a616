"""Driving threads: from a call to an engine, and from an engine to a result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, get_args

import msgspec

from orchestrator.core.commands import Drain
from orchestrator.core.facts import CheckpointSaved
from orchestrator.core.records import Record
from orchestrator.core.spec import DEFAULT_CONCURRENCY, Budget, Plan
from orchestrator.core.state import NodeState
from orchestrator.core.supersteps.commands import Open
from orchestrator.errors import InternalError, OperationError
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.identity import new_run_id
from orchestrator.runtime.options import RunOptions
from orchestrator.runtime.planning import resolved_concurrency
from orchestrator.runtime.session import Session
from orchestrator.runtime.stores import MemoryStore
from orchestrator.runtime.wiring import Child
from orchestrator.supersteps import telling
from orchestrator.supersteps.beginning import Beginning, Told
from orchestrator.supersteps.blueprint import Blueprint
from orchestrator.supersteps.caching import cache_of
from orchestrator.supersteps.calling import call
from orchestrator.supersteps.engine import StepEngine
from orchestrator.supersteps.holding import held
from orchestrator.supersteps.keeping import (
    answers_below,
    copied,
    copy_children,
    delete,
    next_input,
    rewind,
    upto,
)
from orchestrator.supersteps.looking import history, interrupts_of, result_of, snapshot
from orchestrator.supersteps.results import Interrupt, StateSnapshot, StepResult
from orchestrator.supersteps.threads import Thread, Threads, threads_of
from orchestrator.supersteps.turns import StepTurn
from orchestrator.supersteps.words import Answer, Answers, Command

__all__ = ["DEFAULT_STEPS", "NEXT", "Drive", "Driver", "OnPending"]

#: Steps of a run whose budget says nothing: a loop that does not end stops, and can go on.
DEFAULT_STEPS: Final = 1_000

_CONFIG: Final = (
    'there is no config=: ["configurable"]["thread_id"] is thread_id=, ["checkpoint_id"] is at=, '
    '"recursion_limit" is budget=Budget(steps=), "max_concurrency" is compile(concurrency=)'
)


#: What a new input does to work that is left.
OnPending = Literal["error", "enqueue", "replace"]
#: Given in place of an input: the first of those that wait.
NEXT: Final = object()
#: The engine that calls a graph, and the task that does.
Caller = tuple[StepEngine, str]


class Drive(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one invocation, as ``CompiledGraph.invoke`` explains them."""

    thread_id: str | None = None
    on_pending: OnPending = "error"
    budget: Budget | None = None
    grant: Mapping[str, float] = msgspec.field(default_factory=dict)
    durability: str = "sync"
    window: int = 1
    interrupt_before: Sequence[str] | None = None
    interrupt_after: Sequence[str] | None = None
    at: int | None = None
    rename: Mapping[str, str] = msgspec.field(default_factory=dict)
    config: Any = None


class Driver:
    """One compiled graph's way to its threads."""

    def __init__(self, blueprint: Blueprint, session: Session, concurrency: int | None) -> None:
        self.blueprint = blueprint
        self.session = session
        self._concurrency = resolved_concurrency(concurrency)
        self._threads = threads_of(session.store)
        self._live: dict[str, StepEngine] = {}
        #: the drivers of graphs that are nodes here, by node
        self._below: dict[str, Driver] = {}

    # --- running -------------------------------------------------------------------------------

    async def invoke(self, given: Any, drive: Drive) -> StepResult:
        """Run a thread until it stops."""
        while True:
            async with self.begun(given, drive) as engine:
                await engine.run()
                result = self.result(engine)
            if not result.ok or not engine.steps.queue:
                return result
            # what waited for this is next
            given = NEXT
            drive = msgspec.structs.replace(
                drive, thread_id=engine.run_id, on_pending="error", at=None, grant={}, rename={}
            )

    @asynccontextmanager
    async def begun(self, given: Any, drive: Drive) -> AsyncIterator[StepEngine]:
        """An engine that has not been run; its thread is owned inside the block."""
        if drive.config is not None:
            raise OperationError(_CONFIG)
        if drive.on_pending not in get_args(OnPending):
            raise OperationError(f"on_pending is {drive.on_pending!r}; write 'error', 'enqueue' or 'replace'")
        thread_id = self._target(drive)
        with self._threads.owned(thread_id, self.blueprint.name) as thread:
            engine = await self._engine(thread, given, drive)
            self._live[thread_id] = engine
            try:
                yield engine
            finally:
                self._live.pop(thread_id, None)
        self._forget(drive, engine)

    def _forget(self, drive: Drive, engine: StepEngine) -> None:
        """A thread that nobody named and that is complete is of no more use than its result."""
        store = self.session.store
        if drive.thread_id is None and engine.state.ended == "completed" and isinstance(store, MemoryStore):
            store.forget(engine.run_id)
            self._threads.forget(engine.run_id)

    def _target(self, drive: Drive) -> str:
        if drive.at is None:
            return drive.thread_id or new_run_id()
        if drive.thread_id is None:
            raise OperationError(f"at={drive.at} is a checkpoint of a thread; give its thread_id")
        return self.fork(drive.thread_id, drive.at, None)

    async def _engine(
        self, thread: Thread, given: Any, drive: Drive, caller: Caller | None = None
    ) -> StepEngine:
        options = self._options(thread, drive, child=caller is not None)
        told: list[Told] = []
        if thread.last is None:
            plan = Plan(
                name=self.blueprint.name, budget=self._budget(drive.budget), limits=self.session.limits
            )
            parent, node = ("", "") if caller is None else (caller[0].run_id, caller[1])
            opening = Open(
                thread.id, plan, self.blueprint.plan, time=utc_now(), parent=parent, parent_node=node
            )
            told.append((opening, ()))
        waits = bool(thread.queue) and not thread.pending and (given is None or given is NEXT)
        if waits:
            given = next_input(thread)
            options = msgspec.structs.replace(options, queued=True)
        said = _said(given)
        answers: dict[str, dict[str, Any]] = {}
        if isinstance(said, Command):
            asked = self._asked(thread)
            told.append(telling.go_on(self.blueprint, thread, said, options, asked))
            answers = answers_below(telling.answers_of(thread, said.resume, asked), asked)
        elif drive.on_pending == "enqueue" and not waits and (thread.pending or thread.queue):
            told.append(telling.enqueue(self.blueprint, thread, said, options))
        else:
            told.append(await telling.new_input(self.blueprint, thread, said, options))
        engine = self._made(thread, drive, Beginning(*told), caller)
        engine.answers = answers
        engine.answered = isinstance(said, Command) and said.resume is not None
        return engine

    def _asked(self, thread: Thread) -> Sequence[Interrupt]:
        state = thread.machine.state
        return () if state.steps is None else interrupts_of(state, self._threads.state)

    def _made(
        self, thread: Thread, drive: Drive, beginning: Beginning, caller: Caller | None = None
    ) -> StepEngine:
        journal = held(thread.journal, drive.durability, drive.window)
        child = None
        if caller is not None:
            above, task = caller
            assert above.family.slots is not None
            child = Child(thread.id, above.run_id, task, above.family.slots)
        wiring = self.session.wiring(journal, RunOptions(child=child))
        engine = StepEngine(thread.id, self.blueprint, wiring, thread.machine)
        if thread.last is not None:
            engine.kernel.recovered(thread.last)
        engine.recovery = beginning
        engine.drive, engine.grant, engine.call = drive, drive.grant, self._call
        if caller is not None:
            engine.above, engine.depth = caller[0], caller[0].depth + 1
        engine.cache = cache_of(self.session.store)
        return engine

    # --- graphs that are nodes -----------------------------------------------------------------

    async def _call(self, engine: StepEngine, node: NodeState, turn: StepTurn) -> Any:
        """Call the graph of a task."""
        name = turn.task.node
        if name not in self._below:
            child = self.blueprint.nodes[name].child
            assert child is not None
            self._below[name] = Driver(child.blueprint(self.session), self.session, self._concurrency)
        return await call(self._below[name], engine, node, turn)

    async def child(
        self,
        above: StepEngine,
        task: str,
        thread: Thread,
        given: Any,
        limits: tuple[Budget, Mapping[str, float]],
    ) -> StepEngine:
        """The engine of a child that a task of ``above`` calls; it goes on as durably as its parent."""
        drive = msgspec.structs.replace(
            above.drive,
            thread_id=thread.id,
            on_pending="replace",
            budget=limits[0],
            grant=limits[1],
            interrupt_before=None,
            interrupt_after=None,
            at=None,
            rename={},
        )
        return await self._engine(thread, given, drive, (above, task))

    @property
    def threads(self) -> Threads:
        """The threads of the session's store."""
        return self._threads

    def _options(self, thread: Thread, drive: Drive, *, child: bool = False) -> telling.Options:
        blueprint, steps = self.blueprint, thread.machine.state.steps
        before, after = drive.interrupt_before, drive.interrupt_after
        for name in (*(before or ()), *(after or ())):
            if name != "*" and name not in blueprint.nodes:
                raise OperationError(
                    f"{name!r} is no node to stop at; there are {', '.join(blueprint.nodes)}"
                )
        fresh = self._budget(drive.budget)
        return telling.Options(
            before=blueprint.before if before is None else tuple(before),
            after=blueprint.after if after is None else tuple(after),
            replace=drive.on_pending == "replace",
            child=child,
            budget=None if thread.last is None or thread.machine.state.budget == fresh else fresh,
            grant=drive.grant,
            rename=drive.rename,
            plan=None if steps is None or steps.plan == blueprint.plan else blueprint.plan,
        )

    def _budget(self, given: Budget | None) -> Budget:
        """The limits of a run: its own, else those of the graph."""
        budget = given or Budget()
        if budget.concurrency == DEFAULT_CONCURRENCY:
            budget = msgspec.structs.replace(budget, concurrency=self._concurrency)
        else:
            budget = msgspec.structs.replace(budget, concurrency=resolved_concurrency(budget.concurrency))
        return msgspec.structs.replace(budget, steps=DEFAULT_STEPS) if budget.steps is None else budget

    def result(self, engine: StepEngine) -> StepResult:
        """What an engine that has run came to.

        Raises:
            JournalError, InternalError: the run halted.
        """
        if engine.kernel.fault is not None:
            raise engine.kernel.fault
        if not engine.reason:
            message = f"thread {engine.run_id} was closed without a result"
            raise InternalError(message)
        return result_of(self.blueprint, engine.state, self._threads.state)

    def drain(self, thread_id: str) -> bool:
        """Ask a live thread to stop at its next boundary; with a child, the whole tree stops."""
        for engine in self._live.values():
            if thread_id == engine.run_id or thread_id in engine.tree:
                engine.tell(Drain())
                return True
        return False

    def delete(self, thread_id: str) -> bool:
        """Remove a thread with its children; False if there is none."""
        if not self.session.store.exists(thread_id):
            return False
        # nobody, here or elsewhere, goes on with it meanwhile
        with self._threads.owned(thread_id, self.blueprint.name):
            pass
        delete(self._threads, thread_id)
        return True

    def clear_cache(self, nodes: Sequence[str] | None) -> int:
        """Forget what cached nodes of this graph wrote."""
        return cache_of(self.session.store).clear(self.blueprint.name, nodes)

    # --- looking and changing ------------------------------------------------------------------

    async def edit(self, thread_id: str, update: Any, as_node: str) -> StateSnapshot:
        """Change a stopped thread's state."""
        self._exists(thread_id)
        with self._threads.owned(thread_id, self.blueprint.name) as thread:
            told = await telling.edit(self.blueprint, thread, update, as_node)
            return await self._told(thread, told)

    async def resolve(self, thread_id: str, task: str, how: str, value: Any) -> StateSnapshot:
        """Decide about a refused write."""
        self._exists(thread_id)
        with self._threads.owned(thread_id, self.blueprint.name) as thread:
            return await self._told(thread, telling.resolve(self.blueprint, thread, task, how, value))

    async def _told(self, thread: Thread, told: Told) -> StateSnapshot:
        engine = self._made(thread, Drive(), Beginning(told))
        await engine.run()
        self.result(engine)
        records = thread.journal.read(0)
        return self._newest(thread.id, records, engine)

    def _newest(self, thread_id: str, records: Sequence[Record], engine: StepEngine) -> StateSnapshot:
        source, wall = _last_checkpoint(records)
        return snapshot(self.blueprint, engine.state, source, wall, below=self._threads.state)

    def snapshot(self, thread_id: str, at: int | None) -> StateSnapshot:
        """How a thread stands."""
        records = self._records(thread_id)
        if at is not None:
            for one in history(self.blueprint, records):
                if one.checkpoint == at:
                    return one
            raise OperationError(f"thread {thread_id} has no checkpoint {at}")
        source, wall = _last_checkpoint(records)
        state = self._threads.machine(thread_id, records).state
        return snapshot(self.blueprint, state, source, wall, below=self._threads.state)

    def history(self, thread_id: str) -> list[StateSnapshot]:
        """A snapshot for each checkpoint, oldest first."""
        return list(history(self.blueprint, self._records(thread_id)))

    def fork(self, thread_id: str, at: int | None, name: str | None) -> str:
        """Copy a thread's history up to a checkpoint into a new thread."""
        records = self._records(thread_id)
        shared = list(records) if at is None else upto(thread_id, records, at)
        store, new = self.session.store, name or f"{thread_id}.{new_run_id()[-6:]}"
        if store.exists(new):
            raise OperationError(f"there is a thread {new} already; give the fork another name")
        change = "" if at is None else f"goes on from checkpoint {at}"
        copied(store, thread_id, shared, new, change)
        copy_children(self._threads, thread_id, new)
        return new

    def rewind(self, run: str, checkpoint: int) -> None:
        """Let a child stand at a checkpoint, 0 being before its first input."""
        rewind(self._threads, run, checkpoint)

    def _exists(self, thread_id: str) -> None:
        if not self.session.store.exists(thread_id):
            raise OperationError(f"there is no thread {thread_id!r}")

    def _records(self, thread_id: str) -> Sequence[Record]:
        self._exists(thread_id)
        return self.session.store.records(thread_id)


def _said(given: Any) -> Command | Mapping[str, Any]:
    """An input, or what goes on with a thread.

    Raises:
        OperationError: it is neither.
    """
    if given is None:
        return Command()
    if isinstance(given, Answer | Answers):
        return Command(resume=given)
    if isinstance(given, Command):
        if given.also or given.graph is not None:
            raise OperationError(
                "who invokes a thread gives resume=, update= and goto=; also= and graph= are a node's"
            )
        return given
    if isinstance(given, Mapping):
        return given
    plain = msgspec.to_builtins(given)
    if not isinstance(plain, dict):
        raise OperationError(f"the input is a {type(given).__name__}; give a mapping of state keys")
    return plain


def _last_checkpoint(records: Sequence[Record]) -> tuple[str, int]:
    for record in reversed(records):
        for fact in reversed(record.facts):
            if isinstance(fact, CheckpointSaved):
                return fact.source, record.wall
    return "", 0
