"""What is wrong with one run of a journal, if anything. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from orchestrator.core.records import Record
from orchestrator.errors import CorruptJournalError, JournalError
from orchestrator.journal.connecting import faults, read_only
from orchestrator.journal.fetching import COLUMNS, Fetcher, Tail, blob_of, fault_of, selected
from orchestrator.journal.files import head_fault
from orchestrator.journal.head import read_head
from orchestrator.journal.rows import FIRST_LINK, Row, unpack
from orchestrator.journal.runlog import stop_of
from orchestrator.journal.schema import FORMAT, SCHEMA

__all__ = ["verify"]

_ROWS: Final = f"SELECT row, {COLUMNS} FROM records WHERE run = ? ORDER BY seq"  # noqa: S608
_RUN: Final = "SELECT epoch, format, stopped, reason FROM runs WHERE run = ?"
#: But for the cache, which is made on demand and is no part of any run.
_LAYOUT: Final = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name <> 'cache' ORDER BY name"
#: A run with more faults than this is not worth a longer list.
_MOST: Final = 20


def verify(path: str | os.PathLike[str], run: str) -> list[str]:
    """Check everything of one run that can be checked without deciding anything again.

    Looked at: the file's stamp, layout and pages, the run's head, and of each record the number, the
    chained hash, that it can be decoded with its blobs, and that its columns say what its payload says.

    Args:
        path: the journal; it is not written to. run: whole id.

    Returns:
        One line for each fault, the most telling first; empty if there is none.
    """
    where = Path(path).absolute()
    try:
        connection = read_only(where)
    except JournalError as error:
        return [str(error)]
    found: list[str] = []
    try:
        for line in _faults(connection, where, run):
            found.append(line)
            if len(found) == _MOST:
                found.append("... and more")
                break
    except JournalError as error:
        found.append(str(error))
    finally:
        connection.close()
    return found


def _faults(connection: apsw.Connection, path: Path, run: str) -> Iterator[str]:
    # before the log is looked at: the owner may go on meanwhile, and a head never leads
    head = read_head(path, run)
    with faults(path):
        connection.execute("BEGIN")
        found = connection.execute(_RUN, (run,)).get
        if found is None and (head is None or not head.seq):
            yield f"{path} has no run {run}"
            return
        epoch, layout, stopped, reason = found or (0, FORMAT, None, None)
        if fault := head_fault(path, run, head, epoch, Fetcher(connection, path, run)):
            yield fault
        if layout > FORMAT:
            yield f"run {run} has layout {layout}; this version reads up to {FORMAT}"
        if selected(connection, _LAYOUT) != _layout():
            yield f"{path}: tables or views are not those of layout {FORMAT}"
        yield from _of_records(connection, run, epoch, (stopped, reason))
        for (line,) in connection.execute("PRAGMA quick_check"):
            if line != "ok":
                yield f"{path}: {line}"


def _layout() -> list[tuple[Any, ...]]:
    model = apsw.Connection(":memory:")
    model.execute(SCHEMA)
    return selected(model, _LAYOUT)


def _of_records(
    connection: apsw.Connection, run: str, epoch: int, mark: tuple[str | None, str | None]
) -> Iterator[str]:
    previous, row_before, epoch_before = Tail(0, 0, FIRST_LINK), 0, 0
    stopped: tuple[str | None, str | None] = (None, None)
    for number, *columns in connection.execute(_ROWS, (run,)):
        row = Row._make(columns)
        if fault := fault_of(previous, row):
            # what follows hangs on it
            yield f"run {run}, {fault}"
            return
        if number < row_before + max(row.last - row.first + 1, 1):
            yield f"run {run}, record {row.seq}: its row {number} overlaps the one before, {row_before}"
        if not epoch_before <= row.epoch <= epoch:
            yield f"run {run}, record {row.seq}: epoch {row.epoch} is not between {epoch_before} and {epoch}"
        try:
            record = unpack(row, lambda name: blob_of(connection, name))
        except CorruptJournalError as error:
            yield str(error)
        else:
            yield from _of_columns(row, record)
            stopped = stop_of([record]) or stopped
        previous, row_before, epoch_before = Tail(row.seq, row.last, row.hash), number, row.epoch
    if mark != stopped:
        yield f"run {run} is marked as {mark[0]} ({mark[1]}), its records say {stopped[0]} ({stopped[1]})"


def _of_columns(row: Row, record: Record) -> Iterator[str]:
    command = type(record.command).__name__
    said = (record.seq, record.first, record.last, command, record.cause, record.wall)
    if said != (row.seq, row.first, row.last, row.command, row.cause, row.wall):
        yield f"run {row.run}, record {row.seq}: its columns do not say what its payload says"
