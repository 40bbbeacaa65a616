"""One run: its kernel, its workers, its timers, and what happens when facts are durable."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import ClassVar

import anyio
from anyio import CancelScope, Event, create_task_group, get_cancelled_exc_class
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from emissions import Accepted, Emission, Receipt, Refused, stamp
from orchestrator.agents.secrecy import redacted
from orchestrator.core.commands import (
    Answer,
    AttemptStopped,
    Cancel,
    Command,
    Elapsed,
    Emit,
    Note,
    Start,
)
from orchestrator.core.control import EXPIRED
from orchestrator.core.machine import GraphMachine
from orchestrator.core.spec import UNLIMITED, Definition
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import TERMINAL, RunReason, Status
from orchestrator.journal.runlog import RunLog
from orchestrator.runtime.bodies import Bodies, hooked
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.effects import Effects
from orchestrator.runtime.envelopes import Envelope
from orchestrator.runtime.kernel import Halted, Kernel
from orchestrator.runtime.listening import listen
from orchestrator.runtime.outcomes import incoming, judge_known, returned
from orchestrator.runtime.planning import Prepared
from orchestrator.runtime.recovery import GoingOn
from orchestrator.runtime.reusing import Outcome
from orchestrator.runtime.threads import loop_token
from orchestrator.runtime.timers import Timers
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.wiring import Family, Wiring
from orchestrator.runtime.workers import Workers

__all__ = ["Engine"]

_NO_VALUES: tuple[bytes, ...] = ()


class Engine:
    """Runs one prepared graph. All of its tasks live in the task group of :meth:`run`."""

    _planned: frozenset[str] = frozenset()
    #: what a stepped run has more of
    effects_type: ClassVar[type[Effects]] = Effects
    workers_type: ClassVar[type[Workers]] = Workers
    turn_type: ClassVar[type[RoleTurn]] = RoleTurn

    def __init__(
        self,
        run_id: str,
        prepared: Prepared,
        wiring: Wiring,
        definition: Definition | None = None,
        machine: GraphMachine | None = None,
    ) -> None:
        """Nothing starts before :meth:`run`. ``machine``: of a run that goes on, folded from its records."""
        self.run_id = run_id
        self.prepared = prepared
        self._effects = self.effects_type(self)
        self.kernel = Kernel(wiring.journal, self._effects.release, self._halt, wiring.clock, machine)
        self.state: RunState = self.kernel.state
        self.workers = self.workers_type(self)
        self.timers = Timers(self._fire)
        self.bus = wiring.bus
        self.branches = wiring.branches
        self.handlers, self.on_settle = wiring.handlers, wiring.on_settle
        self.folder = wiring.folder / run_id
        self.tools = wiring.tools
        self.grace = wiring.grace
        self.providers, self.model = wiring.providers, wiring.model
        #: the runs that include it and that it includes
        self.family = Family(wiring, self._limit if prepared.flows else None)
        self.random = random.Random(wiring.seed)  # noqa: S311 (jitter, not secrets)
        self.reducers, self.returns = prepared.reducers, prepared.returns
        self.predicates = prepared.predicates
        #: no hook of any kind looks at a node that settles: the common, short way
        self.plain = self.on_settle is None and not hooked(prepared)
        self.bodies, self.returned = Bodies(self, prepared), returned
        self.free_verbs = prepared.free_verbs
        #: a commit costs more than a turn of the loop: what one turn settles is one batch
        self.batches = isinstance(wiring.journal, RunLog)
        self.context = copy_context()
        self.log = logging.getLogger("callboard.run")
        self.now = anyio.current_time
        self.closed = False
        self.finished: Event | None = None
        self.published = 0
        self.waits_for_answers = wiring.waits_for_answers
        #: where the run's functions come from, as its first record says
        self.definition = definition or Definition()
        #: what a run that goes on starts from; None begins a new one
        self.recovery: GoingOn | None = None
        #: outcomes of an earlier run that equal nodes take, by content key
        self.reuse: Mapping[str, Outcome] = {}
        self.watchers: list[Event] = []
        self._group: TaskGroup | None = None
        self._timing = False
        self.own = False

    @property
    def planned(self) -> frozenset[str]:
        """Names of nodes that did not grow."""
        operations = self.state.plan.operations
        if len(operations) != len(self._planned):
            self._planned = frozenset(operation.name for operation in operations)
        return self._planned

    def _limit(self) -> int:
        return self.state.budget.concurrency or UNLIMITED

    # --- the run's life ------------------------------------------------------------------------

    async def run(self) -> None:
        """Drive the run until it has ended, is suspended or has halted; leaves no task behind."""
        self.token = loop_token()
        self.thread = threading.get_ident()
        self.finished = Event()
        try:
            async with create_task_group() as group:
                self._group = group
                try:
                    self._begin()
                    # a driver that is cancelled already starts no body, on either backend
                    await checkpoint_if_cancelled()
                    self.workers.enter(group)
                    if isinstance(self.kernel.journal, RunLog):
                        group.start_soon(listen, self, self.kernel.journal, name="callboard requests")
                    await self.finished.wait()
                except get_cancelled_exc_class():
                    self.abort("the task that drives the run was cancelled")
                    raise
                finally:
                    if self.closed:
                        group.cancel_scope.cancel()
        finally:
            self._group = None
            self.workers.leave()
            with CancelScope(shield=True):
                await self._settle_rest()
            self.closed = True
            self.wake_watchers()

    def _begin(self) -> None:
        if self.recovery is not None:
            self.recovery.go_on(self)
            return
        prepared = self.prepared
        start = Start(
            self.run_id,
            prepared.plan,
            prepared.known,
            judge_known(self) if prepared.known and self.predicates else {},
            waits_for_answers=self.waits_for_answers,
            time=utc_now(),
            definition=self.definition,
            parent=self.family.parent,
            parent_node=self.family.node,
            # in the same record: a run that was killed has its notes or has not begun
            steers=tuple(Note(text, time or utc_now()) for text, time in prepared.steers),
        )
        self.tell(start, prepared.values)
        limit = prepared.plan.budget.wall_clock
        if limit is not None and not self.closed:
            self.set_timer(limit, "wall_clock", None, 0)

    async def _settle_rest(self) -> None:
        """Whatever way the tasks ended: nothing is left running, and the last facts are durable."""
        if not self.closed and self.kernel.fault is None:
            self.abort("the run's tasks ended")
            for node in list(self.state.nodes.values()):
                if node.status is Status.STOPPING:
                    self.tell(AttemptStopped(node.op.name, node.attempt))
        with anyio.move_on_after(self.grace):
            try:
                await self.kernel.durable(self.kernel.submitted)
            except Halted:
                return

    def abort(self, detail: str) -> None:
        """Cancel the run because its driver is being cancelled."""
        if not self.closed and not self.state.cancelling:
            self.tell(Cancel(reason=detail))

    def cancelled_from_outside(self) -> bool:
        """True if the driving task is being cancelled, rather than one attempt."""
        return (
            self._group is None
            or self._group.cancel_scope.cancel_called
            or (anyio.current_effective_deadline() == -float("inf"))
        )

    # --- commands ------------------------------------------------------------------------------

    def tell(self, command: Command, values: Sequence[bytes] = _NO_VALUES) -> Sequence[Receipt]:
        """Submit a command from the loop's thread; a run that is over takes none.

        Returns:
            The receipts of the decision; one ``not_running`` if the run is over.
        """
        if self.closed or self.kernel.fault is not None:
            return (Refused("not_running", f"run {self.run_id} is over"),)
        try:
            return self.kernel.submit(command, values).receipts
        except Halted:
            return (Refused("not_running", f"run {self.run_id} has halted"),)

    def settle(self, command: Command, values: Sequence[bytes]) -> None:
        """``tell`` for a worker that looks at the deque itself right after."""
        if self.closed:
            return
        self.own = True
        try:
            self.kernel.submit(command, values, defer=self.batches)
        finally:
            self.own = False

    def ask(self, command: Command, values: Sequence[bytes] = _NO_VALUES) -> Receipt:
        """Submit a command of somebody who cannot wait; answered when it is durable."""
        receipts = self.tell(command, values)
        if self.kernel.acknowledged < self.kernel.submitted:
            self.kernel.journal.flush()
        return receipts[-1] if receipts else Accepted()

    def emit(self, node: NodeState, turn: RoleTurn, emission: Emission) -> Receipt:
        """A running node's emission; the receipt is given out by the caller when it is durable.

        The instance is marked with its turn: met again in the value, it is known.
        """
        if not hasattr(type(emission), "emission_kind"):
            # isinstance costs more than the rest of this method: pydantic's metaclass answers it in Python
            message = f"turn.emit takes an emission, not {type(emission).__name__}"
            raise TypeError(message)
        values: list[bytes] = []
        one, proposals = incoming(self, node, emission, values, "call")
        decision = self.kernel.submit(Emit(node.op.name, turn.attempt, one, proposals), values)
        if not decision.facts:
            # answered without a record, it counts all the same: a flood of refusals lets the loop live
            self.published += 1
        stamp(emission, turn)
        return decision.receipts[0]

    def emit_now(self, node: NodeState, turn: RoleTurn, emission: Emission) -> Receipt:
        """``emit`` for a role in a thread: returns when the receipt is durable."""
        receipt = self.emit(node, turn, emission)
        if self.kernel.acknowledged < self.kernel.submitted:
            self.kernel.journal.flush()
        return receipt

    def stopped(self, node: NodeState, turn: RoleTurn, *, ignored: bool) -> None:
        """An attempt has stopped because it, or the whole run, was cancelled."""
        if self.closed or node.status in TERMINAL:
            return
        if node.status is Status.RUNNING:
            self.abort("the task that drives the run was cancelled")
        detail = f"it went on for {self.grace} s after it was told to stop" if ignored else ""
        if self.bodies.on_thread(node):
            ignored, detail = True, "its thread goes on until the function returns; what it gives is dropped"
        word = "ignored" if ignored else "stopped"
        self.tell(AttemptStopped(node.op.name, turn.attempt, word, detail, turn.usage))

    # --- what a worker asks --------------------------------------------------------------------

    def role_of_node(self, node: str) -> str | None:
        """The name of a node's role."""
        known = self.state.nodes.get(node)
        return None if known is None else known.op.role

    def progress(self, node: NodeState, attempt: int, text: str) -> None:
        """Say on the notice lane what a node reports; not journaled."""
        if not self.bus.silent and not self.closed:
            data = {"text": redacted(text)}
            envelope = Envelope(
                self.run_id,
                None,
                "NodeProgress",
                node=node.op.name,
                attempt=attempt,
                role=node.op.role,
                cause=node.started_seq,
                at=utc_now(),
                data=data,
            )
            self.bus.publish(self, envelope)

    # --- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """The run has ended or is suspended: nothing goes on."""
        self.closed = True
        if self.finished is not None:
            self.finished.set()

    def _halt(self) -> None:
        """The journal failed or a decision did: nothing more starts, what runs is cancelled."""
        self.closed = True
        self.workers.starts.clear()
        self.log.error("run %s halted: %s", self.run_id, self.kernel.fault)
        if self.finished is not None:
            self.finished.set()
        if self._group is not None:
            self._group.cancel_scope.cancel()
        self.wake_watchers()

    # --- timers and watchers -------------------------------------------------------------------

    def set_timer(self, seconds: float, timer: str, node: str | None, attempt: int, key: str = "") -> None:
        """Set a timer; the task that serves them begins with the first."""
        self.timers.add(seconds, timer, node, attempt, key)
        if not self._timing and self._group is not None:
            self._timing = True
            self._group.start_soon(self.timers.run, name="callboard timers")

    def _fire(self, timer: str, node: str | None, attempt: int, key: str) -> None:
        if timer == "question":
            self._expire(node or "", key)
        else:
            asks = attempt if timer == "deadline" else 0
            self.tell(Elapsed(timer, node, attempt, asks))

    def _expire(self, node: str, key: str) -> None:
        question = (self.state.nodes[node].questions or {}).get(key)
        if question is not None and question.answer is None:
            default = question.default or b"null"
            self.tell(Answer(node, key, 0, EXPIRED, "nobody answered in time"), (default,))

    async def grown(self, seen: int) -> bool:
        """Wait until the log holds more than ``seen`` records; False if it never will."""
        while len(self.kernel.journal) <= seen:
            if self.closed and self._group is None:
                return False
            event = Event()
            self.watchers.append(event)
            await event.wait()
        return True

    def wake_watchers(self) -> None:
        """Tell whoever reads the log that it grew."""
        watchers, self.watchers = self.watchers, []
        for event in watchers:
            event.set()

    @property
    def reason(self) -> str:
        """Why the run stopped; empty while it is live."""
        if self.kernel.fault is not None:
            return RunReason.NEEDS_RECOVERY
        return self.state.ended or self.state.suspended
