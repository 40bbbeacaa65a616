"""The reading side, for any process: never writes, never blocks the owner of a run."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from orchestrator.core.facts import Fact
from orchestrator.core.records import Record
from orchestrator.errors import CorruptJournalError, JournalError
from orchestrator.journal.connecting import faults, read_only
from orchestrator.journal.control import ControlRow, controls_after
from orchestrator.journal.fetching import COLUMNS, Fetcher, Tail, blob_of, fault_of, selected
from orchestrator.journal.head import head_path, read_head
from orchestrator.journal.owning import owned
from orchestrator.journal.rows import Row, unpack

__all__ = ["FactRow", "JournalReader", "RunInfo", "open_journal"]

#: Records read at a time: no transaction stays open while the caller looks at them.
_PAGE: Final = 256
#: Candidates that a message names.
_SHOWN: Final = 10
#: Seconds between two looks at the file's change counter.
POLL: Final = 0.05

_RUNS: Final = (
    "SELECT run, name, created, fsync, definition, epoch, stopped, reason FROM runs ORDER BY created, rowid"
)
_EVERY: Final = f"SELECT row, {COLUMNS} FROM records WHERE row > ? ORDER BY row LIMIT {_PAGE}"  # noqa: S608
_OF_RUN: Final = f"SELECT row, {COLUMNS} FROM records WHERE run = ? AND seq > ? ORDER BY seq LIMIT {_PAGE}"  # noqa: S608
_SEQ_AFTER: Final = "SELECT seq FROM records WHERE row > ? AND run = ? ORDER BY row LIMIT 1"
_ROW_AT: Final = (
    "SELECT row - last + ?2 FROM records WHERE run = ?1 AND seq <= ?2 AND first <= ?2 AND last >= ?2 LIMIT 1"
)


class RunInfo(msgspec.Struct, frozen=True, gc=False):
    """One line of a list of runs.

    Attributes:
        name: of its flow. created: nanoseconds since 1970. definition: hash of what it was started from.
        epoch: how many owners it has had. stopped: ``ended``, ``suspended``, or None; reason: of the stop.
        live: a process drives it now. records, facts: how many it has.
    """

    run: str
    name: str
    created: int
    fsync: str
    definition: str
    epoch: int
    stopped: str | None
    reason: str | None
    live: bool
    records: int
    facts: int


class FactRow(msgspec.Struct, frozen=True, gc=False):
    """One fact.

    Attributes:
        row: its place among all facts of the file; ``facts(after=row)`` goes on behind it.
        seq: its number in its run. record: the record that holds it, with the values it refers to.
    """

    row: int
    run: str
    seq: int
    fact: Fact
    record: Record

    @property
    def kind(self) -> str:
        """The fact's kind."""
        return type(self.fact).__name__


class JournalReader:
    """Reads one journal. Use it as a context manager; for one thread at a time, but ``close``.

    Attributes:
        path: the file.
    """

    __slots__ = ("_closed", "_connection", "_lock", "_seen", "_tails", "path")

    def __init__(self, path: str | os.PathLike[str], *, vfs: str | None = None) -> None:
        """Open a journal for reading.

        Raises:
            IncompatibleJournalError, CorruptJournalError, JournalError: it cannot be read.
        """
        self.path = Path(path).absolute()
        self._connection = read_only(self.path, vfs)
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._seen = -1
        self._tails: dict[str, Tail] = {}

    def runs(self) -> Sequence[RunInfo]:
        """Every run, oldest first."""
        out = []
        for run, name, created, fsync, definition, epoch, stopped, reason in self._all(_RUNS):
            live = owned(self.path, run)
            end = Fetcher(self._connection, self.path, run).tail()
            out.append(
                RunInfo(
                    run, name, created, fsync, definition, epoch, stopped, reason, live, end.seq, end.last
                )
            )
        return out

    def find_run(self, name: str) -> str:
        """The id of the run that a prefix means; ``last`` is the newest.

        Raises:
            JournalError: no run or several; names the candidates.
            CorruptJournalError: the run has a head but is not in the file.
        """
        ids: list[str] = [values[0] for values in self._all(_RUNS)]
        whole = [run for run in ids if run == name]
        # the runs of included flows go by their parent's id and a dot
        ids = [run for run in ids if "." in name or "." not in run]
        if name == "last" and ids:
            return ids[-1]
        found = whole or [run for run in ids if name and run.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            shown = ", ".join(found[:_SHOWN]) + (
                f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            )
            raise JournalError(f"{name!r} means several runs: {shown}; write more of the id")
        for run in self._heads(name):
            if (head := read_head(self.path, run)) is not None and head.seq:
                raise CorruptJournalError(f"{self.path}: run {run}: log ends at 0, head says {head.seq}")
        latest = f"the newest are {', '.join(ids[-5:])}" if ids else "it is empty"
        raise JournalError(f"{self.path} has no run {name!r}; {latest}")

    def records(self, run: str, after: int = 0, upto: int | None = None) -> Iterator[Record]:
        """Records of a run with ``after`` < seq (<= ``upto``), each checked against the one before.

        Raises:
            CorruptJournalError: a record is missing, changed or cannot be decoded; names it.
        """
        while page := self._page(_OF_RUN, (run, after)):
            for _, row in page:
                if upto is not None and row.seq > upto:
                    return
                after = row.seq
                yield self._unpacked(row)

    def facts(
        self, run: str | None = None, after: int = 0, kinds: Collection[str] = (), *, follow: bool = False
    ) -> Iterator[FactRow]:
        """Every fact once, in the order in which they became durable.

        Args:
            run: whole id of a run; None is every run of the file, those to come included.
            after: the ``row`` of the last fact that the caller has dealt with; 0 begins at the start.
            kinds: kinds of facts to give; empty is all. follow: wait for more, until the reader is closed.

        Raises:
            CorruptJournalError: a record is missing, changed or cannot be decoded; names it.
        """
        query, at = (_EVERY, after) if run is None else (_OF_RUN, self._seq_before(run, after))
        while not self._closed.is_set():
            version = self._version()
            page = self._page(query, (at,) if run is None else (run, at))
            for number, row in page:
                yield from self._facts_of(number, row, after, kinds)
                at = number if run is None else row.seq
            if page:
                continue
            if not follow:
                return
            if run is not None and not at:
                at = self._seq_before(run, after)
            while self._version() == version and not self._closed.wait(POLL):
                pass

    def changed(self) -> bool:
        """Whether anybody wrote since the last call; the first call says True. For callers that poll."""
        version = self._version()
        seen, self._seen = self._seen, version
        return version != seen

    def row_at(self, run: str, seq: int) -> int:
        """The ``row`` of a run's fact ``seq``, to go on behind it; 0 if there is none."""
        found = self._all(_ROW_AT, (run, seq))
        return int(found[0][0]) if found else 0

    def controls(self, run: str, after: int = 0) -> Sequence[ControlRow]:
        """What was asked of a run, in order, applied or not."""
        with self._lock, faults(self.path):
            return controls_after(self._connection, run, after)

    def close(self) -> None:
        """End what follows; may be called from any thread."""
        self._closed.set()
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _all(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock, faults(self.path):
            return [] if self._closed.is_set() else selected(self._connection, query, values)

    def _version(self) -> int:
        with self._lock, faults(self.path):
            return -1 if self._closed.is_set() else int(self._connection.pragma("data_version"))

    def _heads(self, prefix: str) -> Iterator[str]:
        start, end = head_path(self.path, "\0").name.split("\0")
        for path in sorted(self.path.parent.iterdir()):
            if path.name.startswith(start + prefix) and path.name.endswith(end):
                yield path.name[len(start) : -len(end)]

    def _seq_before(self, run: str, row: int) -> int:
        found = self._all(_SEQ_AFTER, (row, run))
        return int(found[0][0]) - 1 if found else Fetcher(self._connection, self.path, run).tail().seq

    def _page(self, query: str, values: tuple[object, ...]) -> list[tuple[int, Row]]:
        page = [(number, Row._make(columns)) for number, *columns in self._all(query, values)]
        for _, row in page:
            previous = self._tails.get(row.run)
            if previous is None or previous.seq != row.seq - 1:
                previous = Fetcher(self._connection, self.path, row.run).end_at(row.seq - 1)
            if fault := fault_of(previous, row):
                raise CorruptJournalError(f"{self.path}: run {row.run}, {fault}")
            self._tails[row.run] = Tail(row.seq, row.last, row.hash)
        return page

    def _unpacked(self, row: Row) -> Record:
        with self._lock, faults(self.path):
            return unpack(row, lambda name: blob_of(self._connection, name))

    def _facts_of(self, number: int, row: Row, after: int, kinds: Collection[str]) -> Iterator[FactRow]:
        record = self._unpacked(row)
        start = number - row.last + row.first
        for index, fact in enumerate(record.facts):
            if start + index > after and (not kinds or type(fact).__name__ in kinds):
                yield FactRow(start + index, row.run, row.first + index, fact, record)


def open_journal(path: str | os.PathLike[str]) -> JournalReader:
    """Read a journal, from any process. The reader is a context manager.

    Raises:
        IncompatibleJournalError, CorruptJournalError, JournalError: it cannot be read.
    """
    return JournalReader(path)
