"""The seam between the kernel and whatever keeps its records (engine.md 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from orchestrator.core.records import Record

__all__ = ["Done", "Journal"]

#: Called once per batch, in order, on the loop's thread: with nothing when the batch is durable, with
#: the error when it is unknown whether it is.
Done = Callable[[BaseException | None], None]


@runtime_checkable
class Journal(Protocol):
    """Keeps the records of one run.

    The kernel hands over one batch at a time: what is decided meanwhile is the next batch. Nothing that
    a batch decided takes effect before its ``done``.
    """

    def submit(self, batch: Sequence[Record], done: Done) -> None:
        """Keep a batch and call ``done``, at once or later. Never raises: a fault goes to ``done``."""

    def flush(self) -> None:
        """Return when every submitted batch was answered; for callers that cannot wait on the loop."""

    def close(self) -> None:
        """Let go of whatever is held. No batch follows."""

    def __len__(self) -> int:
        """How many records can be read."""

    def read(self, start: int, stop: int | None = None) -> Sequence[Record]:
        """Records by position, from 0; only what is durable."""
