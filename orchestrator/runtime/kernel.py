"""The one lock. Under it, and nowhere else: number the command, decide, apply, hand the facts over.

Nothing awaits while the lock is held, and nothing of a decision takes effect before the journal has
acknowledged it. ``submit`` may be called on the loop's thread only; other threads come through
``Run.inject`` and its like, which call on the loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from anyio import Event
from msgspec import Raw

from orchestrator.core.commands import Command
from orchestrator.core.decisions import Decision
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record
from orchestrator.core.state import RunState
from orchestrator.core.story import story
from orchestrator.errors import InternalError, OrchestratorError
from orchestrator.journal import Journal

__all__ = ["Halted", "Kernel"]


class Halted(OrchestratorError):  # noqa: N818 (it is named for what happened)
    """Raised on every further command after the run halted; nobody outside the runtime sees it."""


class Kernel:
    """One run's decisions, in one order.

    Attributes:
        state: what is true now, including what is not yet durable.
        fault: why the run halted as ``needs_recovery``, or None.
        acknowledged: number of the last durable record.
    """

    __slots__ = (
        "_in_flight",
        "_lock",
        "_machine",
        "_outbox",
        "_pumping",
        "_release",
        "_seq",
        "_shift",
        "_waiters",
        "acknowledged",
        "clock",
        "fault",
        "journal",
        "on_halt",
        "state",
    )

    def __init__(
        self,
        journal: Journal,
        release: Callable[[Record], None],
        on_halt: Callable[[], None],
        clock: Callable[[], int] = time.monotonic_ns,
        machine: GraphMachine | None = None,
    ) -> None:
        """Begin with an empty run.

        Args:
            journal: keeps the records. release: carries out a durable record's effects; runs no user code.
            on_halt: called once when the run halts. clock: monotonic nanoseconds.
            machine: of a run that goes on, folded from its records; call :meth:`recovered` then.
        """
        self._machine = machine or GraphMachine()
        self.state: RunState = self._machine.state
        self._lock = threading.Lock()
        self.journal = journal
        self.clock = clock
        self.fault: BaseException | None = None
        self.acknowledged = 0
        self._release = release
        self.on_halt = on_halt
        self._seq = 0
        #: from the process's clock to the run's active time
        self._shift = -clock()
        self._outbox: list[Record] = []
        self._in_flight: Sequence[Record] = ()
        self._pumping = False
        self._waiters: dict[int, Event] = {}

    def submit(self, command: Command, values: Sequence[bytes] = (), *, defer: bool = False) -> Decision:
        """Decide a command. Its effects follow when the journal has acknowledged it.

        Args:
            defer: the record waits in the next batch until somebody calls :meth:`pump`, so that what one
                turn of the loop decides is one transaction. Whoever defers must pump.

        Raises:
            Halted: the run has halted before.
            InternalError: the decision failed, which halts the run.
        """
        if self.fault is not None:
            raise Halted(str(self.fault))
        with self._lock:
            first = self.state.facts + 1
            try:
                decision = self._machine.handle(command, self.clock() + self._shift, values)
            except Exception as error:
                self._halt(self._bug(command, error))
                raise Halted(str(error)) from error
            except BaseException as error:
                # a signal in the middle of a decision: half of it may have been applied, none is recorded
                self._halt(error)
                raise
            facts = decision.facts
            if facts:
                self._seq += 1
                values = decision.values
                raw = [Raw(values[0])] if len(values) == 1 else [Raw(value) for value in values]
                wall = time.time_ns()
                self._outbox.append(
                    Record(self._seq, first, decision.at, command, facts, raw, decision.cause, wall)
                )
        if not defer and not self._pumping and not self._in_flight:
            self._pump()
        return decision

    @property
    def waiting(self) -> bool:
        """True if deferred records wait for :meth:`pump`."""
        return bool(self._outbox) and not self._in_flight and self.fault is None

    def pump(self) -> None:
        """Hand over what was deferred."""
        if self._outbox and not self._pumping and not self._in_flight:
            self._pump()

    def recovered(self, last: Record) -> None:
        """Go on behind a run's last record, up to which its machine was folded. Before any command.

        Nothing of it is decided or carried out again; the run's active time goes on from there.
        """
        self._seq = self.acknowledged = last.seq
        self._shift = last.at - self.clock()

    @property
    def submitted(self) -> int:
        """Number of the last record that was decided."""
        return self._seq

    async def durable(self, seq: int) -> None:
        """Wait until record ``seq`` is acknowledged.

        Raises:
            Halted: the run halted before.
        """
        while self.acknowledged < seq and self.fault is None:
            event = self._waiters.get(seq)
            if event is None:
                event = self._waiters[seq] = Event()
            await event.wait()
        if self.fault is not None and self.acknowledged < seq:
            raise Halted(str(self.fault))

    def _pump(self) -> None:
        """Hand over batches while the journal answers at once; a later answer goes on from here."""
        self._pumping = True
        try:
            while self._outbox and not self._in_flight and self.fault is None:
                batch = self._in_flight = self._outbox
                self._outbox = []
                try:
                    self.journal.submit(batch, self._done)
                except Exception as error:  # noqa: BLE001 (it promised not to: it has failed)
                    self._done(error)
        finally:
            self._pumping = False

    def _done(self, error: BaseException | None = None) -> None:
        batch, self._in_flight = self._in_flight, ()
        if error is not None:
            self._halt(error)
            return
        if self.fault is not None:
            return
        release = self._release
        for record in batch:
            self.acknowledged = record.seq
            release(record)
        if self._waiters:
            self._wake(self.acknowledged)
        if self._outbox and not self._pumping:
            self._pump()

    def _wake(self, upto: int | None) -> None:
        for seq in [seq for seq in self._waiters if upto is None or seq <= upto]:
            self._waiters.pop(seq).set()

    def _halt(self, error: BaseException) -> None:
        """Nothing more is decided or started; whoever waits for an answer is let go."""
        if self.fault is not None:
            return
        self.fault = error
        self._outbox.clear()
        self._wake(None)
        self.on_halt()

    def _bug(self, command: Command, error: Exception) -> InternalError:
        """The error of a decision that failed, with the story of the node that it was about."""
        node = getattr(error, "node", None) or getattr(command, "node", None)
        told = () if node is None else tuple(story(self._known(), node))
        what = getattr(error, "what", str(error))
        bug = InternalError(
            f"{type(command).__name__} could not be decided: {type(error).__name__}: {what}", told
        )
        bug.__cause__ = error
        return bug

    def _known(self) -> list[Record]:
        """Every record, durable or not; what the journal cannot give now is left out."""
        try:
            known = {record.seq: record for record in self.journal.read(0)}
        except Exception:  # noqa: BLE001 (the bug is what has to be told)
            known = {}
        known |= {record.seq: record for record in (*self._in_flight, *self._outbox)}
        return [known[seq] for seq in sorted(known)]
