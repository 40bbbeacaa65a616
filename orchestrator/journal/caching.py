"""What cached tasks wrote: a table of its own beside the runs, made when the first entry is kept.

It is no record of anything: it may be cleared at any time, and a run is recovered without it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from orchestrator.journal.connecting import faults, read_only, writable

__all__ = ["Cache", "Cached", "JournalCache", "MemoryCache"]

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS cache (
  key TEXT PRIMARY KEY,
  graph TEXT NOT NULL,
  node TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER,
  value BLOB NOT NULL
) STRICT
"""
_IS_THERE: Final = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'cache'"
_FIND: Final = "SELECT value, created FROM cache WHERE key = ?"
_PUT: Final = (
    "INSERT OR REPLACE INTO cache (key, graph, node, created, expires, value) VALUES (?, ?, ?, ?, ?, ?)"
)
_OLD: Final = "DELETE FROM cache WHERE expires <= ?"
_CLEAR: Final = "DELETE FROM cache WHERE graph = ?"
#: Entries in memory; the oldest leave first.
_MOST: Final = 10_000


class Cached(NamedTuple):
    """An entry: what was kept, and when, in ns of the wall clock."""

    value: bytes
    created: int


class Cache(Protocol):
    """Keeps entries by key. Whoever asks treats a fault as a miss."""

    def get(self, key: str) -> Cached | None:
        """The entry of a key, however old."""

    def put(self, key: str, of: tuple[str, str], value: bytes, seconds: float | None) -> None:
        """Keep ``value``, which a graph's node made; nobody wants it after so many ``seconds``."""

    def clear(self, graph: str, nodes: Iterable[str] | None) -> int:
        """Forget what a graph's nodes made, all of them or these; gives the number of entries."""


class MemoryCache:
    """Entries that end with the session."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Cached, tuple[str, str]]] = {}

    def get(self, key: str) -> Cached | None:
        """The entry of a key."""
        found = self._made.get(key)
        return None if found is None else found[0]

    def put(self, key: str, of: tuple[str, str], value: bytes, seconds: float | None) -> None:
        """Keep an entry; the oldest one leaves for it."""
        self._made.pop(key, None)
        self._made[key] = (Cached(value, time.time_ns()), of)
        if len(self._made) > _MOST:
            del self._made[next(iter(self._made))]

    def clear(self, graph: str, nodes: Iterable[str] | None) -> int:
        """Forget entries."""
        wanted = None if nodes is None else set(nodes)
        gone = [
            key
            for key, (_, (of, node)) in self._made.items()
            if of == graph and (wanted is None or node in wanted)
        ]
        for key in gone:
            del self._made[key]
        return len(gone)


class JournalCache:
    """Entries in a journal's file, shared by every process that uses it.

    A connection lives for one call, so that a process that forks or dies holds nothing.
    """

    def __init__(self, path: Path) -> None:
        """``path``: the journal."""
        self._path = path

    def get(self, key: str) -> Cached | None:
        """The entry of a key.

        Raises:
            JournalError: the file cannot be read.
        """
        connection = read_only(self._path)
        try:
            with faults(self._path):
                if not connection.execute(_IS_THERE).get:
                    return None
                found = connection.execute(_FIND, (key,)).get
                return None if found is None else Cached(*found)
        finally:
            connection.close()

    def put(self, key: str, of: tuple[str, str], value: bytes, seconds: float | None) -> None:
        """Keep an entry, and let go of those that nobody wants any more.

        Raises:
            JournalError: the file cannot be written.
        """
        now = time.time_ns()
        expires = None if seconds is None else now + int(seconds * 1e9)
        # a power cut may take it: it is made again
        connection = writable(self._path, power_safe=False)
        try:
            with faults(self._path), connection:
                connection.execute(_TABLE)
                connection.execute(_OLD, (now,))
                connection.execute(_PUT, (key, *of, now, expires, value))
        finally:
            connection.close()

    def clear(self, graph: str, nodes: Iterable[str] | None) -> int:
        """Forget entries.

        Raises:
            JournalError: the file cannot be written.
        """
        connection = writable(self._path, power_safe=False)
        try:
            with faults(self._path), connection:
                connection.execute(_TABLE)
                before = connection.total_changes()
                if nodes is None:
                    connection.execute(_CLEAR, (graph,))
                else:
                    connection.executemany(f"{_CLEAR} AND node = ?", [(graph, node) for node in nodes])
                gone = connection.total_changes() - before
        finally:
            connection.close()
        return gone
