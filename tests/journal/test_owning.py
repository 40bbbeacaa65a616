"""One owner per run: a second one is told who drives it, a fenced one appends nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from orchestrator.errors import JournalError, RunOwnedError
from orchestrator.journal.checking import verify
from orchestrator.journal.files import JournalFile
from orchestrator.journal.owning import lock_path, owned
from orchestrator.journal.reading import open_journal
from tests.architecture.tree import ROOT
from tests.journal.samples import appended, run_of

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = run_of(8)

DRIVER = """
import sys
from orchestrator.journal.files import JournalFile
from tests.journal.samples import run_of
with JournalFile.open(sys.argv[1]) as journal:
    log = journal.open_run("r")
    print("owned", log.epoch, flush=True)
    for line in sys.stdin:
        errors = []
        at = len(log)
        log.submit(run_of(8)[at : at + 1], errors.append)
        print(type(errors[0]).__name__, str(errors[0]), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with JournalFile.open(tmp_path / "j.db", fsync="never") as journal:
        appended(journal.create_run("r"), RECORDS[:2])
    return tmp_path / "j.db"


@pytest.fixture
def driver(path: Path):
    """Another process that owns run r and appends a record for each line that it is given."""
    child = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "owned 2\n"
    with child:
        yield child
        child.kill()


def told(child: subprocess.Popen[str]) -> str:
    child.stdin.write("append\n")
    child.stdin.flush()
    return child.stdout.readline()


def test_a_second_process(path: Path, driver):
    """bad-inputs 9, RESUME 71: refused at once with the owner's pid and host; the first is undisturbed."""
    with JournalFile.open(path) as journal:
        for _ in range(2):
            with pytest.raises(RunOwnedError) as refused:
                journal.open_run("r")
            assert str(driver.pid) in str(refused.value)
            assert os.uname().nodename in str(refused.value)
    with open_journal(path) as reader:
        assert [info.live for info in reader.runs()] == [True]
    assert told(driver) == "NoneType None\n"
    driver.stdin.close()
    assert driver.wait() == 0
    assert not lock_path(path, "r").exists()


def test_a_killed_owner(path: Path, driver):
    """journal.md: the kernel drops the lock with the process; nobody has to clean up."""
    driver.kill()
    driver.wait()
    assert lock_path(path, "r").exists()
    assert not owned(path, "r")
    with JournalFile.open(path) as journal:
        log = journal.open_run("r")
        assert log.epoch == 3
        appended(log, RECORDS[2:])


def test_a_stopped_owner_wakes_up_fenced(path: Path, driver):
    """RESUME 75: its run was taken over while it slept; its next append fails and it stays out."""
    assert told(driver) == "NoneType None\n"
    os.kill(driver.pid, signal.SIGSTOP)
    with JournalFile.open(path) as journal:
        with pytest.raises(RunOwnedError):
            journal.open_run("r")
        log = journal.open_run("r", take=True)
        assert len(log) == 3
        os.kill(driver.pid, signal.SIGCONT)
        assert told(driver).startswith("RunOwnedError run r was taken over by another process")
        appended(log, RECORDS[3:5])
        assert told(driver).startswith("RunOwnedError")
        driver.stdin.close()
        driver.wait()
        assert owned(path, "r"), "the fenced owner released its successor's lock"
        appended(log, RECORDS[5:])
        assert log.read(0) == RECORDS
    assert verify(path, "r") == []


def test_two_owners_in_one_process(path: Path):
    """engine.md 26: a lock of fcntl does not stop its own process: a table does."""
    with JournalFile.open(path) as journal, JournalFile.open(path) as other:
        log = journal.open_run("r")
        with pytest.raises(RunOwnedError, match="already open in this process"):
            other.open_run("r")
        appended(log, RECORDS[2:4])
        log.close()
        log.close()
        assert other.open_run("r").read(0) == RECORDS[:4]


def test_runs_of_one_file_have_owners_of_their_own(path: Path, driver):
    """journal.md: ownership is per run, not per file."""
    with JournalFile.open(path) as journal:
        log = journal.create_run("mine")
        for record in RECORDS:
            appended(log, [record])
            if record.seq <= 6:
                assert told(driver) == "NoneType None\n"
        assert verify(path, "r") == verify(path, "mine") == []


def test_exactly_one_of_many_gets_it(path: Path):
    """RESUME 74: eight processes resume at once; one proceeds, the others are told."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    lines = [child.stdout.readline() for child in children]
    outputs = [child.communicate()[1] for child in children]
    assert sorted(lines) == [""] * 5 + ["owned 2\n"]
    assert sum("RunOwnedError" in output for output in outputs) == 5


def test_usage(path: Path):
    """journal.md: what is asked wrongly is refused in words."""
    with JournalFile.open(path) as journal:
        with pytest.raises(JournalError, match="has no run nobody"):
            journal.open_run("nobody")
        with pytest.raises(JournalError, match="has a run r already"):
            journal.create_run("r")
        for name in ("", "last", "a/b", "..", "x" * 129, "a b", "-x"):
            with pytest.raises(JournalError, match="cannot name a run"):
                journal.create_run(name)
        log = journal.open_run("r")
        errors: list[BaseException | None] = []
        log.submit(RECORDS[5:6], errors.append)
        assert "record 6 was handed over after record 2" in str(errors[0])
    log.submit(RECORDS[2:3], errors.append)
    assert errors[1] is errors[0]
    assert log.read(0) == RECORDS[:2]
    with pytest.raises(JournalError, match="write 'always' or 'never'"):
        JournalFile.open(path, fsync="sometimes")  # type: ignore[arg-type]


def test_many_threads_look_while_one_owns(path: Path):
    """engine.md 26: looking whether a run is owned never makes an owner fail."""
    with JournalFile.open(path) as journal:
        stop = threading.Event()
        seen: list[bool] = []

        def look() -> None:
            while not stop.is_set():
                seen.append(owned(path, "r"))

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            log = journal.open_run("r")
            assert owned(path, "r")
            log.close()
        stop.set()
        for thread in threads:
            thread.join()
    assert len(seen) > 50
