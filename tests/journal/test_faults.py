"""The nth call that changes a file fails, once or from then on: the run halts, says so, and loses nothing."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
from pathlib import Path

import pytest

from orchestrator.errors import JournalError, NeedsRecoveryError
from orchestrator.journal.checking import verify
from orchestrator.journal.control import request
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
from tests.journal.samples import run_of
from tests.journal.storms import LAYER, Fail, Storm, weather

RECORDS = run_of(12, stop="ended")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    # an error that SQLite gets over is reported by apsw as unraisable
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def driven(folder: Path, storm: Storm) -> tuple[list[BaseException | None], int]:
    """Begin a run and append to it in batches of two. The answers, and how many records were acknowledged."""
    answers: list[BaseException | None] = []
    acknowledged = 0
    with weather(storm):
        try:
            with JournalFile.open(folder / "j.db", vfs=LAYER) as journal:
                log = journal.create_run("r")
                log._connection.execute("PRAGMA wal_autocheckpoint=8")
                for at in range(0, len(RECORDS), 2):
                    log.submit(RECORDS[at : at + 2], answers.append)
                    acknowledged = len(log)
        except JournalError as error:
            answers.append(error)
    return answers, acknowledged


def recovered(folder: Path, acknowledged: int) -> int:
    """With the disk mended the run is there, or never was acknowledged; it can be finished."""
    with JournalFile.open(folder / "j.db") as journal:
        with open_journal(folder / "j.db") as reader:
            known = bool(reader.runs())
        log = journal.open_run("r") if known else journal.create_run("r")
        there = len(log)
        assert there >= acknowledged
        assert log.read(0) == RECORDS[:there]
        errors: list[BaseException | None] = []
        log.submit(RECORDS[there:], errors.append)
        assert errors == [None]
    assert verify(folder / "j.db", "r") == []
    return there


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "sticky"])
@pytest.mark.parametrize("full", [False, True], ids=["broken", "full"])
def test_every_call_fails(ram: Path, *, sticky: bool, full: bool):
    """bad-inputs 7, RESUME 72: for every n. After a fault every later append is refused too."""
    (ram / "0").mkdir()
    answers, acknowledged = driven(ram / "0", counted := Storm())
    assert answers == [None] * 6
    halted = 0
    for nth in range(1, counted.count + 1):
        folder = ram / str(nth)
        folder.mkdir()
        answers, acknowledged = driven(folder, storm := Fail(nth, sticky=sticky, full=full))
        first = next((n for n, answer in enumerate(answers) if answer is not None), None)
        if first is not None:
            assert all(answer is not None for answer in answers[first:]), "went on after a fault"
            halted += isinstance(answers[first], NeedsRecoveryError)
        assert first is not None or not storm.hits or acknowledged == len(RECORDS)
        recovered(folder, acknowledged)
    assert halted > 10


def test_the_answer_says_what_and_what_next(ram: Path):
    """journal.md: a failed commit never proves absence; the message names records, cause and command."""
    errors: list[BaseException | None] = []
    storm = Fail(10**9, sticky=True, full=True)
    with weather(storm), JournalFile.open(ram / "j.db", vfs=LAYER) as journal:
        log = journal.create_run("r")
        log.submit(RECORDS[:2], errors.append)
        storm.nth = 0
        log.submit(RECORDS[2:3], errors.append)
        storm.nth = 10**9
        log.submit(RECORDS[2:3], errors.append)
    assert errors[0] is None
    assert isinstance(errors[1], NeedsRecoveryError)
    assert "run r: records 3 to 3 are not acknowledged (FullError" in str(errors[1])
    assert "callboard resume r" in str(errors[1])
    assert errors[2] is errors[1]
    assert recovered(ram, 2) == 2


def test_a_full_disk_for_real(ram: Path):
    """bad-inputs 7: the system's own limit on a file's size, in a child."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            errors: list[BaseException | None] = []
            with JournalFile.open(ram / "j.db") as journal:
                log = journal.create_run("r")
                resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
                for record in RECORDS:
                    log.submit([record], errors.append)
                code = 0 if isinstance(errors[-1], NeedsRecoveryError) and errors[0] is None else 2
                (ram / "said").write_text(str(len(log)))
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    recovered(ram, int((ram / "said").read_text()))


def as_nobody(work) -> int:
    """Do something in a child that permissions apply to; its exit code is what the work returns."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_folder_that_cannot_be_written():
    """bad-inputs: read-only folder. Appending is refused with the path; reading works."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with JournalFile.open(folder / "j.db") as journal:
            log = journal.create_run("r")
            log.submit(RECORDS, lambda _error: None)
        assert not (folder / "j.db-wal").exists()
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)

        def work() -> int:
            with open_journal(folder / "j.db") as reader:
                assert list(reader.records("r")) == RECORDS
            assert verify(folder / "j.db", "r") == []
            for attempt in (
                lambda: JournalFile.open(folder / "j.db").open_run("r"),
                lambda: JournalFile.open(folder / "new.db"),
                lambda: request(folder / "j.db", "r", "pause"),
            ):
                with pytest.raises(JournalError, match=r"\.db"):
                    attempt()
            return 0

        assert as_nobody(work) == 0
        folder.chmod(0o755)
