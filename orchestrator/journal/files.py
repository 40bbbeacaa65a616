"""One SQLite file that holds many runs: makes it, opens it, gives out the logs of runs to their owners."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import apsw

from orchestrator.errors import CorruptJournalError, JournalError
from orchestrator.journal.connecting import create, faults, sync_folder, writable
from orchestrator.journal.fetching import Fetcher, Tail
from orchestrator.journal.head import Head, HeadFile, head_path, read_head
from orchestrator.journal.limits import run_fault
from orchestrator.journal.owning import Ownership
from orchestrator.journal.rows import FIRST_LINK
from orchestrator.journal.runlog import Owned, RunLog
from orchestrator.journal.schema import FORMAT
from orchestrator.journal.writing import Post

__all__ = ["Fsync", "JournalFile", "head_fault"]

#: ``always``: what was acknowledged survives a power cut. ``never``: it survives the end of the process.
Fsync = Literal["always", "never"]

_CREATE: Final = (
    "INSERT INTO runs (run, name, created, fsync, format, definition, epoch) VALUES (?, ?, ?, ?, ?, ?, 1)"
)
_RUN: Final = "SELECT epoch, fsync FROM runs WHERE run = ?"


class JournalFile:
    """A journal, as the process that drives runs sees it. Readers use ``open_journal``.

    Attributes:
        path: the file. fsync: what new runs are created with.
    """

    __slots__ = ("_logs", "_post", "_vfs", "fsync", "path")

    def __init__(self, path: Path, fsync: Fsync, post: Post | None, vfs: str | None) -> None:
        """Use :meth:`open`."""
        self.path = path
        self.fsync: Fsync = fsync
        self._post = post
        self._vfs = vfs
        self._logs: list[RunLog] = []

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        fsync: Fsync = "always",
        post: Post | None = None,
        vfs: str | None = None,
    ) -> Self:
        """Open a journal; one that does not exist is made, with its folder if that is ``.callboard``.

        Args:
            path: the file. fsync: for runs that are created; a run that exists keeps its own.
            post: calls a function on the caller's loop soon, from any thread: a thread appends then. None:
                ``submit`` appends itself.
            vfs: name of SQLite's layer for files; None is the system's.

        Raises:
            IncompatibleJournalError: another program's file, or a newer version's; it was not touched.
            CorruptJournalError: it is damaged. JournalError: it cannot be opened or made.
        """
        where = Path(path).absolute()
        if fsync not in {"always", "never"}:
            raise JournalError(f"fsync is {fsync!r}; write 'always' or 'never'")
        create(where, vfs)
        return cls(where, fsync, post, vfs)

    def create_run(self, run: str, *, name: str = "", definition: str = "") -> RunLog:
        """Begin the log of a new run and own it.

        Args:
            run: its id. name: of its flow, for listings. definition: hash of what it was started from.

        Raises:
            RunOwnedError: somebody else is creating it. JournalError: it exists, or cannot be written.
        """
        if fault := run_fault(run):
            raise JournalError(fault)
        with self._opening(run, self.fsync, take=False) as (connection, lock):
            head = read_head(self.path, run)
            if head is not None and head.seq and connection.execute(_RUN, (run,)).get is None:
                raise CorruptJournalError(_short(self.path, run, 0, head.seq))
            file = HeadFile(self.path, run, head)
            try:
                # before the run: a run without a head has lost it
                file.write(0, 0, FIRST_LINK)
                file.sync()
                sync_folder(self.path)
                values = (run, name, time.time_ns(), self.fsync, FORMAT, definition)
                connection.execute(_CREATE, values)
            except apsw.ConstraintError:
                file.close()
                raise JournalError(
                    f"{self.path} has a run {run} already; resume it, or take another id"
                ) from None
            except BaseException:
                file.close()
                raise
            tail = Tail(0, 0, FIRST_LINK)
            return self._log(Owned(self.path, run, connection, lock, file, 1, tail, self._vfs))

    def open_run(self, run: str, *, take: bool = False) -> RunLog:
        """Own a run that exists, as its next epoch; read it from position 0 to recover it.

        Args:
            run: its whole id. take: put aside the present owner, a stopped process; its next append fails.

        Raises:
            RunOwnedError: somebody drives it; names process and host.
            CorruptJournalError: its log is shorter than its head says, or they do not belong together.
            JournalError: no such run.
        """
        if fault := run_fault(run):
            raise JournalError(fault)
        with self._opening(run, None, take=take) as (connection, lock):
            found = connection.execute(_RUN, (run,)).get
            head = read_head(self.path, run)
            fetcher = Fetcher(connection, self.path, run)
            tail = fetcher.tail()
            if found is None and (head is None or not head.seq):
                raise JournalError(f"{self.path} has no run {run}; `callboard runs` lists them")
            epoch, fsync = found or (0, "always")
            if fault := head_fault(self.path, run, head, epoch, fetcher):
                raise CorruptJournalError(fault)
            connection.execute("BEGIN IMMEDIATE")
            epoch = connection.execute("SELECT epoch FROM runs WHERE run = ?", (run,)).get + 1
            connection.execute("UPDATE runs SET epoch = ? WHERE run = ?", (epoch, run))
            connection.execute("COMMIT")
            file = HeadFile(self.path, run, head)
            try:
                # again: an owner that was put aside may have appended until now
                tail = fetcher.tail()
                file.write(tail.seq, epoch, tail.hash)
                file.sync()
                if fsync == "never":
                    connection.execute("PRAGMA synchronous=NORMAL")
            except BaseException:
                file.close()
                raise
            return self._log(Owned(self.path, run, connection, lock, file, epoch, tail, self._vfs))

    def close(self) -> None:
        """Close every log that was given out."""
        while self._logs:
            self._logs.pop().close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every log."""
        self.close()

    @contextmanager
    def _opening(
        self, run: str, fsync: Fsync | None, *, take: bool
    ) -> Iterator[tuple[apsw.Connection, Ownership]]:
        """Lock and connect; undo both if the block fails."""
        with faults(self.path):
            lock = Ownership(self.path, run, take=take)
            try:
                connection = writable(self.path, power_safe=fsync != "never", vfs=self._vfs)
                try:
                    yield connection, lock
                except BaseException:
                    connection.close()
                    raise
            except BaseException:
                lock.release()
                raise

    def _log(self, opened: Owned) -> RunLog:
        log = RunLog(opened, self._post)
        self._logs = [one for one in self._logs if not one.closed]
        self._logs.append(log)
        return log


def _short(path: Path, run: str, ends: int, says: int) -> str:
    return (
        f"{path}: run {run}: log ends at {ends}, head says {says}: records are lost (was the file copied "
        "without its -wal?); restore all of its files, or go on from a copy: callboard doctor --copy"
    )


def head_fault(path: Path, run: str, head: Head | None, epoch: int, fetcher: Fetcher) -> str:
    """What a run's head says against its log; empty if nothing."""
    ends = fetcher.tail().seq
    if head is None:
        return (
            f"{path}: run {run}: {head_path(path, run).name} is missing or cut: nobody knows whether "
            f"its log, which ends at {ends}, is whole; restore it or go on with a copy: doctor --copy"
        )
    if head.seq > ends:
        return _short(path, run, ends, head.seq)
    if fetcher.link_at(head.seq) != head.hash:
        return f"{path}: run {run}: record {head.seq} is not the one that the head names; see doctor"
    if head.epoch > epoch:
        return f"{path}: run {run}: log is of epoch {epoch}, head of {head.epoch}; restore all of its files"
    return ""
