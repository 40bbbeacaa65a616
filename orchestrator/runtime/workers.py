"""Pooled workers: they pop started attempts from a deque and run bodies, without a task per node.

One CancelScope per worker: stopping an attempt cancels its worker's scope, the worker ends and is
replaced when there is work. A scope per attempt is opened only where a timeout is set. A new worker
starts when none is idle, so the pool is never a second concurrency limit (engine.md 2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from anyio import CancelScope, Event
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from orchestrator.core.commands import AttemptStopped, Finish
from orchestrator.core.state import NodeState
from orchestrator.core.status import Status
from orchestrator.runtime.drive import Cancelled, Outcome, Raised, Returned, Suspended, resume, start
from orchestrator.runtime.kernel import Halted
from orchestrator.runtime.outcomes import failed
from orchestrator.runtime.preparing import leave_branch, needs_preparation, prepare
from orchestrator.runtime.reusing import content_key, finish_with
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.wiring import HELD

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["Started", "WorkerLost", "Workers"]

#: After so many published facts the engine yields to the loop once, counted over all workers.
_YIELD_EVERY = 256

#: One attempt that was started: the node and the attempt's number.
Started = tuple[NodeState, int]


class WorkerLost(Exception):  # noqa: N818 (the error type that the node shows)
    """An attempt whose worker ended under it."""


class Workers:
    """The pool of one run."""

    __slots__ = ("_engine", "_group", "_idle", "_summoned", "active", "busy_until", "starts")

    def __init__(self, engine: Engine) -> None:
        """``engine`` is the run that the pool works for."""
        self._engine = engine
        self._group: TaskGroup | None = None
        self.starts: deque[Started] = deque()
        self._idle: list[Event] = []
        #: a worker was woken or begun and has not looked at the deque yet
        self._summoned = False
        #: running attempts by node, with the turn and the scope that stops it
        self.active: dict[str, tuple[RoleTurn, CancelScope]] = {}
        #: number of published facts after which the loop is due, whoever published them
        self.busy_until = _YIELD_EVERY

    def enter(self, group: TaskGroup) -> None:
        """Work in ``group`` from now on."""
        self._group = group
        if self.starts:
            self.summon()

    def leave(self) -> None:
        """The group is closed: what a late answer of the journal still lets start, nobody starts."""
        self._group = None
        self.starts.clear()

    def summon(self) -> None:
        """See to it that some worker will look at the deque."""
        if self._summoned or self._group is None:
            return
        self._summoned = True
        if self._idle:
            self._idle.pop().set()
        else:
            self._group.start_soon(self._work, name="callboard worker")

    async def _work(self) -> None:
        engine, starts = self._engine, self.starts
        try:
            with CancelScope() as scope:
                while not engine.closed:
                    self._summoned = False
                    if not await self._drained(scope):
                        return
                    if engine.kernel.waiting:
                        # whoever else settles something in this turn is in the same transaction
                        await checkpoint()
                        # what this lets start this worker looks at itself, right after: nobody else is called
                        self._summoned = True
                        engine.kernel.pump()
                    elif not starts:
                        await self._idled()
        except Halted:
            return
        finally:
            engine.kernel.pump()
            # what this worker's last attempt let start was left to it: somebody else must look now
            if starts and not engine.closed:
                self.summon()

    async def _drained(self, scope: CancelScope) -> bool:
        """Work until the deque is empty; False if the worker must end."""
        engine, starts = self._engine, self.starts
        while starts:
            node, attempt = starts.popleft()
            if starts:
                self.summon()
            again = self._attempt(node, attempt, scope)
            if again is not True and (again is False or not await again):
                return False
            if engine.published >= self.busy_until:
                await self.breathe()
        return True

    async def breathe(self) -> None:
        """Let taps and whoever else is ready have the loop."""
        self._engine.kernel.pump()
        self.busy_until = self._engine.published + _YIELD_EVERY
        await checkpoint()

    async def _idled(self) -> None:
        """Wait to be summoned."""
        event = Event()
        self._idle.append(event)
        try:
            await event.wait()
        finally:
            if not event.is_set() and event in self._idle:
                self._idle.remove(event)

    def _attempt(self, node: NodeState, attempt: int, scope: CancelScope) -> bool | Coroutine[Any, Any, bool]:
        """Run one attempt: at once if its body never suspends, else as the coroutine that is returned.

        Either way the outcome says whether the worker may go on.
        """
        engine = self._engine
        if node.attempt != attempt or node.status is not Status.RUNNING:
            engine.settle(AttemptStopped(node.op.name, attempt, "never_started"), ())
            return True
        turn = engine.turn_type(engine, node, attempt)
        if engine.reuse and self._reused(node, attempt):
            return True
        if node.op.timeout is not None or needs_preparation(engine, node):
            if engine.kernel.waiting:
                self.summon()
            return self._guarded(node, turn, scope, None)
        try:
            first = start(engine.bodies.of(node)(turn), engine.context.copy())
        except Exception as error:  # noqa: BLE001 (no body could be made: the node's failure, by name)
            return self._settle(node, turn, Raised(error), scope)
        if type(first) is Suspended:
            if engine.kernel.waiting:
                # this worker is busy from here on: another one hands over what was settled in this turn
                self.summon()
            return self._guarded(node, turn, scope, first)
        return self._settle(node, turn, first, scope)  # type: ignore[arg-type]

    def _reused(self, node: NodeState, attempt: int) -> bool:
        """Settle a node with the outcome of an equal one of an earlier run; False if there is none."""
        engine = self._engine
        key = content_key(engine.state, node, engine.reducers)
        outcome = None if key is None else engine.reuse.get(key)
        if outcome is None:
            return False
        command, values = finish_with(node, attempt, outcome)
        engine.settle(command, values)
        return True

    async def _guarded(
        self, node: NodeState, turn: RoleTurn, scope: CancelScope, suspended: Suspended | None
    ) -> bool:
        """Run an attempt that awaits something; whatever happens to the worker, it is settled."""
        engine = self._engine
        settled = False
        try:
            if (
                suspended is None
                and needs_preparation(engine, node)
                and not await prepare(engine, node, turn)
            ):
                settled = True
                return not scope.cancel_called
            if suspended is not None:
                outcome, timed_out = await self._resumed(suspended, turn, scope), False
            else:
                outcome, timed_out = await self._limited(node, turn, scope)
            settled = True
            return self._settle(node, turn, outcome, scope, timed_out=timed_out)
        except Halted:
            settled = True
            return False
        except Exception as error:  # noqa: BLE001 (preparing failed: the node's failure, by name)
            settled = True
            return self._settle(node, turn, Raised(error), scope)
        finally:
            if not settled:
                self._lost(node, turn)
            leave_branch(engine, turn)

    async def _resumed(self, suspended: Suspended, turn: RoleTurn, scope: CancelScope) -> Outcome:
        """Go on with a body that awaits something; it can be stopped from here on."""
        name = turn.node
        self.active[name] = (turn, scope)
        if turn.stopping:
            # it was told to stop before it could be: by its own body, before that awaited anything
            scope.cancel()
        try:
            return await resume(suspended, scope=scope, grace=self._engine.grace)
        finally:
            del self.active[name]

    async def _limited(self, node: NodeState, turn: RoleTurn, worker: CancelScope) -> tuple[Outcome, bool]:
        """Run a body from its start, under a scope of its own where the node has a timeout.

        Returns:
            The outcome, and whether the timeout is what ended it.
        """
        engine = self._engine
        timeout = node.op.timeout
        coro, context = engine.bodies.of(node)(turn), engine.context.copy()
        if timeout is None:
            first = start(coro, context)
            return (
                await self._resumed(first, turn, worker) if isinstance(first, Suspended) else first
            ), False
        turn.deadline = engine.now() + timeout
        with CancelScope(deadline=turn.deadline) as scope:
            turn.scope = scope
            first = start(coro, context)
            if not isinstance(first, Suspended):
                return first, False
            outcome = await self._resumed(first, turn, scope)
        return outcome, scope.cancel_called and node.status is Status.RUNNING

    def _settle(
        self,
        node: NodeState,
        turn: RoleTurn,
        outcome: Outcome,
        scope: CancelScope,
        *,
        timed_out: bool = False,
    ) -> bool:
        """Settle an attempt by its outcome; False if the worker must end."""
        engine = self._engine
        if timed_out and not scope.cancel_called:
            self._out_of_time(node, turn, outcome)
        elif type(outcome) is Returned and outcome.value is HELD:
            pass  # its child run is suspended: the attempt was given back by that
        elif type(outcome) is Returned:
            command, values = engine.returned(engine, node, turn, outcome.value)
            engine.settle(command, values)
        elif isinstance(outcome, Raised):
            command, values = failed(engine, node, turn, outcome.error)
            engine.settle(command, values)
            if outcome.stray:
                return False
        else:
            ignored = isinstance(outcome, Cancelled) and outcome.ignored
            engine.stopped(node, turn, ignored=ignored)
        return not scope.cancel_called

    def _out_of_time(self, node: NodeState, turn: RoleTurn, outcome: Outcome) -> None:
        """Fail an attempt by its timeout; what its body gave all the same is on record as stale."""
        engine = self._engine
        error = TimeoutError(f"the attempt took longer than {node.op.timeout} s")
        command, values = failed(engine, node, turn, error)
        engine.settle(command, values)
        if not isinstance(outcome, Cancelled):
            word = "completed" if isinstance(outcome, Returned) else "failed"
            engine.tell(Finish(node.op.name, turn.attempt, word))

    def _lost(self, node: NodeState, turn: RoleTurn) -> None:
        """The worker ends with its attempt unsettled: by the run's end, or by something unforeseen."""
        engine = self._engine
        if engine.closed or engine.cancelled_from_outside():
            engine.stopped(node, turn, ignored=False)
            return
        command, values = failed(engine, node, turn, WorkerLost("its worker ended"), "worker_lost")
        engine.settle(command, values)
