"""What a journal on disk costs, in memory-backed folders where there are any: ratios within one run.

Time is taken on a file system in memory, because a disk throttles after a burst; what a disk would feel, the
commits and syncs, is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from anyio.abc import TaskGroup

from orchestrator import Budget, OperationGraphBuilder, Session, Turn, role
from orchestrator.flows.graph import Graph
from orchestrator.journal.copying import copy
from orchestrator.journal.fetching import COLUMNS, blob_of
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
from orchestrator.journal.rows import Row, unpack
from orchestrator.journal.runlog import RunLog
from orchestrator.runtime.envelopes import Envelope
from tests.benchmarks import shapes
from tests.benchmarks.measure import best, consumed, row
from tests.journal.power import Recorder
from tests.journal.storms import LAYER, weather

pytestmark = pytest.mark.benchmark

#: A row of a settled no-op node, about as long as ours.
_ROW = b"x" * 490


async def _ran(graph: Graph, slots: int, journal: Any) -> float:
    """Seconds from start to result of one run, with a tap that counts every fact."""
    counted = 0

    async def count(_envelope: Envelope) -> None:
        nonlocal counted
        counted += 1

    async with Session(journal=journal) as session, session.tap(count):
        began = time.perf_counter()
        run = await session.start(graph, budget=Budget(concurrency=slots))
        result = await run.wait()
        took = time.perf_counter() - began
    assert result.ok, (result.reason, result.detail)
    assert counted == run.engine.state.facts, "the tap that counts every fact lost some"
    return took


def _shape(graph: Graph, slots: int, folder: Path | None, numbers: Iterator[int]) -> Callable[[], float]:
    """One run, each time in a journal of its own, or in memory."""

    def run() -> float:
        return anyio.run(_ran, graph, slots, None if folder is None else folder / f"{next(numbers)}.db")

    return run


@pytest.mark.parametrize("slots", [64, 5])
def test_fan_and_layers_on_disk(slots: int, ram: Path) -> None:
    """At 64 slots a node of a fan costs at most 3 bare tasks of a chain, each commit synced."""
    numbers = iter(range(1_000))
    runs: dict[str, Callable[[], float]] = {"bare": lambda: anyio.run(shapes.bare_chain, 1_000)}
    for name, make in (("fan", shapes.fan), ("layers", shapes.layers)):
        graph = make(1_000)
        runs[f"{name} in memory"] = _shape(graph, slots, None, numbers)
        runs[f"{name} on disk"] = _shape(graph, slots, ram, numbers)
    least = best(runs)
    bare = least.pop("bare")
    print(f"\n{slots} slots, 1,000 nodes; bare chain {bare / 1_000 * 1e6:.2f} us")
    for name, seconds in least.items():
        print(row(name, seconds, 1_000, bare))
    for name in ("fan", "layers"):
        ratio = least[f"{name} on disk"] / least[f"{name} in memory"]
        print(f"{name}: {ratio:.2f}x memory")
        assert slots < 64 or ratio <= 3.0
    assert slots < 64 or least["fan on disk"] <= 3.0 * bare


async def _committing(folder: Path, count: int) -> float:
    """Seconds of a bare chain of tasks, each of which commits one row with bare SQLite."""
    connection = apsw.Connection(str(folder / "bare.db"))
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    connection.execute("DROP TABLE IF EXISTS rows; CREATE TABLE rows (id INTEGER PRIMARY KEY, payload TEXT)")

    async def node(group: TaskGroup, left: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (payload) VALUES (CAST(? AS TEXT))", (_ROW,))
        connection.execute("COMMIT")
        if left > 1:
            group.start_soon(node, group, left - 1)

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        group.start_soon(node, group, count)
    took = time.perf_counter() - began
    connection.close()
    return took


def test_a_chain_beside_a_bare_commit_for_each_node(ram: Path) -> None:
    """A chain cannot be grouped: at most 4 times a bare task with a bare commit, where a sync costs nothing.

    Where it costs something, it is most of both.
    """
    graph = shapes.chain(1_000)
    least = best(
        {
            "bare": lambda: anyio.run(_committing, ram, 1_000),
            "chain": _shape(graph, 64, ram, iter(range(1_000))),
        }
    )
    print(f"\nbare task and commit {least['bare'] / 1_000 * 1e6:.2f} us")
    print(row("chain on disk", least["chain"], 1_000, least["bare"]))
    assert least["chain"] <= 4.0 * least["bare"]


def _counted(graph: Graph, slots: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Commits and syncs of one run."""
    commits = 0
    submit = RunLog.submit

    def counting(self: RunLog, batch: Any, done: Any) -> None:
        nonlocal commits
        commits += 1
        submit(self, batch, done)

    monkeypatch.setattr(RunLog, "submit", counting)
    with weather(storm := Recorder()), JournalFile.open(folder / "j.db", vfs=LAYER) as file:
        before = sum(what == "sync" for what, *_ in storm.calls)
        anyio.run(_ran, graph, slots, lambda: file.create_run("r"))
        syncs = sum(what == "sync" for what, *_ in storm.calls) - before
    return commits, syncs


@pytest.mark.parametrize("shape", ["fan", "layers"])
def test_commits_of_a_wide_graph(shape: str, ram: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 nodes at 64 slots: at most one commit for 32 nodes of a fan."""
    graph = shapes.fan(1_000) if shape == "fan" else shapes.layers(1_000)
    commits, syncs = _counted(graph, 64, ram, monkeypatch)
    print(f"\n{shape}: {commits} commits, {syncs} syncs, {1_000 / commits:.0f} nodes a commit")
    assert commits <= 1_000 / 32
    assert syncs <= commits + 12


def test_syncs_of_a_chain(ram: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of 200: at most one and a half syncs for a node."""
    commits, syncs = _counted(shapes.chain(200), 64, ram, monkeypatch)
    print(f"\nchain: {commits} commits, {syncs} syncs")
    assert syncs <= 1.5 * 200


# --- resuming --------------------------------------------------------------------------------------


@role()
async def asks(turn: Turn) -> str:
    """The last node: the run waits for it."""
    return str(await turn.ask("Go on?", key="go"))


async def _suspended(path: Path, nodes: int) -> str:
    """A run of so many nodes that have settled, and one that asks."""
    graph = OperationGraphBuilder("long")
    graph.add_operation(shapes.noop, "root", [])
    for number in range(nodes):
        graph.add_operation(shapes.noop, f"n{number}", ["root"])
    graph.add_operation(asks, "last", ["root", "n0"])
    async with Session(journal=path, fsync="never") as session:
        run = await session.start(graph, budget=Budget(concurrency=64))
        result = await run.wait()
    assert result.reason == "awaiting_answer", (result.reason, result.detail)
    return run.id


def test_resuming_beside_reading(ram: Path) -> None:
    """100,000 facts: at most 4 times a loop that reads and decodes the same rows, and checks nothing.

    The same rows are the run's records and what they refer to in the blob table, the planned graph. Processor
    time, so that what else runs on the machine counts little; every resuming is of a fresh copy.
    """
    first = ram / "j.db"
    run_id = anyio.run(_suspended, first, 33_400)
    connection = apsw.Connection(str(first), flags=apsw.SQLITE_OPEN_READONLY)
    facts = connection.execute("SELECT max(last) FROM records").get
    assert facts >= 100_000
    numbers = iter(range(1_000))

    def decoding() -> None:
        query = f"SELECT {COLUMNS} FROM records WHERE run = ? ORDER BY seq"
        for columns in connection.execute(query, (run_id,)):
            unpack(Row(*columns), lambda name: blob_of(connection, name))

    def reading() -> None:
        with open_journal(first) as reader:
            assert sum(1 for _ in reader.records(run_id)) >= 33_400

    async def resumed() -> float:
        path = ram / f"{next(numbers)}.db"
        copy(first, path)
        async with Session(journal=path) as session:
            began = time.process_time()
            run = await session.resume(run_id)
            took = time.process_time() - began
            result = await run.wait()
        assert result.reason == "awaiting_answer"
        path.unlink()
        return took

    runs: dict[str, Callable[[], float]] = {
        "reading and decoding": lambda: consumed(decoding),
        "reading, with the chain": lambda: consumed(reading),
        "resuming": lambda: anyio.run(resumed),
    }
    least = best(runs)
    print(f"\n{facts:,} facts; resuming {least['resuming']:.2f} s")
    for name in runs:
        print(row(name, least[name], facts, least["reading and decoding"]))
    assert least["resuming"] <= 2.5 * least["reading, with the chain"]
    assert least["resuming"] <= 4.0 * least["reading and decoding"]
