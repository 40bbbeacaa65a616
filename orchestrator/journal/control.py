"""What others may ask of a run: rows of one table, which its owner applies in order, each once."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw
import msgspec

from orchestrator.errors import JournalError
from orchestrator.journal.connecting import faults, writable
from orchestrator.journal.limits import held

__all__ = ["ControlRow", "controls_after", "request"]

_INSERT: Final = "INSERT INTO control (run, kind, payload, created) VALUES (?, ?, ?, ?) RETURNING id"
_AFTER: Final = "SELECT id, run, kind, payload, created FROM control WHERE run = ? AND id > ? ORDER BY id"


class ControlRow(msgspec.Struct, frozen=True, gc=False):
    """One request to a run's owner.

    Attributes:
        id: rises with every request to the file. kind: ``pause``, ``steer``, ...
        payload: a JSON object, not decoded. created: nanoseconds since 1970, for display only.
    """

    id: int
    run: str
    kind: str
    payload: msgspec.Raw
    created: int


def controls_after(connection: apsw.Connection, run: str, after: int = 0) -> Sequence[ControlRow]:
    """The requests to a run with a higher id, in order."""
    return [
        ControlRow(number, name, kind, msgspec.Raw(payload), created)
        for number, name, kind, payload, created in connection.execute(_AFTER, (run, after))
    ]


def request(path: str | os.PathLike[str], run: str, kind: str, payload: object = None) -> int:
    """Ask something of a run, whether or not it is being driven. Durable when this returns.

    Args:
        path: the journal. run: the run's whole id. kind: what is asked.
        payload: JSON data, an object by convention; None is ``{}``.

    Returns:
        The request's id, which the owner's fact names when it has applied it.

    Raises:
        JournalError: no such journal or run, or the payload is above its cap.
    """
    where = Path(path)
    data = msgspec.json.encode({} if payload is None else payload)
    held("control", len(data), f"run {run}, {kind}")
    connection = writable(where, power_safe=True)
    try:
        with faults(where):
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT count(*) FROM runs WHERE run = ?", (run,)).get:
                raise JournalError(f"{where} has no run {run}; `callboard runs` lists them")
            number = connection.execute(_INSERT, (run, kind, data.decode(), time.time_ns())).get
            connection.execute("COMMIT")
    finally:
        connection.close()
    return int(number)
