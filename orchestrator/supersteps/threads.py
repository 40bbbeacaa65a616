"""Threads: the logs of stepped runs, one owner at a time, folded once while nobody else writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

from orchestrator.core.laws import check
from orchestrator.core.records import Record
from orchestrator.core.state import RunState
from orchestrator.core.supersteps.machine import SuperstepMachine
from orchestrator.errors import CorruptJournalError, OperationError, RunOwnedError
from orchestrator.journal import Journal
from orchestrator.journal.limits import run_fault
from orchestrator.runtime.stores import Store

__all__ = ["Thread", "Threads", "folded_log", "threads_of"]

_PAGE = 1_000
#: Machines of threads that were driven here and may be again; others are folded from their logs.
_REMEMBERED = 64


@dataclass(slots=True)
class Thread:
    """A thread that is owned.

    Attributes:
        machine: folded from the log. last: its last record, None for a new thread. epoch: owners so far.
    """

    id: str
    journal: Journal
    machine: SuperstepMachine
    last: Record | None
    epoch: int

    @property
    def checkpoint(self) -> int:
        """The number of its newest checkpoint, from 1; 0 if it has none."""
        steps = self.machine.state.steps
        return 0 if steps is None else steps.checkpoint

    @property
    def queue(self) -> tuple[bytes, ...]:
        """Inputs that wait."""
        steps = self.machine.state.steps
        return () if steps is None else steps.queue

    @property
    def pending(self) -> bool:
        """True if it has work left."""
        steps = self.machine.state.steps
        return steps is not None and bool(steps.open or steps.frontier)


class Threads:
    """The threads of one store."""

    def __init__(self, store: Store) -> None:
        self._store = ref(store)
        self._held: set[str] = set()
        #: thread -> its machine as this process left it, with its last record and its epoch
        self._known: dict[str, tuple[SuperstepMachine, Record, int]] = {}

    @property
    def store(self) -> Store:
        """Where the logs are."""
        store = self._store()
        assert store is not None, "whoever drives a thread holds its store"
        return store

    @contextmanager
    def owned(self, thread_id: str, name: str) -> Iterator[Thread]:
        """Own a thread, a new one if there is none of this id.

        Raises:
            RunOwnedError: somebody drives it, here or in another process.
            OperationError: its id is no id, or it is a run of a graph.
        """
        if fault := run_fault(thread_id):
            raise OperationError(f"thread_id: {fault}")
        with self.reserved(thread_id):
            thread = self._open(thread_id, name)
            try:
                yield thread
            finally:
                self._left(thread)
                self.store.close(thread_id)

    @contextmanager
    def reserved(self, thread_id: str) -> Iterator[None]:
        """Nobody else in this process has the thread.

        Raises:
            RunOwnedError: somebody has.
        """
        if thread_id in self._held:
            raise RunOwnedError(
                f"thread {thread_id} is being driven in this process; wait for it, or fork it"
            )
        self._held.add(thread_id)
        try:
            yield
        finally:
            self._held.discard(thread_id)

    def _open(self, thread_id: str, name: str) -> Thread:
        known = self._known.pop(thread_id, None)
        if known is None and not self.store.exists(thread_id):
            return Thread(thread_id, self.store.new(thread_id, name, ""), SuperstepMachine(), None, 1)
        journal, epoch = self.store.own(thread_id)
        try:
            if known is not None and known[2] + 1 == epoch and len(journal) == known[1].seq:
                return Thread(thread_id, journal, known[0], known[1], epoch)
            machine, last = folded_log(thread_id, journal)
        except BaseException:
            self.store.close(thread_id)
            raise
        return Thread(thread_id, journal, machine, last, epoch)

    def _left(self, thread: Thread) -> None:
        """Remember the machine, if what it knows is what is on record."""
        count = len(thread.journal)
        if not count:
            return
        last = thread.journal.read(count - 1, count)[0]
        if thread.machine.state.facts == last.last:
            self._known[thread.id] = (thread.machine, last, thread.epoch)
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]

    def machine(self, thread_id: str, records: Sequence[Record]) -> SuperstepMachine:
        """The machine of a thread as its records say; not to be driven."""
        known = self._known.get(thread_id)
        if known is not None and records and records[-1].seq == known[1].seq and thread_id not in self._held:
            return known[0]
        machine = SuperstepMachine()
        for record in records:
            machine.replay(record)
        return machine

    def state(self, thread_id: str) -> RunState | None:
        """The state of a thread as this process left it, else as its records say; None if there is none."""
        known = self._known.get(thread_id)
        if known is not None:
            return known[0].state
        if not self.store.exists(thread_id):
            return None
        return self.machine(thread_id, self.store.records(thread_id)).state

    def forget(self, thread_id: str) -> None:
        """A thread's log has changed otherwise than by an owner."""
        self._known.pop(thread_id, None)


_stores: WeakKeyDictionary[Store, Threads] = WeakKeyDictionary()


def threads_of(store: Store) -> Threads:
    """The threads of a store: one register, however many graphs use it."""
    threads = _stores.get(store)
    if threads is None:
        threads = _stores[store] = Threads(store)
    return threads


def folded_log(thread_id: str, journal: Journal) -> tuple[SuperstepMachine, Record | None]:
    """The machine of a log.

    Raises:
        OperationError: it is a run of a graph. CorruptJournalError: it breaks a law.
    """
    machine, last = SuperstepMachine(), None
    for start in range(0, len(journal), _PAGE):
        for record in journal.read(start, start + _PAGE):
            machine.replay(record)
            last = record
    state = machine.state
    if last is not None and state.steps is None:
        raise OperationError(
            f"run {thread_id} is a run of a graph, not a thread; resume it with session.resume"
        )
    if broken := check(state, folded=True):
        raise CorruptJournalError(f"thread {thread_id}: what is recorded breaks a law: {broken[0]}")
    return machine, last
