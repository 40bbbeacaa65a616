"""The two ways to append, inline and by a thread: the same answers, in order, on the loop's thread."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

import anyio
import pytest

from orchestrator.journal import Journal
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
from tests.journal.samples import run_of

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = run_of(30)


class Loop:
    """What stands for an event loop here: calls wait until they are run."""

    def __init__(self) -> None:
        self.calls: SimpleQueue = SimpleQueue()

    def post(self, call) -> None:
        self.calls.put(call)

    def turn(self) -> None:
        self.calls.get()()


def test_both_are_journals(tmp_path: Path):
    """engine.md 1: the seam is one protocol."""
    with JournalFile.open(tmp_path / "j.db", post=Loop().post) as journal:
        assert isinstance(journal.create_run("a"), Journal)


def test_inline_answers_before_submit_returns(tmp_path: Path):
    """engine.md 1: no task, no thread."""
    with JournalFile.open(tmp_path / "j.db", fsync="never") as journal:
        log = journal.create_run("a")
        answers: list[BaseException | None] = []
        log.submit(RECORDS[:3], answers.append)
        assert answers == [None]
        assert len(log) == 3


def test_a_thread_answers_through_post(tmp_path: Path):
    """engine.md 1: once per batch, in order, on the thread of the loop; records are readable by then."""
    loop = Loop()
    with JournalFile.open(tmp_path / "j.db", fsync="never", post=loop.post) as journal:
        log = journal.create_run("a")
        answers: list[tuple[int, int, BaseException | None]] = []

        def done(error: BaseException | None) -> None:
            answers.append((threading.get_ident(), len(log), error))

        for at in range(0, 30, 3):
            log.submit(RECORDS[at : at + 3], done)
            loop.turn()
            assert log.read(at) == RECORDS[at : at + 3]
        assert answers == [(threading.get_ident(), n, None) for n in range(3, 31, 3)]


def test_flush_answers_without_the_loop(tmp_path: Path):
    """engine.md 1: for callers that cannot wait on the loop; what an answer hands over is answered too."""
    loop = Loop()
    with JournalFile.open(tmp_path / "j.db", fsync="never", post=loop.post) as journal:
        log = journal.create_run("a")
        answers: list[BaseException | None] = []

        def done(error: BaseException | None) -> None:
            answers.append(error)
            if len(log) < 30:
                log.submit(RECORDS[len(log) : len(log) + 1], done)

        log.submit(RECORDS[:1], done)
        log.flush()
        assert len(answers) == len(log) == 30
        log.flush()
        while not loop.calls.empty():
            loop.turn()
        assert len(answers) == 30


def test_close_finishes_what_was_handed_over(tmp_path: Path):
    """engine.md 10: a process ends with its journal closed; a dead loop is no hindrance."""

    def closed(_call) -> None:
        raise RuntimeError("Event loop is closed")

    answers: list[BaseException | None] = []
    with JournalFile.open(tmp_path / "j.db", post=closed) as journal:
        journal.create_run("a").submit(RECORDS, answers.append)
    assert answers == [None]
    with open_journal(tmp_path / "j.db") as reader:
        assert list(reader.records("a")) == RECORDS
    assert not any(thread.name == "callboard-journal" for thread in threading.enumerate())


def test_a_fault_in_the_thread(tmp_path: Path):
    """bad-inputs 7: the same answer for that batch and every later one."""
    loop = Loop()
    with JournalFile.open(tmp_path / "j.db", post=loop.post) as journal:
        log = journal.create_run("a")
        answers: list[BaseException | None] = []
        for batch in (RECORDS[:1], RECORDS[5:6], RECORDS[1:2]):
            log.submit(batch, answers.append)
        log.flush()
        assert answers[0] is None
        assert answers[1] is answers[2] is log.fault


@pytest.mark.anyio
async def test_under_a_real_loop(tmp_path: Path, anyio_backend_name: str):
    """engine.md 1: asyncio's and trio's way to call on the loop both fit ``post``."""
    token = anyio.lowlevel.current_token()
    loop = Loop()
    with JournalFile.open(tmp_path / "j.db", fsync="never", post=loop.post) as journal:
        log = journal.create_run("a")
        answered = anyio.Event()
        log.submit(RECORDS, lambda _error: answered.set())
        call = await anyio.to_thread.run_sync(loop.calls.get)
        await anyio.to_thread.run_sync(lambda: anyio.from_thread.run_sync(call, token=token))
        await answered.wait()
        assert len(log) == 30
