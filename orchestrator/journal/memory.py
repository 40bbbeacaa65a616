"""The journal that lives in memory: it encodes like the one on disk, so that nothing passes only here."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.records import Record, decode_record, encode_record
from orchestrator.journal.seam import Done

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """Encoded records in a list; a batch is answered before ``submit`` returns."""

    __slots__ = ("_log",)

    def __init__(self) -> None:
        """Begin empty."""
        self._log: list[bytes] = []

    def submit(self, batch: Sequence[Record], done: Done) -> None:
        """Keep a batch."""
        try:
            for record in batch:
                self._log.append(encode_record(record))
        except Exception as error:  # noqa: BLE001 (the seam: every fault goes to the kernel, which halts)
            done(error)
            return
        done(None)

    def flush(self) -> None:
        """Nothing is ever outstanding."""

    def close(self) -> None:
        """Nothing is held."""

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._log)

    def read(self, start: int, stop: int | None = None) -> Sequence[Record]:
        """Records by position."""
        return [decode_record(data) for data in self._log[start:stop]]
