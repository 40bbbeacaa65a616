"""Rows of one run, read in order; the chain is checked while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from orchestrator.core.records import Record
from orchestrator.errors import CorruptJournalError
from orchestrator.journal.connecting import faults
from orchestrator.journal.rows import FIRST_LINK, Row, link, unpack

__all__ = ["COLUMNS", "Fetcher", "Tail", "blob_of", "fault_of", "selected"]

#: The columns of a Row, payload as bytes.
COLUMNS: Final = (
    "run, seq, first, last, epoch, command, node, cause, request, wall, CAST(payload AS BLOB), blobs, hash"
)
#: ``Row._make`` without its look at the length: the columns are those of the query.
_row: Final[Callable[[tuple[Any, ...]], Row]] = partial(tuple.__new__, Row)
_ROWS: Final = f"SELECT {COLUMNS} FROM records WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq"  # noqa: S608
_LINK: Final = "SELECT hash FROM records WHERE run = ? AND seq = ?"
_END: Final = "SELECT last, hash FROM records WHERE run = ? AND seq = ?"
_TAIL: Final = "SELECT seq, last, hash FROM records WHERE run = ? ORDER BY seq DESC LIMIT 1"


class Tail(NamedTuple):
    """Where a run's log ends: the last record's number, its last fact's, its hash."""

    seq: int
    last: int
    hash: bytes


def selected(
    connection: apsw.Connection, query: str, values: tuple[object, ...] = ()
) -> list[tuple[Any, ...]]:
    """All rows of a query. Any: a column holds what the layout says."""
    return connection.execute(query, values).fetchall()


def blob_of(connection: apsw.Connection, name: bytes) -> bytes | None:
    """What the blob table holds under a hash."""
    data = connection.execute("SELECT data FROM blobs WHERE hash = ?", (name,)).get
    return bytes(data) if data is not None else None


class Fetcher:
    """Reads one run through a connection of its own thread."""

    __slots__ = ("_connection", "_path", "_previous", "_run")

    def __init__(self, connection: apsw.Connection, path: Path, run: str) -> None:
        """Read nothing yet."""
        self._connection = connection
        self._path = path
        self._run = run
        self._previous = Tail(0, 0, FIRST_LINK)

    def tail(self) -> Tail:
        """The end of the log; zeros if it is empty."""
        with faults(self._path):
            found = self._connection.execute(_TAIL, (self._run,)).get
        return Tail(*found) if found is not None else Tail(0, 0, FIRST_LINK)

    def link_at(self, seq: int) -> bytes | None:
        """The hash of a record; None if there is no such record."""
        if seq == 0:
            return FIRST_LINK
        with faults(self._path):
            found = self._connection.execute(_LINK, (self._run, seq)).get
        return bytes(found) if found is not None else None

    def records(self, after: int, upto: int) -> list[Record]:
        """Records ``after`` < seq <= ``upto``.

        Raises:
            CorruptJournalError: a record is missing, changed or cannot be decoded; names it.
        """
        connection = self._connection

        def blob(name: bytes) -> bytes | None:
            return blob_of(connection, name)

        return [unpack(row, blob) for row in self.rows(after, upto)]

    def rows(self, after: int, upto: int) -> Iterator[Row]:
        """Rows ``after`` < seq <= ``upto``, each checked against the one before.

        Raises:
            CorruptJournalError: a record is missing or changed; names it.
        """
        seq, last, digest = self._previous if self._previous.seq == after else self.end_at(after)
        with faults(self._path):
            for values in self._connection.execute(_ROWS, (self._run, after, upto)):
                row = _row(values)
                _, number, first, latest, *_, name = values
                if number != seq + 1 or first != last + 1 or not _linked(digest, row):
                    fault = fault_of(Tail(seq, last, digest), row)
                    raise CorruptJournalError(f"{self._path}: run {self._run}, {fault}")
                seq, last, digest = number, latest, name
                yield row
        if seq < upto:
            raise CorruptJournalError(f"{self._path}: run {self._run}: record {seq + 1} is missing")
        self._previous = Tail(seq, last, digest)

    def end_at(self, seq: int) -> Tail:
        """The end of the log as it was when it had ``seq`` records.

        Raises:
            CorruptJournalError: there is no such record.
        """
        if seq == 0:
            return Tail(0, 0, FIRST_LINK)
        with faults(self._path):
            found = self._connection.execute(_END, (self._run, seq)).get
        if found is None:
            raise CorruptJournalError(f"{self._path}: run {self._run}: record {seq} is missing")
        return Tail(seq, *found)


def fault_of(previous: Tail, row: Row) -> str:
    """What is wrong with a row that follows another; empty if nothing is."""
    if row.seq != previous.seq + 1:
        return f"record {previous.seq + 1} is missing"
    if row.first != previous.last + 1:
        return f"record {row.seq} begins with fact {row.first} instead of {previous.last + 1}"
    if not _linked(previous.hash, row):
        return f"record {row.seq} is not what was written (checksum); `doctor --copy` keeps what is before it"
    return ""


def _linked(previous: bytes, row: Row) -> bool:
    """Whether a row's hash is that of its columns behind the previous row's hash."""
    try:
        return link(previous, row) == row.hash
    except TypeError:
        # a damaged page can give a column another type
        return False
