"""The notice lane: durable records go out over blinker, one send per record, run as sender.

Receivers only enqueue; envelopes are built when a tap is drained. Each tap has its own bounded buffer,
so one that raises or stalls cannot fail, slow or change a run, and a gap is an explicit ``Missed``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blinker import ANY, Signal

from orchestrator.core.records import Record
from orchestrator.runtime.envelopes import Envelope, Source

__all__ = ["Bus"]


class _Ordered(dict[Any, None]):
    """blinker's receivers in the order in which they were connected."""

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)

    def remove(self, item: Any) -> None:
        del self[item]


class _OrderedSignal(Signal):
    """A signal that calls its receivers in the order in which they were connected."""

    set_class = _Ordered  # type: ignore[assignment]


class Bus:
    """A session's notice lane."""

    __slots__ = ("_receivers", "_signal")

    def __init__(self) -> None:
        """Begin with nobody listening."""
        self._signal = _OrderedSignal()
        #: the signal's receivers; they change seldom and are called for every record
        self._receivers: tuple[Callable[..., None], ...] = ()

    @property
    def silent(self) -> bool:
        """True if nobody listens."""
        return not self._receivers

    def connect(self, receiver: Callable[..., None]) -> None:
        """Call ``receiver(run, item=...)`` for every item; it must only enqueue."""
        self._signal.connect(receiver, weak=False)
        self._receivers = tuple(self._signal.receivers_for(ANY))

    def disconnect(self, receiver: Callable[..., None]) -> None:
        """Stop calling it."""
        self._signal.disconnect(receiver)
        self._receivers = tuple(self._signal.receivers_for(ANY))

    def publish(self, run: Source, item: Record | Envelope) -> None:
        """Send one durable record, or one progress envelope."""
        for receiver in self._receivers:
            receiver(run, item=item)
