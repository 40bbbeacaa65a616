"""Power cuts: with ``fsync: always`` nothing that was acknowledged is lost, and no loss passes in silence."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import CorruptJournalError, JournalError
from orchestrator.journal.checking import verify
from orchestrator.journal.files import JournalFile
from orchestrator.journal.limits import INLINE
from tests.journal.power import Disk, Recorder
from tests.journal.samples import appended, run_of
from tests.journal.storms import LAYER, weather
from tests.nightly import parts, seeds

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = run_of(40, stop="ended")
RECORDS[20] = run_of(40, value=b'"' + b"z" * INLINE + b'"')[20]
OTHERS = run_of(40)


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> tuple[dict[str, bytes], Recorder]:
    """A journal with five records of run r, and every call that brings it to forty.

    Meanwhile run s, which is not synced, appends to the same file; checkpoints come every few pages.
    """
    folder = tmp_path_factory.mktemp("power")
    with JournalFile.open(folder / "j.db") as journal:
        appended(journal.create_run("r"), RECORDS[:5])
    base = {path.name: path.read_bytes() for path in folder.iterdir()}
    recorder = Recorder()
    recorder.told(5)
    with weather(recorder), JournalFile.open(folder / "j.db", fsync="never", vfs=LAYER) as journal:
        for _ in range(2):
            log = journal.open_run("r")
            other = journal.create_run("s") if not len(log) - 5 else journal.open_run("s")
            log._connection.execute("PRAGMA wal_autocheckpoint=24")
            other._connection.execute("PRAGMA wal_autocheckpoint=16")
            draw = random.Random(7)
            stop = 22 if len(log) == 5 else 40
            while len(log) < stop:
                upto = min(len(log) + draw.randint(1, 4), stop)
                appended(log, RECORDS[len(log) : upto], 4)
                recorder.told(len(log))
                appended(other, OTHERS[len(other) : upto], 2)
            log.close()
            other.close()
    assert {"write", "sync", "told"} <= {what for what, *_ in recorder.calls}
    assert any(what == "sync" and name == "j.db" for what, name, *_ in recorder.calls), "no checkpoint"
    return base, recorder


def cut(folder: Path, story: tuple[dict[str, bytes], Recorder], seed: int) -> str:
    """One cut; says what became of the run that is not synced."""
    base, recorder = story
    draw = random.Random(seed)
    disk = Disk(base, draw)
    disk.play(recorder.calls[: draw.randint(1, len(recorder.calls))])
    disk.cut(folder)
    with JournalFile.open(folder / "j.db") as journal:
        log = journal.open_run("r")
        assert len(log) >= disk.told, f"seed {seed}: told of {disk.told}, found {len(log)}"
        assert log.read(0) == RECORDS[: len(log)]
        appended(log, RECORDS[len(log) :], 5)
        log.close()
        assert verify(folder / "j.db", "r") == [], f"seed {seed}"
        return fate_of_the_other(journal)


def fate_of_the_other(journal: JournalFile) -> str:
    try:
        other = journal.open_run("s")
    except CorruptJournalError as error:
        return "loss is named" if "head says" in str(error) else str(error)
    except JournalError as error:
        return "never was" if "no run s" in str(error) else str(error)
    assert other.read(0) == OTHERS[: len(other)]
    return "there"


def test_power_cuts(ram: Path, story):
    """200 cuts at any call, with any part of what was not synced."""
    outcomes = set()
    for seed in range(200):
        folder = ram / str(seed)
        folder.mkdir()
        outcomes.add(cut(folder, story, seed))
    assert outcomes == {"there", "never was", "loss is named"}


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("part", parts(4))
def test_a_thousand_power_cuts(ram: Path, story, part: int):
    """The same, 250 cuts in each part: 1,000, and 10,000 at night."""
    for seed in seeds(part, 250):
        folder = ram / str(seed)
        folder.mkdir()
        cut(folder, story, seed)


def test_the_disk_of_these_tests_does_lose_things(ram: Path, story):
    """The test is not green by being harmless: with syncs taken out, acknowledged records go missing."""
    base, recorder = story
    calls = [call for call in recorder.calls if call[0] != "sync"]
    lost = 0
    for seed in range(40):
        folder = ram / str(seed)
        folder.mkdir()
        draw = random.Random(seed)
        disk = Disk(base, draw)
        disk.play(calls[: draw.randint(len(calls) // 2, len(calls))])
        disk.cut(folder)
        try:
            with JournalFile.open(folder / "j.db") as journal:
                lost += len(journal.open_run("r")) < disk.told
        except JournalError:
            lost += 1
    assert lost > 5
