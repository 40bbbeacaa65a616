"""Copies of a journal made while it is in use, whole or cut; and what is kept no longer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from orchestrator.errors import CorruptJournalError, JournalError
from orchestrator.journal.connecting import create, faults, read_only, sync_folder, writable
from orchestrator.journal.fetching import Fetcher, Tail, blob_of, selected
from orchestrator.journal.head import HeadFile, head_path, read_head
from orchestrator.journal.owning import Ownership
from orchestrator.journal.rows import Row, unpack
from orchestrator.journal.runlog import BLOB, INSERT, STOP, stop_of

__all__ = ["copy", "prune"]

_PLACE: Final = "SELECT row FROM records WHERE run = ? AND seq = ?"
_RUN: Final = "SELECT run, name, created, fsync, format, definition, epoch FROM runs WHERE run = ?"
_MAKE: Final = (
    "INSERT INTO runs (run, name, created, fsync, format, definition, epoch) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_CONTROL: Final = "SELECT id, run, kind, payload, created FROM control WHERE run = ?"
_FLOOR: Final = (
    "INSERT INTO meta (key, value) SELECT 'rows', max(row) FROM records WHERE true "
    "ON CONFLICT DO UPDATE SET value = max(value, coalesce(excluded.value, 0))"
)
_UNUSED: Final = (
    "DELETE FROM blobs WHERE hash NOT IN "
    "(SELECT unhex(place.value) FROM records, json_each(records.blobs) AS place "
    "WHERE records.blobs IS NOT NULL)"
)


def copy(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    run: str | None = None,
    upto: int | None = None,
) -> Sequence[str]:
    """Copy a journal, with fresh heads, while its runs go on. The source is not written to.

    Args:
        path: the journal. target: where the copy goes; nothing may be there.
        run: copy this run alone, row by row, up to the first record that is damaged; None is all of the file.
        upto: with ``run``: the last record to copy.

    Returns:
        What the copy lacks that the source should have had, one line each; empty if nothing.

    Raises:
        JournalError: something is at ``target``, or the source cannot be read.
    """
    source, goal = Path(path).absolute(), Path(target).absolute()
    if upto is not None and run is None:
        raise JournalError("a copy is cut at a record of one run: name the run")
    if goal.exists():
        raise JournalError(f"{goal} exists; a copy overwrites nothing")
    reading = read_only(source)
    try:
        with faults(goal):
            if run is None:
                _backup(reading, goal)
                lacks: list[str] = []
            else:
                create(goal)
                lacks = _copy_run(reading, source, goal, run, upto)
            lacks += _heads(source, goal, told=bool(lacks) or upto is not None)
    finally:
        reading.close()
    return lacks


def _backup(reading: apsw.Connection, goal: Path) -> None:
    os.close(os.open(goal, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    writing = apsw.Connection(str(goal), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with writing.backup("main", reading, "main") as backup:
            while not backup.done:
                backup.step(-1)
    finally:
        writing.close()


def _copy_run(reading: apsw.Connection, source: Path, goal: Path, run: str, upto: int | None) -> list[str]:
    """Row by row: damage elsewhere in the file is not met."""
    reading.execute("BEGIN")
    found = reading.execute(_RUN, (run,)).get
    if found is None:
        raise JournalError(f"{source} has no run {run}")
    fetcher = Fetcher(reading, source, run)
    ends = fetcher.tail().seq
    writing = writable(goal, power_safe=True)
    lacks: list[str] = []
    try:
        writing.execute("BEGIN IMMEDIATE")
        writing.execute(_MAKE, found)
        try:
            for row in fetcher.rows(0, ends if upto is None else min(upto, ends)):
                _copy_row(reading, writing, row)
        except CorruptJournalError as error:
            lacks.append(f"{error}; the copy ends before it")
        columns = "INSERT INTO control (id, run, kind, payload, created) VALUES (?, ?, ?, ?, ?)"
        writing.executemany(columns, reading.execute(_CONTROL, (run,)))
        writing.execute("COMMIT")
    finally:
        writing.close()
    return lacks


def _copy_row(reading: apsw.Connection, writing: apsw.Connection, row: Row) -> None:
    blobs: dict[bytes, bytes] = {}

    def keep(name: bytes) -> bytes | None:
        data = blob_of(reading, name)
        if data is not None:
            blobs[name] = data
        return data

    record = unpack(row, keep)
    writing.executemany(BLOB, blobs.items())
    (number,) = (reading.execute(_PLACE, (row.run, row.seq)).get,)
    writing.execute(INSERT, (number, *row))
    if (mark := stop_of([record])) is not None:
        writing.execute(STOP, (*mark, row.run))


def _heads(source: Path, goal: Path, *, told: bool) -> list[str]:
    """Give every run of a copy its head; say which runs had more by the source's heads."""
    lacks = []
    writing = writable(goal, power_safe=True)
    try:
        for run, epoch in selected(writing, "SELECT run, epoch FROM runs"):
            tail: Tail = Fetcher(writing, goal, run).tail()
            head = HeadFile(goal, run, None)
            head.write(tail.seq, epoch, tail.hash)
            head.sync()
            head.close()
            said = None
            with suppress(CorruptJournalError):
                said = read_head(source, run)
            if not told and said is not None and said.seq > tail.seq:
                lacks.append(f"run {run}: the copy ends at record {tail.seq}, the head said {said.seq}")
    finally:
        writing.close()
    sync_folder(goal)
    return lacks


def prune(path: str | os.PathLike[str], runs: Sequence[str]) -> None:
    """Remove runs with everything that only they use. The space is used again, the file gets no smaller.

    Raises:
        RunOwnedError: one of them is being driven; those before it are gone.
    """
    where = Path(path).absolute()
    connection = writable(where, power_safe=True)
    try:
        for run in runs:
            with faults(where):
                lock = Ownership(where, run)
                try:
                    _remove(connection, where, run)
                finally:
                    lock.release()
        with faults(where):
            connection.execute(_UNUSED)
    finally:
        connection.close()


def _remove(connection: apsw.Connection, path: Path, run: str) -> None:
    # the head first: a head without its run would say that records were lost
    head_path(path, run).unlink(missing_ok=True)
    sync_folder(path)
    connection.execute("BEGIN IMMEDIATE")
    # rows are never given twice: who reads on behind one would miss facts
    connection.execute(_FLOOR)
    for table in ("records", "control", "runs"):
        connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608 (three fixed names)
    connection.execute("COMMIT")
