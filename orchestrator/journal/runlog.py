"""One run's log in the file: the owner appends to it and reads it back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import apsw
from msgspec import Raw

from orchestrator.core.facts import RunEnded, RunResumed, RunSuspended
from orchestrator.core.records import Record
from orchestrator.errors import JournalError, NeedsRecoveryError, RunOwnedError
from orchestrator.journal.connecting import faults, read_only
from orchestrator.journal.control import ControlRow, controls_after
from orchestrator.journal.fetching import Fetcher, Tail
from orchestrator.journal.head import HeadFile
from orchestrator.journal.owning import Ownership
from orchestrator.journal.rows import Row, pack
from orchestrator.journal.seam import Done
from orchestrator.journal.writing import Post, Writer

__all__ = ["BLOB", "INSERT", "STOP", "Owned", "RunLog", "stop_of"]

_GUARD: Final = (
    "SELECT epoch, (SELECT coalesce(max(row), 0) FROM records), "
    "(SELECT coalesce(max(value), 0) FROM meta WHERE key = 'rows') FROM runs WHERE run = ?"
)
INSERT: Final = (
    "INSERT INTO records (row, run, seq, first, last, epoch, command, node, cause, request, wall, payload, "
    "blobs, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?)"
)
BLOB: Final = "INSERT INTO blobs (hash, data) VALUES (?, ?) ON CONFLICT DO NOTHING"
STOP: Final = "UPDATE runs SET stopped = ?, reason = ? WHERE run = ?"


class Owned(NamedTuple):
    """What :class:`RunLog` is given by the file that opened it.

    Attributes:
        connection: for appending. lock, head: held by the log and closed with it.
        epoch: of this ownership. tail: where the log ends.
        vfs: name of SQLite's layer for files; None is the system's.
    """

    path: Path
    run: str
    connection: apsw.Connection
    lock: Ownership
    head: HeadFile
    epoch: int
    tail: Tail
    vfs: str | None


class RunLog:
    """Keeps the records of one run: the :class:`~orchestrator.journal.seam.Journal` on disk.

    Made by ``JournalFile.create_run`` and ``JournalFile.open_run``. Without ``post`` a batch is committed
    before ``submit`` returns; with it, by a thread.

    Attributes:
        run: the run's id. epoch: counts the owners that the run has had, this one included.
        fault: why nothing can be appended any more, or None. closed: it has been given up.
    """

    __slots__ = (
        "_connection",
        "_count",
        "_fetcher",
        "_head",
        "_lock",
        "_path",
        "_pending",
        "_pending_after",
        "_pid",
        "_reading",
        "_tail",
        "_version",
        "_vfs",
        "_writer",
        "closed",
        "epoch",
        "fault",
        "run",
    )

    def __init__(self, owned: Owned, post: Post | None) -> None:
        """Take over what was opened."""
        self.run = owned.run
        self.epoch = owned.epoch
        self.fault: JournalError | None = None
        self.closed = False
        self._path = owned.path
        self._vfs = owned.vfs
        self._connection = owned.connection
        self._lock = owned.lock
        self._head = owned.head
        self._tail = owned.tail
        self._count = owned.tail.seq
        self._pid = os.getpid()
        self._reading: apsw.Connection | None = None
        self._fetcher: Fetcher | None = None
        self._version = -1
        self._pending: Sequence[ControlRow] = ()
        self._pending_after = 0
        self._writer = Writer(self._append, post) if post is not None else None

    def submit(self, batch: Sequence[Record], done: Done) -> None:
        """Append a batch in one transaction and call ``done``; after a fault, with that fault."""
        if self._writer is None:
            done(self._append(batch))
        else:
            self._writer.submit(batch, done)

    def flush(self) -> None:
        """Return when every submitted batch was answered."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Finish what was submitted and let others own the run; the second call does nothing."""
        if self.closed or self._pid != os.getpid():
            return
        self.closed = True
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self.fault is None:
            self.fault = JournalError(f"the log of run {self.run} is closed")
        try:
            with faults(self._path):
                if self._reading is not None:
                    self._reading.close()
                self._connection.close()
        finally:
            self._reading = self._fetcher = None
            self._head.close()
            self._lock.release()

    def __len__(self) -> int:
        """How many records are durable."""
        return self._count

    def read(self, start: int, stop: int | None = None) -> Sequence[Record]:
        """Durable records by position, from 0; also when the log is closed.

        Raises:
            CorruptJournalError: a record is missing, changed or cannot be decoded; names it.
        """
        stop = self._count if stop is None else min(stop, self._count)
        if start >= stop:
            return []
        if not self.closed:
            return list(self._reader().records(start, stop))
        connection = read_only(self._path, self._vfs)
        try:
            return list(Fetcher(connection, self._path, self.run).records(start, stop))
        finally:
            connection.close()

    def pending_controls(self, after: int = 0) -> Sequence[ControlRow]:
        """What others asked of this run and the owner has not applied, in order.

        Costs a look at a counter when nobody wrote to the file.

        Args:
            after: the highest id that the owner has applied (its recorded facts say which).
        """
        self._reader()
        assert self._reading is not None
        with faults(self._path):
            version = self._reading.pragma("data_version")
            if version != self._version or after < self._pending_after:
                self._pending = controls_after(self._reading, self.run, after)
                self._version, self._pending_after = version, after
        return [row for row in self._pending if row.id > after]

    def _reader(self) -> Fetcher:
        if self._fetcher is None:
            self._reading = read_only(self._path, self._vfs)
            self._fetcher = Fetcher(self._reading, self._path, self.run)
        return self._fetcher

    def _append(self, batch: Sequence[Record]) -> BaseException | None:
        if self.fault is not None:
            return self.fault
        try:
            self._write(batch)
        except Exception as error:  # noqa: BLE001 (whatever it was: what is on disk is unknown now)
            with suppress(apsw.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            self.fault = self._halted(batch, error)
        return self.fault

    def _halted(self, batch: Sequence[Record], error: Exception) -> JournalError:
        if isinstance(error, RunOwnedError):
            return error
        first, last = (batch[0].seq, batch[-1].seq) if batch else (0, 0)
        halted = NeedsRecoveryError(
            f"run {self.run}: records {first} to {last} are not acknowledged "
            f"({type(error).__name__}: {error}); what is on disk shows when it is opened again: "
            f"callboard resume {self.run}"
        )
        halted.__cause__ = error
        return halted

    def _write(self, batch: Sequence[Record]) -> None:
        rows: list[Row] = []
        blobs: dict[str, Raw] = {}
        tail = self._tail
        for record in batch:
            if record.seq != tail.seq + 1:
                raise JournalError(f"record {record.seq} was handed over after record {tail.seq}")
            row, put = pack(self.run, self.epoch, record, tail.hash)
            tail = Tail(row.seq, row.last, row.hash)
            rows.append(row)
            blobs.update(put)
        stop = stop_of(batch)
        self._commit(rows, blobs, stop)
        self._tail = tail
        self._count = tail.seq
        # the head follows the log: what it says is durable before it is said
        self._head.write(tail.seq, self.epoch, tail.hash)
        if stop is not None:
            self._head.sync()

    def _commit(
        self, rows: Sequence[Row], blobs: dict[str, Raw], stop: tuple[str | None, str | None] | None
    ) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        found = execute(_GUARD, (self.run,)).get
        if found is None or found[0] != self.epoch:
            raise RunOwnedError(
                f"run {self.run} was taken over by another process (its epoch is {found and found[0]}, "
                f"this owner's is {self.epoch}); nothing was appended"
            )
        at = max(found[1], found[2])
        if blobs:
            self._connection.executemany(BLOB, ((bytes.fromhex(name), data) for name, data in blobs.items()))
        placed = []
        for row in rows:
            at += max(row.last - row.first + 1, 1)
            placed.append((at, *row))
        self._connection.executemany(INSERT, placed)
        if stop is not None:
            execute(STOP, (*stop, self.run))
        execute("COMMIT")


def stop_of(batch: Sequence[Record]) -> tuple[str | None, str | None] | None:
    """What a batch makes of the mark that a run has stopped: (stopped, reason); None leaves it."""
    mark: tuple[str | None, str | None] | None = None
    for record in batch:
        for fact in record.facts:
            if type(fact) is RunEnded:
                mark = ("ended", fact.reason)
            elif type(fact) is RunSuspended:
                mark = ("suspended", fact.reason)
            elif type(fact) is RunResumed:
                mark = (None, None)
    return mark
