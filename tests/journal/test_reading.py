"""Readers: every fact once and in order, from any process, without a lock or a write."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import apsw
import pytest

from orchestrator.errors import JournalError
from orchestrator.journal.connecting import writable
from orchestrator.journal.copying import prune
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import FactRow, open_journal
from tests.architecture.tree import ROOT
from tests.journal.samples import appended, run_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = run_of(50, stop="ended")
FACTS = [fact for record in RECORDS for fact in record.facts]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[JournalFile]:
    with JournalFile.open(tmp_path / "j.db", fsync="never") as opened:
        yield opened


def two_runs(journal: JournalFile) -> None:
    """Runs a and b, their records taking turns."""
    first, second = journal.create_run("a", name="flow", definition="d1"), journal.create_run("b")
    for record in RECORDS:
        appended(first, [record])
        appended(second, [record])


def test_every_fact_once_in_order(journal: JournalFile):
    """journal.md: over all runs by row, of one run by seq too; the same record is behind its facts."""
    two_runs(journal)
    with open_journal(journal.path) as reader:
        every = list(reader.facts())
        assert [fact.row for fact in every] == list(range(1, 2 * len(FACTS) + 1))
        for run in ("a", "b"):
            own = list(reader.facts(run))
            assert [fact.fact for fact in own] == FACTS
            assert [fact.seq for fact in own] == list(range(1, len(FACTS) + 1))
            assert own == [fact for fact in every if fact.run == run]
            assert all(fact.record.facts[fact.seq - fact.record.first] is fact.fact for fact in own)


def test_going_on_behind_any_row(journal: JournalFile):
    """journal.md: keep the last row and nothing is missed, in the middle of a record as well."""
    two_runs(journal)
    with open_journal(journal.path) as reader:
        every = list(reader.facts())
        for at in range(len(every) + 3):
            assert [fact.row for fact in reader.facts(after=at)] == [fact.row for fact in every[at:]]
        own = list(reader.facts("b"))
        for seq in range(len(own) + 1):
            assert list(reader.facts("b", after=reader.row_at("b", seq))) == own[seq:]
        assert reader.row_at("b", 10**6) == reader.row_at("nobody", 1) == 0


def test_kinds(journal: JournalFile):
    """journal.md: only the kinds that were asked for; the others are passed over, not lost."""
    two_runs(journal)
    with open_journal(journal.path) as reader:
        wanted = list(reader.facts("a", kinds={"NodeCompleted", "RunEnded"}))
        assert [fact.kind for fact in wanted] == ["NodeCompleted"] * 49 + ["RunEnded"]
        assert list(reader.facts(kinds=("NoSuch",))) == []


def test_the_view_says_the_same(journal: JournalFile):
    """journal.md: what SQL shows is what the reader gives."""
    two_runs(journal)
    rows = apsw.Connection(str(journal.path)).execute(
        "SELECT row, run, seq, kind, node, record, data ->> '$.kind' FROM facts ORDER BY row"
    )
    with open_journal(journal.path) as reader:
        expected = [
            (f.row, f.run, f.seq, f.kind, getattr(f.fact, "node", None), f.record.seq, f.kind)
            for f in reader.facts()
        ]
    assert rows.fetchall() == expected


def test_the_queries_of_the_page(journal: JournalFile):
    """docs/journal.md: what is shown there works, and the tables have the columns that it lists."""
    two_runs(journal)
    page = (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")
    rows = apsw.Connection(str(journal.path))
    (block,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    statements = [part for part in block.replace("20260131-120000-3f9ac1", "a").split(";") if part.strip()]
    assert len(statements) == 3
    assert [len(rows.execute(sql).fetchall()) for sql in statements] == [0, 49, 0]
    for table in ("facts", "runs", "records", "blobs", "control", "meta"):
        (line,) = (line for line in page.splitlines() if line.startswith(f"| `{table}`"))
        columns = [values[1] for values in rows.execute(f"PRAGMA table_info({table})")]
        assert set(columns) <= set(re.findall(r"`(\w+)`", line)), table


def test_following(journal: JournalFile):
    """issue 3: one that waits is given what comes, also of runs that begin later, until it is closed."""
    seen: list[FactRow] = []
    enough = threading.Event()
    reader = open_journal(journal.path)

    def follow() -> None:
        for fact in reader.facts(follow=True):
            seen.append(fact)
            if len(seen) == 2 * len(FACTS):
                enough.set()

    thread = threading.Thread(target=follow)
    thread.start()
    two_runs(journal)
    assert enough.wait(10)
    reader.close()
    thread.join(10)
    assert not thread.is_alive()
    assert [fact.row for fact in seen] == list(range(1, 2 * len(FACTS) + 1))


def test_following_one_run_that_begins_later(journal: JournalFile):
    """issue 3: `watch RUN` before its first record, with another run before it in the file."""
    appended(journal.create_run("other"), RECORDS)
    seen: list[int] = []
    reader = open_journal(journal.path)

    def follow() -> None:
        for fact in reader.facts("a", follow=True):
            seen.append(fact.seq)
            if len(seen) == len(FACTS):
                break

    thread = threading.Thread(target=follow)
    thread.start()
    log = journal.create_run("a")
    for record in RECORDS:
        appended(log, [record])
    thread.join(10)
    reader.close()
    assert seen == list(range(1, len(FACTS) + 1))


FOLLOWER = """
import sys
from orchestrator.journal.reading import open_journal
with open_journal(sys.argv[1]) as journal:
    print("ready", flush=True)
    for fact in journal.facts("a", follow=True):
        print(fact.seq, fact.kind, flush=True)
        if fact.kind == "RunEnded":
            break
"""


def test_another_process(journal: JournalFile):
    """issue 3: follows a live run from another process."""
    log = journal.create_run("a")
    command = [sys.executable, "-c", FOLLOWER, str(journal.path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        appended(log, RECORDS, 7)
        lines = child.stdout.read().splitlines()
    assert lines == [f"{seq} {type(fact).__name__}" for seq, fact in enumerate(FACTS, 1)]


def test_a_reader_does_not_write_or_block(journal: JournalFile):
    """issue 3: with a page half read the owner goes on, and a checkpoint is not held up for long."""
    log = journal.create_run("a")
    appended(log, RECORDS[:40], 10)
    with open_journal(journal.path) as reader:
        facts = reader.facts()
        next(facts)
        appended(log, RECORDS[40:])
        busy, ahead, moved = log._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
        assert (busy, ahead, moved) == (0, 0, 0)
        assert len(list(facts)) == len(FACTS) - 1
        with pytest.raises(apsw.ReadOnlyError):
            reader._connection.execute("DELETE FROM records")


def test_a_change_is_seen_by_who_polls(journal: JournalFile):
    """journal.md: a look costs no query; True once per change."""
    log = journal.create_run("a")
    with open_journal(journal.path) as reader:
        assert [reader.changed(), reader.changed()] == [True, False]
        appended(log, RECORDS[:1])
        assert [reader.changed(), reader.changed()] == [True, False]


def test_runs(journal: JournalFile):
    """issue 3: what a listing shows, the stop by the log itself."""
    first = journal.create_run("a", name="flow", definition="d1")
    appended(first, RECORDS[:3])
    second = journal.create_run("b")
    appended(second, run_of(4, stop="suspended"))
    second.close()
    appended(journal.create_run("c"), RECORDS)
    with open_journal(journal.path) as reader:
        one, two, three = reader.runs()
    assert (one.run, one.name, one.definition, one.live, one.stopped) == ("a", "flow", "d1", True, None)
    assert (one.fsync, one.epoch, one.records, one.facts) == ("never", 1, 3, RECORDS[2].last)
    assert (two.run, two.live, two.stopped, two.reason) == ("b", False, "suspended", "drained")
    assert (three.stopped, three.reason, three.records) == ("ended", "completed", 50)
    assert one.created < two.created < three.created


def test_prefixes(journal: JournalFile):
    """journal.md: a prefix that means one run names it, or `last`; else the candidates are named."""
    with open_journal(journal.path) as reader:
        with pytest.raises(JournalError, match="has no run 'last'; it is empty"):
            reader.find_run("last")
        for run in ("20260131-a", "20260131-ab", "20260201-c"):
            journal.create_run(run)
        assert reader.find_run("20260131-a") == "20260131-a"
        assert reader.find_run("20260131-ab") == "20260131-ab"
        assert reader.find_run("202602") == reader.find_run("last") == "20260201-c"
        with pytest.raises(
            JournalError, match="'2026' means several runs: 20260131-a, 20260131-ab, 20260201-c"
        ):
            reader.find_run("2026")
        for name in ("", "x", "%", "2026020_"):
            with pytest.raises(JournalError, match="has no run"):
                reader.find_run(name)


def test_no_journal(tmp_path: Path):
    """journal.md: reading makes nothing."""
    with pytest.raises(JournalError, match="no journal at"):
        open_journal(tmp_path / "j.db")
    assert list(tmp_path.iterdir()) == []


def test_rows_are_not_given_twice(journal: JournalFile):
    """journal.md: who keeps the last row misses nothing, even if the newest run is pruned."""
    appended(journal.create_run("a"), RECORDS)
    log = journal.create_run("b")
    appended(log, RECORDS)
    log.close()
    with open_journal(journal.path) as reader:
        last = list(reader.facts())[-1].row
        prune(journal.path, ["b"])
        appended(journal.create_run("c"), RECORDS[:1])
        assert [fact.run for fact in reader.facts(after=last)] == ["c"] * 3


def test_a_reader_costs_no_write_lock(journal: JournalFile):
    """issue 3: idle or in the middle of a page: another connection can always begin to write."""
    appended(journal.create_run("a"), RECORDS)
    with open_journal(journal.path) as reader:
        facts = reader.facts(follow=True)
        next(facts)
        other = writable(journal.path, power_safe=False)
        other.set_busy_timeout(0)
        other.execute("BEGIN IMMEDIATE; ROLLBACK")
        other.close()
