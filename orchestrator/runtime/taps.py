"""Taps: observers with a bounded buffer of their own each. None can fail, slow or change a run.

A record is taken or skipped whole, and always taken when the buffer is empty. ``drop_newest``: on
overflow new records are skipped until the buffer has drained, then one ``Missed`` tells which.
``drop_oldest``: the oldest records make room, and ``Missed`` stands before the next one.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from inspect import iscoroutinefunction
from math import inf
from typing import Any, Final, Literal, cast

from anyio import Event, current_effective_deadline, get_cancelled_exc_class, move_on_after

from orchestrator.core.records import Record
from orchestrator.errors import OperationError
from orchestrator.runtime.envelopes import Envelope, Source, envelopes_of

__all__ = ["DEFAULT_BUFFER", "DRAIN_SECONDS", "Overflow", "Receiver", "Tap", "drain"]

#: Pending facts that a tap may have before it skips records.
DEFAULT_BUFFER: Final = 65_536
#: Seconds that a tap has to drain when its session closes.
DRAIN_SECONDS: Final = 1.0
MISSED: Final = "Missed"

Overflow = Literal["drop_oldest", "drop_newest"]
Receiver = Callable[[Envelope], Awaitable[Any] | Any]
#: What waits in a buffer: a record of a run, or an envelope that is ready (progress, a gap).
Item = tuple[Source, Record] | Envelope

_log = logging.getLogger("callboard.bus")


class _Buffer:
    """Records of runs up to a number of facts, and what had to be skipped."""

    __slots__ = ("drop_oldest", "gaps", "items", "limit", "pending", "skipping")

    def __init__(self, limit: int, *, drop_oldest: bool) -> None:
        self.limit = limit
        self.drop_oldest = drop_oldest
        self.items: deque[Item] = deque()
        self.pending = 0
        self.skipping = False
        #: run -> first and last fact that was skipped since the last Missed
        self.gaps: dict[Source, tuple[int, int]] = {}

    def put(self, sender: Source, record: Record) -> None:
        """Take a record, or skip it."""
        size = len(record.facts)
        if self.items:
            if self.skipping or self.pending + size > self.limit:
                if not self.drop_oldest:
                    self.skipping = True
                    self._skip(sender, record)
                    return
                while self.items and self.pending + size > self.limit:
                    self._drop()
        elif self.gaps:
            self.tell_gaps()
        self.items.append((sender, record))
        self.pending += size

    def put_envelope(self, envelope: Envelope) -> None:
        """Take progress if there is room; it is best effort and leaves no gap."""
        if self.pending < self.limit:
            self.items.append(envelope)
            self.pending += 1

    def tell_gaps(self) -> None:
        """What was skipped is told before what comes next."""
        gaps, self.gaps, self.skipping = self.gaps, {}, False
        told = [_missed(run, first, last) for run, (first, last) in gaps.items()]
        if self.drop_oldest:
            self.items.extendleft(reversed(told))
        else:
            self.items.extend(told)
        self.pending += len(told)

    def _drop(self) -> None:
        item = self.items.popleft()
        if isinstance(item, Envelope):
            self.pending -= 1
        else:
            self.pending -= len(item[1].facts)
            self._skip(*item)

    def _skip(self, sender: Source, record: Record) -> None:
        first = self.gaps.get(sender, (record.first, 0))[0]
        self.gaps[sender] = (first, record.last)

    def take(self, kinds: frozenset[str] | None) -> list[Envelope] | None:
        """The envelopes of the next item, or None if there is none."""
        if self.gaps and (self.drop_oldest or not self.items):
            self.tell_gaps()
        if not self.items:
            return None
        item = self.items.popleft()
        if type(item) is not tuple:
            item = cast("Envelope", item)
            self.pending -= 1
            return [item] if kinds is None or item.kind in kinds or item.kind == MISSED else []
        sender, record = item
        self.pending -= len(record.facts)
        return envelopes_of(sender, record, kinds)


class Tap:
    """One observer of a session's runs."""

    def __init__(
        self,
        receiver: Receiver,
        kinds: Iterable[str] | None = None,
        buffer: int = DEFAULT_BUFFER,
        overflow: Overflow = "drop_newest",
    ) -> None:
        """Make a tap.

        Args:
            receiver: called with each Envelope; an ``async def`` runs on the loop, a plain function on one
                daemon thread of its own. kinds: only these; None is all. buffer: pending facts.
            overflow: ``drop_newest`` or ``drop_oldest``.

        Raises:
            OperationError: an unknown overflow policy or a buffer below 1.
        """
        if overflow not in ("drop_oldest", "drop_newest"):
            message = f"overflow is {overflow!r}; give 'drop_oldest' or 'drop_newest'"
            raise OperationError(message)
        if buffer < 1:
            message = f"buffer is {buffer}; a tap needs room for at least 1 fact"
            raise OperationError(message)
        self.receiver = receiver
        self.kinds = None if kinds is None else frozenset(kinds)
        self.threaded = not (iscoroutinefunction(receiver) or iscoroutinefunction(type(receiver).__call__))
        self.closed = False
        self._buffer = _Buffer(buffer, drop_oldest=overflow == "drop_oldest")
        self._arrived: Event | None = None
        self._lock = threading.Lock()
        self._bell: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._complained = False

    # --- the kernel's side ---------------------------------------------------------------------

    def receive(self, sender: Source, item: Record | Envelope) -> None:
        """Take one item, or skip it. Called by blinker on the loop's thread; never waits."""
        if self.closed:
            return
        if self.threaded:
            with self._lock:
                self._put(sender, item)
            self._bell.put(True)
            return
        buffer = self._buffer
        # not isinstance: a struct's metaclass makes that several times as slow
        if type(item) is Record and not buffer.gaps and buffer.pending + len(item.facts) <= buffer.limit:
            buffer.items.append((sender, item))
            buffer.pending += len(item.facts)
        else:
            self._put(sender, item)
        if self._arrived is not None:
            arrived, self._arrived = self._arrived, None
            arrived.set()

    def _put(self, sender: Source, item: Record | Envelope) -> None:
        if type(item) is Record:
            self._buffer.put(sender, item)
        else:
            self._buffer.put_envelope(cast("Envelope", item))

    # --- the observer's side -------------------------------------------------------------------

    async def serve(self) -> None:
        """Drain until closed and empty: an async receiver, on the loop."""
        receiver: Callable[[Envelope], Awaitable[Any]] = self.receiver
        take, kinds = self._buffer.take, self.kinds
        while True:
            batch = take(kinds)
            while batch is not None:
                for envelope in batch:
                    try:
                        await receiver(envelope)
                    except BaseException as error:  # noqa: BLE001 (an observer cannot fail a run)
                        self._survive(error)
                batch = take(kinds)
            if self.closed:
                return
            arrived = self._arrived = Event()
            await arrived.wait()

    def serve_thread(self) -> None:
        """Drain until closed and empty: a plain receiver, on its own thread."""
        while True:
            batch = self._take_locked()
            while batch is not None:
                for envelope in batch:
                    try:
                        self.receiver(envelope)
                    except BaseException as error:  # noqa: BLE001 (nor can it end its thread)
                        self._complain(error)
                batch = self._take_locked()
            if self.closed:
                return
            self._bell.get()

    def _take_locked(self) -> list[Envelope] | None:
        with self._lock:
            return self._buffer.take(self.kinds)

    def close(self) -> None:
        """Take nothing more; what is pending is still delivered."""
        self.closed = True
        if self.threaded:
            self._bell.put(False)
        elif self._arrived is not None:
            self._arrived.set()

    def _survive(self, error: BaseException) -> None:
        """Report what an observer raised; go on raising it if it is this task that is being ended."""
        if _from_outside(error):
            raise error
        self._complain(error)

    def _complain(self, error: BaseException) -> None:
        """Report the first fault of an observer; it stays connected."""
        if not self._complained:
            self._complained = True
            name = getattr(self.receiver, "__qualname__", repr(self.receiver))
            _log.error("tap %s raised %s: %s (reported once)", name, type(error).__name__, error)


def _from_outside(error: BaseException) -> bool:
    """True if an observer's task is being ended, rather than its function having raised such a thing."""
    if isinstance(error, get_cancelled_exc_class()):
        return current_effective_deadline() == -inf
    return isinstance(error, GeneratorExit)


def _missed(run: Source, first: int, last: int) -> Envelope:
    return Envelope(run.run_id, None, MISSED, data={"first": first, "last": last})


async def drain(tap: Tap, done: Event) -> None:
    """Close a tap and give it a second to deliver what is pending."""
    tap.close()
    with move_on_after(DRAIN_SECONDS, shield=True):
        await done.wait()
