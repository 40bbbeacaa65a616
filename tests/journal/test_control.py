"""What others ask of a run: one row each, seen by its owner, applied once and in order."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from msgspec import Raw

from orchestrator.core.commands import ControlIn, Controlled
from orchestrator.core.facts import ControlApplied
from orchestrator.core.records import Record
from orchestrator.errors import JournalError
from orchestrator.journal.control import request
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
from tests.architecture.tree import ROOT
from tests.journal.samples import appended, instance, run_of

if TYPE_CHECKING:
    from pathlib import Path


ASKER = """
import sys
from orchestrator.journal.control import request
print(request(sys.argv[1], "a", "pause"))
"""


def test_seen_by_the_owner(tmp_path: Path):
    """engine.md 26: in order, by run, until its facts say that it was applied."""
    with JournalFile.open(tmp_path / "j.db", fsync="never") as journal:
        log, other = journal.create_run("a"), journal.create_run("b")
        assert list(log.pending_controls()) == []
        ids = [request(journal.path, "a", "steer", {"text": f"é{n}"}) for n in range(3)]
        strange = request(journal.path, "b", "pause")
        assert ids == [1, 2, 3]
        rows = log.pending_controls()
        assert [(row.id, row.run, row.kind) for row in rows] == [(n, "a", "steer") for n in ids]
        assert [json.loads(bytes(row.payload)) for row in rows] == [{"text": f"é{n}"} for n in range(3)]
        assert [row.id for row in other.pending_controls()] == [strange]
        assert [row.id for row in log.pending_controls(1)] == [2, 3]
        assert [row.id for row in log.pending_controls(1)] == [2, 3], "they are due until they are applied"
        assert list(log.pending_controls(3)) == []
        assert [row.id for row in log.pending_controls(0)] == [1, 2, 3]


def test_seen_after_a_restart(tmp_path: Path):
    """issue 3: asked while nothing runs; ids are never used again."""
    path = tmp_path / "j.db"
    with JournalFile.open(path) as journal:
        appended(journal.create_run("a"), run_of(2, stop="suspended"))
    assert [request(path, "a", "answer", {"value": 1}), request(path, "a", "drain")] == [1, 2]
    with JournalFile.open(path) as journal:
        assert [row.id for row in journal.open_run("a").pending_controls(1)] == [2]
    with open_journal(path) as reader:
        assert [row.kind for row in reader.controls("a")] == ["answer", "drain"]


def test_from_another_process(tmp_path: Path):
    """issue 3: while the owner is live."""
    with JournalFile.open(tmp_path / "j.db") as journal:
        log = journal.create_run("a")
        done = subprocess.run(
            [sys.executable, "-c", ASKER, str(journal.path)],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout == "1\n"
        assert [row.kind for row in log.pending_controls()] == ["pause"]


def test_the_record_names_the_request(tmp_path: Path):
    """engine.md 24: the column `request` of the record that applied it."""
    with JournalFile.open(tmp_path / "j.db", fsync="never") as journal:
        log = journal.create_run("a")
        command = Controlled(ControlIn(7, Raw(b'{"kind":"Pause"}')))
        appended(log, [Record(1, 1, 1, command, [instance(ControlApplied)])])
        assert log._connection.execute("SELECT command, request FROM records").get == ("Controlled", 7)


def test_what_is_refused(tmp_path: Path):
    """journal.md: nothing is asked of a run that is not there; requests have a cap."""
    path = tmp_path / "j.db"
    with pytest.raises(JournalError, match="no journal at"):
        request(path, "a", "pause")
    assert not path.exists()
    with JournalFile.open(path) as journal:
        journal.create_run("a")
        with pytest.raises(JournalError, match="has no run b"):
            request(path, "b", "pause")
        with pytest.raises(JournalError, match="above the cap"):
            request(path, "a", "steer", {"text": "x" * 5_000_000})
    with open_journal(path) as reader:
        assert list(reader.controls("a")) == []
