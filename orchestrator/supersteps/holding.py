"""Durability: when a record has to be on disk before what it decided takes effect (engine.md 29)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

from orchestrator.core.facts import CheckpointSaved, RunEnded, RunSuspended
from orchestrator.core.records import Record
from orchestrator.errors import OperationError
from orchestrator.journal.seam import Done, Journal

__all__ = ["Durability", "HeldJournal", "held"]

Durability = Literal["sync", "async", "exit"]
_STOPS: Final = (RunEnded, RunSuspended)


class HeldJournal:
    """Answers at once and hands over later: the durable part is a prefix of what was answered.

    With a window it hands over what a checkpoint closes, as soon as more than ``window`` steps wait; without
    one, when the run stops. Either way everything is on disk when a run has stopped.
    """

    __slots__ = ("_held", "_inner", "_steps", "_window")

    def __init__(self, inner: Journal, window: int | None) -> None:
        """``window``: how many steps the durable part may be behind; None is all of them."""
        self._inner = inner
        self._window = window
        self._held: list[Record] = []
        self._steps = 0

    def submit(self, batch: Sequence[Record], done: Done) -> None:
        """Keep a batch; a stop, or a window that is full, is answered when all is durable."""
        self._held += batch
        facts = [type(fact) for record in batch for fact in record.facts]
        self._steps += facts.count(CheckpointSaved)
        full = self._window is not None and self._steps >= self._window
        if full or any(kind in _STOPS for kind in facts):
            records, self._held, self._steps = self._held, [], 0
            self._inner.submit(records, done)
        else:
            done(None)

    def flush(self) -> None:
        """Hand over nothing early: what waits for an answer has it."""
        self._inner.flush()

    def close(self) -> None:
        """Close the journal; a run that stopped has handed over everything."""
        self._inner.close()

    def __len__(self) -> int:
        """How many records can be read."""
        return len(self._inner) + len(self._held)

    def read(self, start: int, stop: int | None = None) -> Sequence[Record]:
        """Records by position: those on disk, then those that are held."""
        durable = len(self._inner)
        stop = len(self) if stop is None else min(stop, len(self))
        found = list(self._inner.read(start, min(stop, durable))) if start < durable else []
        return [*found, *self._held[max(start - durable, 0) : max(stop - durable, 0)]]


def held(journal: Journal, durability: str, window: int) -> Journal:
    """The journal as a durability mode uses it.

    Raises:
        OperationError: no such mode, or a window below 1.
    """
    if durability not in get_args(Durability):
        raise OperationError(f"durability is {durability!r}; write 'sync', 'async' or 'exit'")
    if type(window) is not int or window < 1:
        raise OperationError(f"window is {window!r}; give the number of steps, at least 1")
    if durability == "sync":
        return journal
    return HeldJournal(journal, window if durability == "async" else None)
