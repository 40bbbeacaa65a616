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

PRAGMA application_id=1130525284;

PRAGMA user_version=1;
