"""A million facts, and a reader beside a run: what a journal costs when it is large or looked at.

What is measured is processor time of the process itself, so that the rest of the machine counts little.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import anyio
import pytest

from orchestrator import Budget, Session
from orchestrator.flows.graph import Graph
from orchestrator.journal.files import JournalFile
from tests.architecture.tree import ROOT
from tests.benchmarks import shapes
from tests.benchmarks.measure import best
from tests.journal.samples import appended
from tests.journal.test_cost import no_ops

pytestmark = pytest.mark.benchmark

MILLION = 334_000
#: Makes a journal of so many nodes; then, in a process of its own, reads it, and resumes it.
MAKE = """
import sys, anyio
from pathlib import Path
from tests.benchmarks.test_journal import _suspended
print(anyio.run(_suspended, Path(sys.argv[1]), int(sys.argv[2])))
"""
READ = """
import sys, time, apsw
from orchestrator.journal.fetching import COLUMNS, blob_of
from orchestrator.journal.reading import open_journal
from orchestrator.journal.rows import Row, unpack
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
began = time.process_time()
query = f"SELECT {COLUMNS} FROM records WHERE run = ? ORDER BY seq"
for columns in connection.execute(query, sys.argv[2:]):
    unpack(Row(*columns), lambda name: blob_of(connection, name))
bare = time.process_time() - began
began = time.process_time()
with open_journal(sys.argv[1]) as reader:
    facts = sum(len(record.facts) for record in reader.records(sys.argv[2]))
print(facts, bare, time.process_time() - began)
"""
RESUME = """
import resource, sys, time, anyio
from orchestrator import Session
from tests.benchmarks import shapes, test_journal
async def resumed():
    async with Session(journal=sys.argv[1]) as session:
        began = time.process_time()
        run = await session.resume(sys.argv[2])
        took = time.process_time() - began
        assert (await run.wait()).reason == "awaiting_answer"
    print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
anyio.run(resumed)
"""
FOLLOW = """
import sys
from orchestrator.journal.reading import open_journal
with open_journal(sys.argv[1]) as reader:
    print("ready", flush=True)
    for fact in reader.facts(follow=True):
        pass
"""


def said(program: str, *words: object) -> list[str]:
    """What a process printed."""
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def test_resuming_a_million_facts(ram: Path) -> None:
    """journal.md: under 15 s and 1.5 GiB; at most 4 times a loop that reads and decodes the same rows."""
    path = ram / "j.db"
    (run,) = said(MAKE, path, MILLION)
    facts, bare, reading = said(READ, path, run)
    resuming, peak = said(RESUME, path, run)
    ratio = float(resuming) / float(bare)
    seconds = f"decoding {bare} s, with the chain {reading} s, resuming {resuming} s"
    size = path.stat().st_size / MILLION
    print(f"\n{int(facts):,} facts: {seconds} ({ratio:.2f}x), {float(peak):.0f} MiB, {size:.0f} bytes a node")
    assert int(facts) >= 1_000_000
    assert ratio <= 4.0
    assert float(resuming) < 15
    assert float(peak) < 1.5 * 1024
    assert path.stat().st_size / MILLION <= 1024


def test_appending_a_million_facts(ram: Path) -> None:
    """bad-inputs 44: the last twentieth of a million costs what the first did."""
    with JournalFile.open(ram / "j.db", fsync="never") as journal:
        log = journal.create_run("r")
        times = []
        for at in range(1, MILLION, 2_000):
            batch = list(no_ops(at, 2_000))
            began = time.process_time()
            appended(log, batch, 64)
            times.append(time.process_time() - began)
    share = len(times) // 20
    first, last = (sorted(part)[share // 2] / 2_000 * 1e6 for part in (times[:share], times[-share:]))
    print(f"\nappending a record: {first:.2f} us at first, {last:.2f} us after a million facts")
    assert last < 1.5 * first


async def _ran(graph: Graph, path: Path) -> float:
    async with Session(journal=path) as session:
        began = time.process_time()
        result = await (await session.start(graph, budget=Budget(concurrency=64))).wait()
        took = time.process_time() - began
    assert result.ok, result.detail
    return took


def test_a_reader_beside_a_run(ram: Path) -> None:
    """issue 3: a process that follows every fact costs the run at most 15 %."""
    graph, numbers = shapes.fan(1_000), count()

    def alone() -> float:
        return anyio.run(_ran, graph, ram / f"{next(numbers)}.db")

    def read() -> float:
        path = ram / f"{next(numbers)}.db"
        with JournalFile.open(path) as journal:
            journal.create_run("first").close()
        follower = subprocess.Popen(
            [sys.executable, "-c", FOLLOW, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        with follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "ready\n"
            took = anyio.run(_ran, graph, path)
            follower.kill()
        return took

    least = best({"alone": alone, "read": read})
    ratio = least["read"] / least["alone"]
    print(f"\na fan of 1,000: alone {least['alone'] * 1e3:.1f} ms, followed {ratio:.3f}x")
    assert ratio <= 1.15
