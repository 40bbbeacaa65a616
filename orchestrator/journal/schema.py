"""The layout of the file, and how a file is told to be ours. docs/journal.md explains it to readers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from orchestrator.errors import IncompatibleJournalError

__all__ = ["APPLICATION_ID", "FORMAT", "SCHEMA", "STAMP", "check_stamp"]

#: "Cbrd": what ``file`` and SQLite see in the header of every journal.
APPLICATION_ID: Final = 0x43627264
#: The newest layout that this code reads and the one that it writes; ``user_version`` of the file.
FORMAT: Final = 1

#: ``row`` counts facts over the whole file, in the order of commits: a record's row is that of its last fact.
SCHEMA: Final = """
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value ANY
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  run TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created INTEGER NOT NULL,
  fsync TEXT NOT NULL CHECK (fsync IN ('always', 'never')),
  format INTEGER NOT NULL,
  definition TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  stopped TEXT CHECK (stopped IN ('ended', 'suspended')),
  reason TEXT
) STRICT;

CREATE TABLE records (
  row INTEGER PRIMARY KEY,
  run TEXT NOT NULL,
  seq INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  command TEXT NOT NULL,
  node TEXT,
  cause INTEGER NOT NULL,
  request INTEGER,
  wall INTEGER NOT NULL,
  payload TEXT NOT NULL,
  blobs TEXT,
  hash BLOB NOT NULL,
  UNIQUE (run, seq)
) STRICT;

CREATE TABLE blobs (
  hash BLOB PRIMARY KEY,
  data BLOB NOT NULL
) STRICT;

CREATE TABLE control (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL,
  created INTEGER NOT NULL
) STRICT;

CREATE INDEX control_of_run ON control (run, id);

CREATE VIEW facts AS
SELECT
  listed.run AS run,
  listed.first + listed.before + unfolded.key AS seq,
  listed.row - listed.last + listed.first + listed.before + unfolded.key AS row,
  CASE listed.kind WHEN 'NodesReady' THEN 'NodeReady' ELSE listed.kind END AS kind,
  coalesce(unfolded.value, listed.fact ->> '$.node', listed.fact ->> '$.operation.name') AS node,
  listed.fact ->> '$.attempt' AS attempt,
  CASE listed.kind
    WHEN 'NodesReady' THEN json_object('kind', 'NodeReady', 'node', unfolded.value)
    ELSE listed.fact
  END AS data,
  listed.seq AS record,
  listed.cause AS cause,
  listed.wall AS wall
FROM (
  SELECT
    records.run, records.seq, records.first, records.last, records.row, records.cause, records.wall,
    item.value AS fact,
    item.value ->> '$.kind' AS kind,
    sum(coalesce(json_array_length(item.value, '$.nodes'), 1))
      OVER (PARTITION BY records.run, records.seq ORDER BY item.key)
      - coalesce(json_array_length(item.value, '$.nodes'), 1) AS before
  FROM records, json_each(records.payload, '$.facts') AS item
) AS listed,
json_each(CASE listed.kind WHEN 'NodesReady' THEN listed.fact -> '$.nodes' ELSE '[null]' END) AS unfolded;
"""

#: Written with the schema, in one transaction: a file has all of it or is empty.
STAMP: Final = f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT};"


def check_stamp(path: Path, application: int, version: int) -> None:
    """Refuse what is not ours to touch.

    Raises:
        IncompatibleJournalError: another program's file, or a newer version's.
    """
    if application != APPLICATION_ID:
        raise IncompatibleJournalError(f"{path} is the database of another program; it was left as it is")
    if version > FORMAT:
        raise IncompatibleJournalError(
            f"{path} has layout {version}, written by a newer version; this one reads up to {FORMAT}: upgrade"
        )
