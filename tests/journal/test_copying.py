"""Copies of a journal in use, whole or cut; pruning."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import apsw
import pytest

from orchestrator.errors import JournalError, RunOwnedError
from orchestrator.journal.checking import verify
from orchestrator.journal.control import request
from orchestrator.journal.copying import copy, prune
from orchestrator.journal.files import JournalFile
from orchestrator.journal.limits import INLINE
from orchestrator.journal.reading import open_journal
from tests.journal.samples import appended, run_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = run_of(20, value=b'"' + b"x" * INLINE + b'"', stop="ended")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[JournalFile]:
    with JournalFile.open(tmp_path / "j.db", fsync="never") as opened:
        appended(opened.create_run("a"), RECORDS, 4)
        appended(opened.create_run("b"), run_of(5))
        request(opened.path, "a", "steer", {"text": "x"})
        yield opened


def test_a_whole_copy_of_a_live_journal(journal: JournalFile, tmp_path: Path):
    """issue 3: online, with heads, private, and in order by every check."""
    target = tmp_path / "copy.db"
    assert copy(journal.path, target) == []
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with open_journal(target) as reader:
        assert [info.run for info in reader.runs()] == ["a", "b"]
        assert list(reader.records("a")) == RECORDS
        assert [row.kind for row in reader.controls("a")] == ["steer"]
    assert verify(target, "a") == verify(target, "b") == []
    with pytest.raises(JournalError, match="a copy overwrites nothing"):
        copy(journal.path, target)


@pytest.mark.parametrize("upto", [0, 1, 7, 20, 99])
def test_a_cut_copy(journal: JournalFile, tmp_path: Path, upto: int):
    """bad-inputs 6: one run up to a record; it can be driven on from there."""
    target = tmp_path / "copy.db"
    assert copy(journal.path, target, run="a", upto=upto) == []
    assert verify(target, "a") == []
    with JournalFile.open(target) as opened:
        log = opened.open_run("a")
        assert log.read(0) == RECORDS[:upto]
        appended(log, RECORDS[len(log) :])
        log.close()
    assert verify(target, "a") == []
    with open_journal(target) as reader:
        (info,) = reader.runs()
        assert (info.run, info.stopped, info.reason) == ("a", "ended", "completed")
        assert [row.id for row in reader.controls("a")] == [1]
    assert verify(journal.path, "a") == []


def test_what_a_copy_refuses(journal: JournalFile, tmp_path: Path):
    """journal.md: which run is cut has to be said."""
    with pytest.raises(JournalError, match="name the run"):
        copy(journal.path, tmp_path / "copy.db", upto=3)
    with pytest.raises(JournalError, match="has no run z"):
        copy(journal.path, tmp_path / "copy.db", run="z")
    with pytest.raises(JournalError, match="no journal at"):
        copy(tmp_path / "none.db", tmp_path / "other.db")


def test_pruning(journal: JournalFile):
    """issue 3: a run goes with everything that only it uses; one that is driven stays."""
    with pytest.raises(RunOwnedError):
        prune(journal.path, ["a"])
    journal.close()
    prune(journal.path, ["a"])
    rows = apsw.Connection(str(journal.path))
    for table, left in (("runs", 1), ("records", 5), ("control", 0), ("blobs", 1)):
        assert rows.execute(f"SELECT count(*) FROM {table}").get == left
    assert sorted(path.name for path in journal.path.parent.glob("*.head")) == ["j.db.b.head"]
    assert verify(journal.path, "b") == []
    with JournalFile.open(journal.path) as opened:
        appended(opened.create_run("a"), RECORDS)
    assert verify(journal.path, "a") == []
