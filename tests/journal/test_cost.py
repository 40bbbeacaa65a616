"""What it costs: only ratios are held, the figures are for the benchmarks."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import apsw
import pytest
from msgspec import Raw

from orchestrator.core.commands import Finish
from orchestrator.core.facts import NodeCompleted, NodeReady, NodeStarted
from orchestrator.core.records import Record, decode_record
from orchestrator.journal.fetching import COLUMNS
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
from tests.architecture.tree import ROOT
from tests.journal.power import Recorder
from tests.journal.samples import appended
from tests.journal.storms import LAYER, weather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from orchestrator.journal.runlog import RunLog


def no_ops(start: int, count: int) -> Iterator[Record]:
    """Records of a chain of no-op nodes, three facts each."""
    for seq in range(start, start + count):
        facts = [NodeCompleted(f"n{seq}", 1, 0), NodeReady(f"n{seq + 1}"), NodeStarted(f"n{seq + 1}", 1)]
        first = seq * 3 - 2
        command = Finish(f"n{seq}", 1, "completed", 0)
        yield Record(seq, first, seq * 10**9, command, facts, [Raw(b"null")], first - 1, 1796074176544089293)


def filled(log: RunLog, count: int) -> None:
    for at in range(1, count + 1, 100):
        appended(log, list(no_ops(at, 100)), 100)


def timed(call: Callable[[], object]) -> float:
    # the process's own time: what else the machine does is not measured
    start = time.process_time()
    call()
    return time.process_time() - start


def test_bytes_on_disk(ram: Path):
    """issue 3: at most 1 KiB per settled no-op node."""
    with JournalFile.open(ram / "j.db", fsync="never") as journal:
        filled(journal.create_run("20260131-120000-3f9ac1"), 10_000)
    assert (ram / "j.db").stat().st_size / 10_000 < 600


def test_syncs(ram: Path):
    """issue 3: one sync a commit, and few more: opening, closing and checkpoints included."""
    with weather(storm := Recorder()), JournalFile.open(ram / "j.db", vfs=LAYER) as journal:
        log = journal.create_run("r")
        for record in no_ops(1, 200):
            appended(log, [record])
    syncs = sum(what == "sync" for what, *_ in storm.calls)
    assert 200 <= syncs < 1.15 * 200


def test_append_cost_is_flat(ram: Path):
    """issue 3, bad-inputs 44: the 40,000th record costs what the first did."""
    with JournalFile.open(ram / "j.db", fsync="never") as journal:
        log = journal.create_run("r")
        times = []
        for at in range(1, 40_001, 500):
            batch = list(no_ops(at, 500))
            times.append(timed(lambda batch=batch: appended(log, batch, 50)))
        assert min(times[-20:]) < 2 * min(times[:20])


def test_reading_beside_a_bare_loop(ram: Path):
    """issue 3: at most 4 times a loop that fetches and decodes the same rows; best of 5, in turns."""
    with JournalFile.open(ram / "j.db", fsync="never") as journal:
        log = journal.create_run("r")
        filled(log, 33_400)
        rows = apsw.Connection(str(ram / "j.db"))

        def bare() -> None:
            for row in rows.execute(f"SELECT {COLUMNS} FROM records WHERE run = 'r' ORDER BY seq"):
                decode_record(row[10])

        def ours() -> None:
            for at in range(0, len(log), 1000):
                log.read(at, at + 1000)

        def facts() -> None:
            with open_journal(ram / "j.db") as reader:
                assert sum(1 for _ in reader.facts()) == 3 * 33_400

        pairs = [(timed(bare), timed(ours), timed(facts)) for _ in range(5)]
    base, reading, listing = (min(times) for times in zip(*pairs, strict=True))
    assert reading < 4 * base
    assert listing < 8 * base


def test_listing_facts_is_linear(ram: Path):
    """bad-inputs 44: twice the facts take at most 2.3 times as long, by run as over all."""
    times = {}
    with JournalFile.open(ram / "j.db", fsync="never") as journal:
        for run, count in (("a", 5_000), ("b", 10_000)):
            filled(journal.create_run(run), count)
        for _ in range(5):
            for run in ("a", "b"):
                with open_journal(ram / "j.db") as reader:
                    took = timed(lambda reader=reader, run=run: sum(1 for _ in reader.facts(run)))
                times[run] = min(times.get(run, 9.0), took)
    assert times["b"] < 2.3 * times["a"]


LARGE = """
import resource, sys
from msgspec import Raw
from tests.journal.samples import run_of
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
SIZE = 64 * 1024 * 1024
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
with JournalFile.open(sys.argv[1], fsync="never") as journal:
    log = journal.create_run("r")
    for record in run_of(7):
        if record.seq > 1:
            record.values[0] = Raw(b'"' + bytes([64 + record.seq]) * (SIZE - 2) + b'"')
        log.submit([record], lambda error: sys.exit(str(error)) if error else None)
        record.values.clear()
    after = peak()
    with open_journal(sys.argv[1]) as reader:
        sizes = [len(memoryview(r.values[0])) for r in reader.records("r") if r.values]
print(before, after, peak(), sizes == [SIZE] * 6)
"""


@pytest.mark.slow
def test_memory_for_large_values(ram: Path):
    """bad-inputs 31: six values of 64 MiB pass through; memory is for one or two of them, not for six."""
    command = [sys.executable, "-c", LARGE, str(ram / "j.db")]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    before, written, read, whole = done.stdout.split()
    assert whole == "True"
    assert int(written) - int(before) < 3 * 64
    assert int(read) - int(before) < 6 * 64
