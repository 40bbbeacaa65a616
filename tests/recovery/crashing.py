"""Processes that die at a boundary of an append, and what must be true of those that go on."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import signal
import sys
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.core.laws import check, check_facts
from orchestrator.core.machine import GraphMachine
from orchestrator.core.status import TERMINAL, Status
from orchestrator.journal.checking import verify
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
from orchestrator.journal.runlog import RunLog
from orchestrator.runtime.projections import run_result
from orchestrator.runtime.replaying import replay
from orchestrator.testing.loops import run_virtual
from tests.recovery import canon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from orchestrator.core.records import Record
    from orchestrator.core.state import RunState
    from orchestrator.testing.loops import Backend

Moment = Literal["opened", "before", "stored", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "stored", "after")

#: Statuses of attempts that a kill takes down with it.
UNDER_WAY = (Status.RUNNING, Status.STOPPING, Status.ASKING)


@dataclass(frozen=True)
class Point:
    """Where a process dies.

    Attributes:
        nth: which append of the process, from 1. moment: before it, when it is on disk and nobody knows,
            or when its effects are released; ``opened``: when the run is owned, before it is read.
    """

    nth: int
    moment: Moment = "before"


def die() -> None:
    """As by ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)


def deadly(point: Point | None, count: Path | None = None) -> None:
    """Make this process die at a point; ``count``: where it says how many appends there were."""
    submit, opened = RunLog.submit, JournalFile.open_run
    appends = 0

    def dying(self: RunLog, batch: Sequence[Record], done: Callable[[BaseException | None], None]) -> None:
        nonlocal appends
        appends += 1
        here = appends
        if count is not None:
            count.write_text(str(here))
        if point == Point(here, "before"):
            die()

        def acknowledged(error: BaseException | None = None) -> None:
            if point == Point(here, "stored"):
                die()
            done(error)
            if point == Point(here, "after"):
                die()

        submit(self, batch, acknowledged)

    def dying_open(self: JournalFile, run: str) -> RunLog:
        log = opened(self, run)
        if point is not None and point.moment == "opened":
            die()
        return log

    RunLog.submit = dying  # type: ignore[method-assign]
    JournalFile.open_run = dying_open  # type: ignore[method-assign]


def forked(work: Callable[[], object]) -> bool:
    """Do some work in a process of its own. True if it was killed, False if it got through."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 3
        # what there is already is the parent's business: no collection in here looks at it
        gc.freeze()
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "the child raised; see its traceback"
    return False


def in_two(work: Callable[[Any], object], items: Sequence[Any]) -> None:
    """Do the work for each item, half of them in each of two processes."""
    children = []
    for part in range(2):
        child = os.fork()
        if child == 0:
            code = 3
            gc.freeze()
            try:
                for item in items[part::2]:
                    work(item)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert ends == [0, 0], "see the traceback of the child"


_SOURCES = functools.cache(inspect.getsource)


@contextmanager
def sources_kept() -> Iterator[None]:
    """Find the text of each function once: to find it again was a quarter of what each child did."""
    found_again, inspect.getsource = inspect.getsource, _SOURCES
    try:
        yield
    finally:
        inspect.getsource = found_again


def driven(
    folder: Path,
    backend: Backend,
    point: Point | None = None,
    drive: Callable[[Path], Awaitable[Any]] = canon.drive,
) -> bool:
    """Begin or go on with the run of a folder in a process that dies at a point; True if it died."""

    def work() -> None:
        deadly(point, folder / "appends" if point is None else None)
        with sources_kept():
            run_virtual(drive, folder, backend=backend)

    return forked(work)


# --- what the journal says ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What a journal holds of its newest run."""

    run: str
    records: list[Record]
    state: RunState
    calls: list[list[str]]

    @property
    def settled(self) -> set[str]:
        return {name for name, node in self.state.nodes.items() if node.status in TERMINAL}

    @property
    def under_way(self) -> set[str]:
        return {name for name, node in self.state.nodes.items() if node.status in UNDER_WAY}

    @property
    def stopped(self) -> str:
        return self.state.ended or self.state.suspended

    def outcome(self) -> dict[str, Any]:
        return canon.outcome(run_result(self.state, reducers={f"{canon.__name__}:tally": canon.tally}))

    def called(self, what: str = "call") -> Counter[str]:
        return Counter(words[1] for words in self.calls if words[0] == what)


def found(folder: Path) -> Found:
    """Read the newest run; what is recorded must keep every law, at any time."""
    calls = canon.Told.read(folder / "told")
    runs = canon.begun(folder / "j.db")
    if not runs:
        return Found("", [], GraphMachine().state, calls)
    assert verify(folder / "j.db", runs[0]) == []
    with open_journal(folder / "j.db") as reader:
        records = list(reader.records(runs[0]))
    machine = GraphMachine()
    for record in records:
        machine.replay(record)
    assert check(machine.state, folded=True) == []
    assert check_facts(records) == []
    return Found(runs[0], records, machine.state, calls)


def decided_again(records: Sequence[Record]) -> None:
    """Every recorded command leads to the recorded facts again."""
    count, divergence = replay(records)
    assert divergence is None, f"after {count} records: {divergence}"


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Where two outcomes differ, in words."""
    told = [(key, one[key], other[key]) for key in one if key != "nodes"]
    nodes, others = one["nodes"], other["nodes"]
    told += [(name, nodes.get(name), others.get(name)) for name in sorted(nodes | others)]
    return [f"{what}: {this}, not {that}" for what, this, that in told if this != that]


def goes_on(crashes: Sequence[Found], last: Found, whole: Found) -> None:
    """What must be true of a run that crashed and went on, beside one that did not."""
    assert differences(last.outcome(), whole.outcome()) == []
    allowed = whole.called()
    for crash in crashes:
        later = Counter(words[1] for words in last.calls[len(crash.calls) :] if words[0] == "call")
        again = crash.settled & set(later)
        assert not again, f"{again} had settled and ran again"
        allowed += Counter(crash.under_way)
    extra = last.called() - allowed
    assert not extra, f"called more often than there were attempts under way: {extra}"
    accepted = {words[2] for words in last.calls if words[0] == "accepted"}
    lost = accepted - set(last.state.nodes)
    assert not lost, f"accepted and lost: {lost}"
    decided_again(last.records)
