"""Damage is detected, named, and not made worse: flipped bytes, lost and cut files, files of others."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import apsw
import pytest

from orchestrator.core.records import encode_record
from orchestrator.errors import CorruptJournalError, IncompatibleJournalError, JournalError
from orchestrator.journal.checking import verify
from orchestrator.journal.copying import copy
from orchestrator.journal.fetching import COLUMNS, Tail
from orchestrator.journal.files import JournalFile
from orchestrator.journal.limits import INLINE
from orchestrator.journal.reading import open_journal
from orchestrator.journal.rows import Row, link
from tests.journal.samples import appended, run_of

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = run_of(30, value=b'"a result of some length that a byte can be changed in"')
RECORDS[10] = run_of(30, value=b'"' + b"x" * INLINE + b'"')[10]


GONE = "ends at 0, head says 12"


def whole(folder: Path) -> Path:
    """A journal that was closed: everything is in the main file."""
    with JournalFile.open(folder / "j.db", fsync="never") as journal:
        appended(journal.create_run("r"), RECORDS, 3)
    return folder / "j.db"


def live(folder: Path, without: tuple[str, ...] = ()) -> Path:
    """A copy of a journal's files while it is open: most of it is in the write-ahead file."""
    source, target = folder / "source", folder / "target"
    source.mkdir()
    target.mkdir()
    with JournalFile.open(source / "j.db", fsync="never") as journal:
        appended(journal.create_run("r"), RECORDS[:12], 3)
        appended(journal.create_run("s"), run_of(1))
        for path in source.iterdir():
            if not path.name.endswith(("-shm", ".lock", *without)):
                shutil.copy(path, target)
    return target / "j.db"


def outcome(path: Path, expected: list) -> str:
    """Read everything; what went wrong, or nothing if it is what was written."""
    before = path.read_bytes()
    found = verify(path, "r")
    try:
        with open_journal(path) as reader:
            read = list(reader.records("r"))
    except JournalError as error:
        return f"{error} {found[0]}"
    finally:
        assert path.read_bytes() == before, "a reader wrote"
    assert found or read == expected, "changed in silence"
    return " ".join(found)


def test_a_byte_of_a_result(tmp_path: Path):
    """bad-inputs 6: a checksum error at that record, for whoever reads it; a copy keeps what is before."""
    path = whole(tmp_path)
    data = bytearray(path.read_bytes())
    at = data.find(b"length", data.find(encode_record(RECORDS[16])[:30]))
    data[at] ^= 1
    path.write_bytes(data)
    assert "record 17 is not what was written (checksum)" in outcome(path, RECORDS)
    with JournalFile.open(path) as journal:
        log = journal.open_run("r")
        assert log.read(0, 16) == RECORDS[:16]
        with pytest.raises(CorruptJournalError, match="record 17"):
            log.read(0)
        with pytest.raises(CorruptJournalError, match="record 17"):
            log.read(16, 17)
    (lacks,) = copy(path, tmp_path / "copy.db", run="r")
    assert "record 17" in lacks
    with JournalFile.open(tmp_path / "copy.db") as journal:
        assert journal.open_run("r").read(0) == RECORDS[:16]
    assert verify(tmp_path / "copy.db", "r") == []


@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_a_byte_anywhere_in_the_file(ram: Path, count: int):
    """SERDE 77, bad-inputs 6: any byte of the main file; detected, or it held nothing."""
    path = whole(ram)
    data = path.read_bytes()
    found = 0
    for seed in range(count):
        draw = random.Random(seed)
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        found += outcome(path, RECORDS) != ""
    assert found > count // 2


@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_a_byte_anywhere_in_the_write_ahead_file(ram: Path, count: int):
    """issue 3: SQLite drops what is behind a damaged frame without a word; the head notices."""
    path = live(ram)
    ahead = path.with_name("j.db-wal")
    main, data = path.read_bytes(), ahead.read_bytes()
    heard = set()
    for seed in range(count):
        draw = random.Random(seed)
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(main)
        ahead.write_bytes(changed)
        path.with_name("j.db-shm").unlink(missing_ok=True)
        heard.add(outcome(path, RECORDS[:12]))
    assert any("head says 12" in line for line in heard)


def test_a_missing_write_ahead_file(tmp_path: Path):
    """bad-inputs 5: refused with "log ends at n, head says m", not "no such run", and nothing is written."""
    path = live(tmp_path, without=("-wal",))
    before = path.read_bytes()
    with (
        JournalFile.open(path) as journal,
        pytest.raises(CorruptJournalError, match=GONE),
    ):
        journal.open_run("r")
    with (
        JournalFile.open(path) as journal,
        pytest.raises(CorruptJournalError, match=GONE),
    ):
        journal.create_run("r")
    with open_journal(path) as reader, pytest.raises(CorruptJournalError, match=GONE):
        reader.find_run("r")
    assert "log ends at 0, head says 12" in verify(path, "r")[0]
    assert path.read_bytes() == before


def test_a_log_that_is_shorter_than_its_head(tmp_path: Path):
    """bad-inputs 5: the tail is gone and the rest is in order: `PRAGMA integrity_check` says ok."""
    path = whole(tmp_path)
    rows = apsw.Connection(str(path))
    rows.execute("DELETE FROM records WHERE seq > 20")
    assert rows.pragma("integrity_check") == "ok"
    rows.close()
    with (
        JournalFile.open(path) as journal,
        pytest.raises(CorruptJournalError, match="ends at 20, head says 30"),
    ):
        journal.open_run("r")
    (fault,) = verify(path, "r")
    assert "log ends at 20, head says 30" in fault
    lacks = copy(path, tmp_path / "copy.db")
    assert lacks == ["run r: the copy ends at record 20, the head said 30"]
    assert verify(tmp_path / "copy.db", "r") == []


def test_all_side_files_missing(tmp_path: Path):
    """bad-inputs 5: the main file alone is refused too: nobody knows whether it is whole."""
    path = live(tmp_path, without=("-wal", ".head"))
    shutil.copy(whole(tmp_path), path)
    with JournalFile.open(path) as journal, pytest.raises(CorruptJournalError, match=r"r\.head is missing"):
        journal.open_run("r")
    assert "is missing or cut" in verify(path, "r")[0]
    assert copy(path, tmp_path / "copy.db") == []
    with JournalFile.open(tmp_path / "copy.db") as journal:
        assert journal.open_run("r").read(0) == RECORDS


@pytest.mark.parametrize("where", ["slot 0", "slot 1", "both", "cut"])
def test_a_damaged_head(tmp_path: Path, where: str):
    """engine.md 25: one slot may be torn; with both the run is refused."""
    path = whole(tmp_path)
    head = path.with_name("j.db.r.head")
    data = bytearray(head.read_bytes())
    assert len(data) == 1024
    if where != "slot 1":
        data[40] ^= 1
    if where in {"slot 1", "both"}:
        data[552] ^= 1
    head.write_bytes(data[:700] if where == "cut" else data)
    with JournalFile.open(path) as journal:
        if where in {"both", "cut"}:
            with pytest.raises(CorruptJournalError, match=r"is damaged|is missing or cut"):
                journal.open_run("r")
        else:
            assert journal.open_run("r").read(0) == RECORDS


def test_the_head_of_another_log(tmp_path: Path):
    """issue 3: files of two journals put together are not taken for one."""
    path = whole(tmp_path)
    (tmp_path / "other").mkdir()
    with JournalFile.open(tmp_path / "other" / "j.db") as journal:
        appended(journal.create_run("r"), run_of(9))
    shutil.copy(tmp_path / "other" / "j.db.r.head", path.with_name("j.db.r.head"))
    with (
        JournalFile.open(path) as journal,
        pytest.raises(CorruptJournalError, match="record 9 is not the one"),
    ):
        journal.open_run("r")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("which", ["j.db", "j.db-wal"])
def test_a_file_that_was_cut(tmp_path: Path, which: str, share: float):
    """issue 3: a truncated main or write-ahead file; pages that are ahead are not missed in the main one."""
    path = live(tmp_path)
    target = path.with_name(which)
    target.write_bytes(target.read_bytes()[: int(target.stat().st_size * share)])
    heard = outcome(path, RECORDS[:12]) + " ".join(verify(path, "s"))
    assert heard or which == "j.db"
    if share < 0.5:
        assert any(word in heard for word in ("is damaged", "head says 12", "write-ahead", "page", "is cut"))


def test_a_newer_version(tmp_path: Path):
    """S68, journal.md: a version newer than the code is refused by name, the file untouched."""
    path = whole(tmp_path)
    changed = apsw.Connection(str(path))
    changed.execute("PRAGMA user_version=99")
    changed.close()
    refused(path, "has layout 99, written by a newer version")


def test_files_of_others(tmp_path: Path):
    """journal.md: a foreign file is refused by name and left as it is."""
    path = tmp_path / "x.db"
    path.write_text("just some notes\n" * 100)
    refused(path, "is not a journal")
    path.write_text("short")
    refused(path, "is not a journal")
    path.write_text("")
    refused(path, "is an empty file")
    path.unlink()
    for mode in ("delete", "wal"):
        other = apsw.Connection(str(path))
        other.pragma("journal_mode", mode)
        other.execute("CREATE TABLE IF NOT EXISTS theirs (x); INSERT INTO theirs VALUES (1)")
        refused(path, "the database of another program")
        other.close()
        refused(path, "the database of another program")


def refused(path: Path, match: str) -> None:
    before = {one.name: one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm")}
    with pytest.raises(IncompatibleJournalError, match=match):
        JournalFile.open(path)
    with pytest.raises(IncompatibleJournalError, match=match):
        open_journal(path)
    assert any(match in line for line in verify(path, "r"))
    assert {
        one.name: one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm")
    } == before


def test_a_fact_of_a_newer_version(tmp_path: Path):
    """SERDE 77: an unknown kind is an error that names the record, never skipped and never None."""
    path = whole(tmp_path)
    rows = apsw.Connection(str(path))
    row = Row._make(rows.execute(f"SELECT {COLUMNS} FROM records WHERE seq = 30").get)
    before = rows.execute("SELECT last, hash FROM records WHERE seq = 29").get
    row = row._replace(payload=row.payload.replace(b'"NodeStarted"', b'"NodeTeleported"'))
    digest = link(Tail(29, *before).hash, row)
    rows.execute(
        "UPDATE records SET payload = CAST(? AS TEXT), hash = ? WHERE seq = 30", (row.payload, digest)
    )
    rows.close()
    with (
        open_journal(path) as reader,
        pytest.raises(CorruptJournalError, match=r"record 30 .*Teleported"),
    ):
        list(reader.facts())


def test_verify_looks_at_everything(tmp_path: Path):
    """issue 3: layout, mark of the stop, epochs, rows: each fault has its line."""
    path = whole(tmp_path)
    rows = apsw.Connection(str(path))
    for sql, says in (
        ("UPDATE runs SET stopped = 'ended', reason = 'completed'", "is marked as ended"),
        ("UPDATE records SET row = 100000 WHERE seq = 5", "its row"),
        ("UPDATE runs SET epoch = 0", "epoch 1 is not between 0 and 0"),
        ("UPDATE runs SET epoch = 1", "is marked as ended"),
        ("UPDATE records SET command = 'Emit' WHERE seq = 5", "record 5 is not what was written"),
        ("DELETE FROM records WHERE seq = 5", "record 5 is missing"),
        ("DROP INDEX control_of_run", "tables or views are not those of layout 1"),
        ("UPDATE runs SET format = 2", "has layout 2"),
    ):
        rows.execute("SAVEPOINT before")
        rows.execute(sql)
        rows.execute("RELEASE before")
        saved = apsw.Connection(str(tmp_path / "copy.db"))
        with saved.backup("main", rows, "main") as backup:
            backup.step(-1)
        saved.close()
        shutil.copy(path.with_name("j.db.r.head"), tmp_path / "copy.db.r.head")
        found = verify(tmp_path / "copy.db", "r")
        assert any(says in line for line in found), (sql, found)
    assert len(verify(tmp_path / "copy.db", "r")) < 25
