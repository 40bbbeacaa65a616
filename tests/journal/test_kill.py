"""SIGKILL at every boundary of every append: what was acknowledged is there, and no more than was decided."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from orchestrator.journal.checking import verify
from orchestrator.journal.files import JournalFile
from orchestrator.journal.limits import INLINE
from orchestrator.journal.reading import open_journal
from tests.journal.samples import appended, run_of
from tests.journal.storms import LAYER, Kill, Storm, forked
from tests.nightly import parts, seeds

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

RECORDS = run_of(9, stop="ended")
RECORDS[4:5] = [run_of(9, value=b'"' + b"x" * INLINE + b'"', stop="ended")[4]]
BATCHES = [RECORDS[:1], RECORDS[1:2], RECORDS[2:5], RECORDS[5:7], RECORDS[7:8], RECORDS[8:]]


class Acknowledged:
    """How many records the child was told are durable; written where a kill cannot take it back."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def say(self, count: int) -> None:
        os.write(self.file, bytes([count]))

    @property
    def count(self) -> int:
        said = os.pread(self.file, 1000, 0)
        return said[-1] if said else 0


def known(folder: Path) -> bool:
    with open_journal(folder / "j.db") as reader:
        return [info.run for info in reader.runs()] == ["r"]


def written(folder: Path, acknowledged: Acknowledged, fsync: str) -> None:
    """Begin or go on with the run, batch by batch, and close it."""
    with JournalFile.open(folder / "j.db", fsync=fsync, vfs=LAYER) as journal:
        log = journal.open_run("r") if known(folder) else journal.create_run("r")
        log._connection.execute("PRAGMA wal_autocheckpoint=8")
        there = len(log)
        assert log.read(0) == RECORDS[:there]
        for batch in BATCHES:
            rest = [record for record in batch if record.seq > there]
            if rest:
                appended(log, rest, len(rest))
                acknowledged.say(rest[-1].seq)


def held(folder: Path, acknowledged: Acknowledged) -> int:
    """What another process finds; how many records."""
    if not (folder / "j.db").exists():
        assert acknowledged.count == 0
        return 0
    with JournalFile.open(folder / "j.db") as journal:
        if not known(folder):
            assert acknowledged.count == 0
            return 0
        log = journal.open_run("r")
        there = len(log)
        assert log.read(0) == RECORDS[:there]
    assert there >= acknowledged.count
    assert there in {0, *(batch[-1].seq for batch in BATCHES)}, "a batch was torn apart"
    assert verify(folder / "j.db", "r") == []
    return there


def boundaries(folder: Path, fsync: str) -> int:
    folder.mkdir()
    counted = Storm()
    out = folder / "count"

    def work() -> None:
        written(folder, Acknowledged(folder / "said"), fsync)
        out.write_text(str(counted.count))

    assert not forked(work, counted)
    return int(out.read_text())


@pytest.mark.parametrize(
    ("fsync", "torn"),
    [
        ("always", False),
        ("never", True),
        pytest.param("always", True, marks=pytest.mark.slow),
        pytest.param("never", False, marks=pytest.mark.slow),
    ],
)
def test_every_boundary(ram: Path, fsync: str, torn: bool):
    """RESUME 64, bad-inputs 1: killed before each call, or with half of each write done; then finished."""
    found = set()
    total = boundaries(ram / "count", fsync)
    assert total > 60
    for nth in range(1, total + 1):
        folder = ram / str(nth)
        folder.mkdir()
        said = Acknowledged(folder / "said")
        assert forked(lambda at=folder, said=said: written(at, said, fsync), Kill(nth, torn=torn))
        found.add(held(folder, said))
        written_quietly(folder, said, fsync)
        assert held(folder, said) == len(RECORDS)
        os.close(said.file)
    assert found >= {0, 1, 2, 5, 7, 8}


def written_quietly(folder: Path, said: Acknowledged, fsync: str) -> None:
    assert not forked(lambda: written(folder, said, fsync), Storm())


def crashed_twice(ram: Path, seed: int, total: int) -> None:
    draw = random.Random(seed)
    fsync = draw.choice(["always", "never"])
    folder = ram / str(seed)
    folder.mkdir()
    said = Acknowledged(folder / "said")
    forked(lambda: written(folder, said, fsync), Kill(draw.randint(1, total), torn=draw.random() < 0.5))
    # the recovery is killed too, mostly in its first calls
    nth = draw.randint(1, 12) if draw.random() < 0.7 else draw.randint(1, total)
    forked(lambda: written(folder, said, fsync), Kill(nth, torn=draw.random() < 0.5))
    held(folder, said)
    written_quietly(folder, said, fsync)
    assert held(folder, said) == len(RECORDS)
    os.close(said.file)


def test_a_second_crash_during_recovery(ram: Path):
    """RESUME 65: killed while it recovers from being killed."""
    total = boundaries(ram / "count", "always")
    for seed in range(40):
        crashed_twice(ram, seed, total)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("part", parts(10))
def test_a_thousand_pairs_of_crashes(ram: Path, part: int):
    """The same, 100 pairs in each part: 1,000, and 10,000 at night."""
    total = boundaries(ram / "count", "always")
    for seed in seeds(part, 100):
        crashed_twice(ram, seed, total)
