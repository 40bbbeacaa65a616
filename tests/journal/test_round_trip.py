"""What is appended is what is read: every command, every fact, every shape of value, as plain JSON."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import apsw
import msgspec
import pytest
from msgspec import Raw

from orchestrator.core.commands import COMMANDS, Finish
from orchestrator.core.facts import FACTS, NodeCompleted, NodeReady
from orchestrator.core.records import Record, encode_record
from orchestrator.errors import CorruptJournalError, NeedsRecoveryError
from orchestrator.journal.checking import verify
from orchestrator.journal.files import JournalFile
from orchestrator.journal.limits import CAPS, INLINE
from orchestrator.journal.reading import open_journal
from tests.journal.samples import appended, instance, run_of

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.journal.runlog import RunLog


@pytest.fixture
def log(tmp_path: Path):
    with JournalFile.open(tmp_path / "j.db", fsync="never") as journal:
        yield journal.create_run("r")


def test_every_command_and_fact(log: RunLog, tmp_path: Path):
    """RESUME 66, SERDE 77: each kind, every field set, comes back equal and of the same type."""
    records, first = [], 1
    for seq in range(1, max(len(COMMANDS), len(FACTS)) + 1):
        command = instance(COMMANDS[seq % len(COMMANDS)], seq)
        facts = [instance(FACTS[seq % len(FACTS)], seq), instance(FACTS[(seq * 7) % len(FACTS)], seq + 1)]
        values = [Raw(b'{"v":1}'), Raw(b"null")]
        records.append(Record(seq, first, seq, command, facts, values, seq, seq + 1))
        first += 2
    appended(log, records, size=5)
    back = log.read(0)
    assert back == records
    assert [type(fact) for record in back for fact in record.facts] == [
        type(fact) for record in records for fact in record.facts
    ]
    assert {type(fact) for record in back for fact in record.facts} == set(FACTS)
    with open_journal(tmp_path / "j.db") as journal:
        assert list(journal.records("r")) == records


@pytest.mark.parametrize(
    "value",
    [
        b'{"lc":1,"__type__":"os.system","$ref":"#/x","py/object":"y","constructor":"z"}',
        b'{"\xef\xbc\xa1":1,"A":2,"a\xe2\x80\x8b":3,"a":4}',
        b"-9223372036854775808",
        b"9223372036854775807",
        b"-0.0",
        b"5e-324",
        b"1.7976931348623157e308",
        b'"\\u0000\\ud83d\\ude00"',
        b'{"k":1,"k":2}',
        b"[" * 500 + b"]" * 500,
        b"",
    ],
)
def test_values_are_not_looked_into(log: RunLog, tmp_path: Path, value: bytes):
    """bad-inputs 27, 30: what the runtime encoded comes back byte for byte; nothing is revived."""
    value = value or b'"' + b"\xc3\xbc" * INLINE + b'"'
    appended(log, run_of(2, value=value))
    assert bytes(log.read(1)[0].values[0]) == value
    assert verify(tmp_path / "j.db", "r") == []


def test_the_file_is_plain_json(log: RunLog, tmp_path: Path):
    """journal.md: any SQLite client and any JSON reader show what is there; nothing is pickled."""
    records = run_of(3)
    appended(log, records)
    rows = apsw.Connection(str(tmp_path / "j.db")).execute(
        "SELECT typeof(payload), payload, command, node, first, last, cause, wall FROM records ORDER BY seq"
    )
    for record, (kind, payload, command, node, *numbers) in zip(records, rows, strict=True):
        assert kind == "text"
        data = json.loads(payload)
        assert list(data)[:3] == ["seq", "first", "at"]
        assert command == type(record.command).__name__ == data["command"]["kind"]
        assert node == getattr(record.command, "node", None)
        assert numbers == [record.first, record.last, record.cause, record.wall]


def test_a_plan_stands_once(tmp_path: Path):
    """engine.md 24: the planned graph is one blob, however many runs of the flow there are."""
    with JournalFile.open(tmp_path / "j.db", fsync="never") as journal:
        for run in ("a", "b", "c"):
            log = journal.create_run(run)
            appended(log, run_of(2))
            assert log.read(0) == run_of(2)
    rows = apsw.Connection(str(tmp_path / "j.db"))
    assert rows.execute("SELECT count(*) FROM blobs").get == 1
    assert "n1" not in rows.execute("SELECT payload -> '$.command.plan' FROM records WHERE seq = 1").get


def test_large_values_stand_beside_the_record(log: RunLog, tmp_path: Path):
    """bad-inputs 31: over 64 KiB a value is a blob, equal ones are one, and nobody who reads notices."""
    big, other = b'"' + b"x" * INLINE + b'"', b'"' + b"y" * (INLINE - 2) + b'"'
    facts = [NodeCompleted("n", 1, 0)]
    record = Record(1, 1, 1, Finish("n", 1, value=0), facts, [Raw(big), Raw(other), Raw(big), Raw(b"null")])
    appended(log, [record])
    assert log.read(0) == [record]
    rows = apsw.Connection(str(tmp_path / "j.db"))
    assert rows.execute("SELECT count(*), sum(length(data)) FROM blobs").get == (1, len(big))
    assert json.loads(rows.execute("SELECT payload -> '$.values' FROM records").get)[0] is None
    rows.execute("DELETE FROM blobs")
    with pytest.raises(CorruptJournalError, match=r"record 1: blob .* is missing"):
        log.read(0)
    assert any("missing" in line for line in verify(tmp_path / "j.db", "r"))


def test_a_blob_that_was_changed_is_noticed(log: RunLog, tmp_path: Path):
    """bad-inputs 6: the blob's name is the hash of its content."""
    appended(log, run_of(2, value=b'"' + b"x" * INLINE + b'"'))
    apsw.Connection(str(tmp_path / "j.db")).execute("UPDATE blobs SET data = zeroblob(length(data))")
    with pytest.raises(CorruptJournalError, match="is not what its hash says"):
        log.read(1)


def test_what_is_above_a_cap_is_refused(log: RunLog, monkeypatch, caplog):
    """journal.md: the table of caps warns first; above the cap the run halts before anything is written."""
    low = CAPS["value"]._replace(warn=1, most=10**6)
    monkeypatch.setattr("orchestrator.journal.limits.CAPS", {**CAPS, "value": low})
    appended(log, run_of(2, value=b'"' + b"x" * INLINE + b'"'))
    assert "above 1,000,000 it is refused" in caplog.text
    errors: list[BaseException | None] = []
    too_large = msgspec.structs.replace(run_of(3)[2], values=[Raw(b'"' + b"x" * 10**6 + b'"')])
    log.submit([too_large], errors.append)
    assert isinstance(errors[0], NeedsRecoveryError)
    assert "a value of 1,000,002 bytes is above the cap" in str(errors[0])
    assert len(log) == 2


def test_a_wide_fan_is_one_entry(log: RunLog, tmp_path: Path):
    """engine.md 6: NodesReady in the file, NodeReady for every reader, the view included, numbered."""
    names = [f"n{i}" for i in range(1000)]
    facts = [NodeCompleted("root", 1), *map(NodeReady, names), NodeCompleted("x", 1), *map(NodeReady, names)]
    appended(log, [*run_of(2), Record(3, 7, 3, Finish("root", 1), facts)])
    assert log.read(2)[0].facts == facts
    assert len(encode_record(log.read(2)[0])) < 40_000
    rows = apsw.Connection(str(tmp_path / "j.db")).execute(
        "SELECT seq, kind, node FROM facts WHERE run = 'r' AND record = 3 ORDER BY seq"
    )
    expected = [(7 + n, type(fact).__name__, fact.node) for n, fact in enumerate(facts)]
    assert rows.fetchall() == expected


@pytest.mark.parametrize("seed", range(20))
def test_batches_of_any_size(tmp_path: Path, seed: int):
    """PROP: how records are grouped into transactions leaves no trace but time."""
    draw = random.Random(seed)
    records = run_of(40)
    with JournalFile.open(tmp_path / "j.db", fsync="never") as journal:
        log = journal.create_run("r")
        at = 0
        while at < len(records):
            size = draw.randint(1, 9)
            appended(log, records[at : at + size], size)
            at += size
        assert log.read(0) == records
        start, stop = sorted(draw.choices(range(41), k=2))
        assert log.read(start, stop) == records[start:stop]
    assert verify(tmp_path / "j.db", "r") == []
