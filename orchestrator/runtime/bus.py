"""The notice lane: durable records go out over blinker, one send per record, run as sender.

Receivers only enqueue; envelopes are built when a tap is drained. Each tap has its own bounded buffer,
so one that raises or stalls cannot fail, slow or change a run, and a gap is an explicit ``Missed``.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Literal, Protocol

from anyio import Event, move_on_after
from blinker import Signal

from orchestrator.core.records import Record
from orchestrator.errors import OperationError
from orchestrator.runtime.envelopes import Envelope, envelopes_of

__all__ = ["DEFAULT_BUFFER", "Bus", "Overflow", "Source", "Tap"]

#: Pending facts that a tap may have before it skips records.
DEFAULT_BUFFER = 65_536
#: Seconds that a tap has to drain when its session or run closes.
DRAIN_SECONDS = 1.0

Overflow = Literal["drop_oldest", "drop_newest"]
Receiver = Callable[[Envelope], Awaitable[Any] | Any]

_MISSED = "Missed"

_log = logging.getLogger("callboard.bus")


class Source(Protocol):
    """A run, as the bus needs it."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    def role_of_node(self, node: str) -> str | None:
        """A node's role."""


#: What waits in a tap: a record of a run, or an envelope that is ready (progress).
Item = tuple[Source, Record] | Envelope


class _Ordered(dict[Any, None]):
    """blinker's receivers in the order in which they were connected."""

    def add(self, item: Any) -> None:  # noqa: ANN401 (blinker's ids)
        self[item] = None

    def discard(self, item: Any) -> None:  # noqa: ANN401
        self.pop(item, None)

    def remove(self, item: Any) -> None:  # noqa: ANN401
        del self[item]


class _OrderedSignal(Signal):
    """A signal that calls its receivers in the order in which they were connected."""

    set_class = _Ordered  # type: ignore[assignment]


class Bus:
    """A session's notice lane."""

    __slots__ = ("_signal",)

    def __init__(self) -> None:
        """Begin with nobody listening."""
        self._signal = _OrderedSignal()

    @property
    def silent(self) -> bool:
        """True if nobody listens."""
        return not self._signal.receivers

    def connect(self, receiver: Callable[..., None]) -> None:
        """Call ``receiver(run, item=...)`` for every item; it must only enqueue."""
        self._signal.connect(receiver, weak=False)

    def disconnect(self, receiver: Callable[..., None]) -> None:
        """Stop calling it."""
        self._signal.disconnect(receiver)

    def publish(self, run: Source, item: Record | Envelope) -> None:
        """Send one durable record, or one progress envelope."""
        if self._signal.receivers:
            self._signal.send(run, item=item)


class Tap:
    """One observer with its bounded buffer.

    A record is taken or skipped whole, and always taken when the buffer is empty. ``drop_newest``: on
    overflow new records are skipped until the buffer has drained, then one ``Missed`` tells which.
    ``drop_oldest``: the oldest records make room, and ``Missed`` stands before the next one.
    """

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
        self.buffer = buffer
        self.drop_oldest = overflow == "drop_oldest"
        self.threaded = not (iscoroutinefunction(receiver) or iscoroutinefunction(type(receiver).__call__))
        self._items: deque[Item] = deque()
        self._pending = 0
        self._skipping = False
        #: run -> first and last fact that was skipped
        self._gaps: dict[Source, tuple[int, int]] = {}
        self._arrived: Event | None = None
        self._lock = threading.Lock()
        self._bell: queue.SimpleQueue[bool] | None = queue.SimpleQueue() if self.threaded else None
        self._complained = False
        self.closed = False

    # --- the kernel's side ---------------------------------------------------------------------

    def receive(self, sender: Source, item: Record | Envelope) -> None:
        """Take one item, or skip it. Called by blinker on the loop's thread; never waits."""
        if self.closed:
            return
        with self._lock:
            if isinstance(item, Envelope):
                if self._pending < self.buffer:
                    self._items.append(item)
                    self._pending += 1
            else:
                self._take(sender, item)
        if self._bell is not None:
            self._bell.put(True)
        elif self._arrived is not None:
            self._arrived.set()

    def _take(self, sender: Source, record: Record) -> None:
        size = len(record.facts)
        if not self._items:
            self._skipping = False
            self._tell_gaps()
        elif self._skipping or self._pending + size > self.buffer:
            if not self.drop_oldest:
                self._skipping = True
                self._skip(sender, record)
                return
            while self._items and self._pending + size > self.buffer:
                self._drop(self._items.popleft())
        self._items.append((sender, record))
        self._pending += size

    def _tell_gaps(self) -> None:
        """What was skipped comes before what is taken next."""
        gaps, self._gaps = self._gaps, {}
        for run, (first, last) in gaps.items():
            self._items.append(_missed(run, first, last))
            self._pending += 1

    def _drop(self, item: Item) -> None:
        if isinstance(item, Envelope):
            self._pending -= 1
            return
        self._pending -= len(item[1].facts)
        self._skip(*item)

    def _skip(self, sender: Source, record: Record) -> None:
        first = self._gaps.get(sender, (record.first, 0))[0]
        self._gaps[sender] = (first, record.last)

    # --- the observer's side -------------------------------------------------------------------

    def _next(self) -> list[Envelope] | None:
        """The envelopes of the next item with the gaps before it, or None if there is nothing."""
        with self._lock:
            if not self._items:
                gaps, self._gaps = self._gaps, {}
                self._skipping = False
                return [_missed(run, *gap) for run, gap in gaps.items()] or None
            gaps = {}
            if self.drop_oldest:
                gaps, self._gaps = self._gaps, {}
            item = self._items.popleft()
            out = [_missed(run, *gap) for run, gap in gaps.items()]
            if isinstance(item, Envelope):
                self._pending -= 1
                if self.kinds is None or item.kind in self.kinds or item.kind == _MISSED:
                    out.append(item)
                return out
            sender, record = item
            self._pending -= len(record.facts)
        out.extend(envelopes_of(sender.run_id, record, sender.role_of_node, self.kinds))
        return out

    async def serve(self) -> None:
        """Drain until closed and empty: an async receiver, on the loop."""
        while True:
            self._arrived = Event()
            batch = self._next()
            while batch is not None:
                for envelope in batch:
                    try:
                        given = self.receiver(envelope)
                        if isawaitable(given):
                            await given
                    except Exception as error:  # noqa: BLE001 (an observer cannot fail a run)
                        self._complain(error)
                batch = self._next()
            if self.closed:
                return
            await self._arrived.wait()

    def serve_thread(self) -> None:
        """Drain until closed and empty: a plain receiver, on its own thread."""
        bell = self._bell
        while bell is not None:
            batch = self._next()
            while batch is not None:
                for envelope in batch:
                    try:
                        self.receiver(envelope)
                    except BaseException as error:  # noqa: BLE001 (an observer cannot end its thread either)
                        self._complain(error)
                batch = self._next()
            if self.closed:
                return
            bell.get()

    def close(self) -> None:
        """Take nothing more; what is pending is still delivered."""
        self.closed = True
        if self._bell is not None:
            self._bell.put(False)
        elif self._arrived is not None:
            self._arrived.set()

    @property
    def drained(self) -> bool:
        """True if nothing is pending."""
        return not self._items

    def _complain(self, error: BaseException) -> None:
        """Report the first fault of an observer; it stays connected."""
        if not self._complained:
            self._complained = True
            name = getattr(self.receiver, "__qualname__", repr(self.receiver))
            _log.error("tap %s raised %s: %s (reported once)", name, type(error).__name__, error)


def _missed(run: Source, first: int, last: int) -> Envelope:
    return Envelope(run.run_id, None, _MISSED, data={"first": first, "last": last})


async def drain(tap: Tap, done: Event) -> None:
    """Close a tap and give it a second to deliver what is pending."""
    tap.close()
    with move_on_after(DRAIN_SECONDS, shield=True):
        await done.wait()
