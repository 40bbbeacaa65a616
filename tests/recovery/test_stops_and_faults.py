"""The rows of "How a run stops" that go on in another run, or after a fault: killed, and killed once more.

The other rows are in ``test_stops.py``. Each process dies by SIGKILL when its run has stopped; the command
that the table names is killed as well, and given again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from orchestrator import Gate, OperationGraphBuilder, Run, Session
from orchestrator.core import facts as f
from orchestrator.core.commands import Cancel
from orchestrator.errors import JournalError, OperationError
from orchestrator.journal.checking import verify
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
from orchestrator.testing.loops import run_virtual
from tests.journal.storms import LAYER, Fail, Storm, weather
from tests.recovery import cast
from tests.recovery.canon import Told
from tests.recovery.crashing import Found, Point, decided_again, die, forked, found
from tests.recovery.test_stops import BACKENDS, after_a_second, beside, chain, in_session, process, statuses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from orchestrator.core.records import Record
    from orchestrator.testing.loops import Backend

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*fork:DeprecationWarning",
    # an error that SQLite gets over is reported by apsw as unraisable
    "ignore::pytest.PytestUnraisableExceptionWarning",
)

#: Both records of a fork, its history and what it changes, before, at and after each.
MOMENTS = [None, *(Point(nth, moment) for nth in (1, 2) for moment in ("before", "stored", "after"))]
#: Which call of the disk is the first to fail; the first three dozen make the file.
FAULTS = range(38, 80, 3)
every_moment = pytest.mark.parametrize(
    "point", MOMENTS, ids=lambda point: "whole" if point is None else f"{point.moment}-{point.nth}"
)


def records_of(ram: Path, run: str) -> list[Record]:
    with open_journal(ram / "j.db") as reader:
        return list(reader.records(run))


def of(run: Found, kind: type[f.Fact]) -> list[Any]:
    return [fact for record in run.records for fact in record.facts if isinstance(fact, kind)]


def begins(make: Callable[[OperationGraphBuilder], object]) -> Callable[[Session], Awaitable[Run]]:
    """Start the graph that a function makes."""

    def begin(session: Session) -> Awaitable[Run]:
        graph = OperationGraphBuilder()
        make(graph)
        return session.start(graph.get_graph())

    return begin


def goes_on(
    ram: Path, backend: Backend, first: Found, fork: Callable[[Session], Awaitable[Run]], point: Any
) -> Found:
    """Fork, in a process that may die at a point; then give the command again, or resume what had begun."""
    before = records_of(ram, first.run)
    last = process(ram, backend, fork, point)
    # what it changes is one record: a fork without it is history, and the command is given again
    changed = last.run != first.run and of(last, f.RunResumed)
    if not last.state.ended or last.run == first.run:
        last = process(ram, backend, (lambda session: session.resume()) if changed else fork)
    assert last.run != first.run
    assert last.state.origin == first.run
    assert records_of(ram, first.run) == before, "the origin is only read"
    for run in (first.run, last.run):
        assert verify(ram / "j.db", run) == []
    decided_again(last.records)
    return last


@BACKENDS
@every_moment
def test_a_rejection_is_overruled_by_a_fork(ram: Path, backend: Backend, point: Point | None):
    """gate_rejected: ``fork RUN --at GATE --answer VERDICT --because TEXT``; who said so is on record."""
    first = process(ram, backend, begins(chain(cast.ok, cast.rejects, cast.ok, gate=True)))
    assert first.state.ended == "gate_rejected"
    assert statuses(first) == {"a": "completed", "b": "completed", "c": "vetoed"}
    fork = lambda session: session.fork(first.run, answers={"b": "APPROVE"}, by="ada", because="I looked")
    last = goes_on(ram, backend, first, fork, point)
    assert last.state.ended == "completed"
    assert statuses(last) == dict.fromkeys("abc", "completed")
    (approved,) = of(last, f.GateApproved)
    assert (approved.by, approved.because) == ("ada", "I looked")
    assert (last.called()["a"], last.called()["b"]) == (1, 1), "what had settled ran again"
    # of c there may be one attempt that the kill took down
    assert last.called()["c"] <= 1 + (point is not None)


@BACKENDS
@every_moment
def test_the_last_refusal_is_overruled_by_a_fork(ram: Path, backend: Backend, point: Point | None):
    """refusals_exhausted: the same command; the rounds before it are history, and no further one begins."""

    def loop(graph: OperationGraphBuilder) -> None:
        graph.add_operation(cast.works, "a", depends_on=[])
        graph.add_operation(
            cast.refuses, "g", depends_on=["a"], gate=Gate(refusals=1), parameters={"approves": 9}
        )
        graph.add_operation(cast.ok, "z", depends_on=["g"])

    first = process(ram, backend, begins(loop))
    assert first.state.ended == "refusals_exhausted"
    assert statuses(first) == {**dict.fromkeys(("a", "g", "a@2", "g@2"), "completed"), "z": "vetoed"}
    fork = lambda session: session.fork(first.run, answers={"g@2": "APPROVE"}, by="ada", because="enough")
    last = goes_on(ram, backend, first, fork, point)
    assert last.state.ended == "completed"
    assert statuses(last) == dict.fromkeys(("a", "g", "z", "a@2", "g@2"), "completed")
    assert (last.state.nodes["g@2"].judgement, last.state.nodes["g@2"].decided_by) == ("approved", "ada")
    assert {name: last.called()[name] for name in ("a", "g", "a@2", "g@2")} == first.called()


@BACKENDS
@every_moment
def test_a_cancelled_run_goes_on_as_a_fork(ram: Path, backend: Backend, point: Point | None):
    """cancelled: ``fork``, from a fact before the cancel; what was running there is attempted again."""

    async def cancelled(session: Session) -> Run:
        run = await begins(beside)(session)
        await after_a_second(run, lambda live: live.cancel(reason="enough"))
        return run

    first = process(ram, backend, cancelled)
    assert first.state.ended == "cancelled"
    assert statuses(first) == {"a": "completed", "b": "cancelled", "c": "cancelled"}
    place = next(record.first - 1 for record in first.records if isinstance(record.command, Cancel))
    last = goes_on(ram, backend, first, lambda session: session.fork(first.run, at=place), point)
    assert last.state.ended == "completed"
    assert statuses(last) == dict.fromkeys("abc", "completed")
    assert last.called()["a"] == 1


@BACKENDS
@pytest.mark.parametrize("moment", ["before", "stored", "after"])
def test_a_completed_run_is_left_alone(ram: Path, backend: Backend, moment: Any):
    """completed: there is no next command; a resume, and a retry, is refused, and nothing is written."""
    first = process(ram, backend, begins(chain(cast.ok, cast.ok, cast.ok)))
    assert first.state.ended == "completed"
    before = records_of(ram, first.run)

    async def refused(folder: Path) -> None:
        async with Session(cast.CAST, journal=folder / "j.db", folder=folder) as session:
            with pytest.raises(OperationError, match="has ended"):
                await session.resume()
            with pytest.raises(OperationError, match="fail"):
                await session.retry()
        die()

    assert forked(lambda: run_virtual(refused, ram, backend=backend))
    assert records_of(ram, first.run) == before
    assert first.called() == {"a": 1, "b": 1, "c": 1}


def journals_in_a_storm(storm: Storm) -> None:
    """In a child: every journal's files go through the storm."""
    opened = JournalFile.open.__func__  # type: ignore[attr-defined]
    JournalFile.open = classmethod(  # type: ignore[method-assign]
        lambda cls, path, **options: opened(cls, path, **{**options, "vfs": LAYER})
    )


def in_a_storm(folder: Path, backend: Backend, work: Callable[[Session], Awaitable[Run]], nth: int) -> bool:
    """Drive a run whose disk fails for good at the nth call, and die; True if it said needs_recovery."""

    async def drive(at: Path) -> None:
        async def begun(session: Session) -> Run:
            run = await work(session)
            if (await run.wait()).reason == "needs_recovery":
                (at / "halted").touch()
            return run

        try:
            await in_session(at, begun)
        except JournalError:
            # nothing had begun
            die()

    def child() -> None:
        with weather(Fail(nth, sticky=True)) as storm:
            journals_in_a_storm(storm)
            run_virtual(drive, folder, backend=backend)

    (folder / "halted").unlink(missing_ok=True)
    assert forked(child)
    return (folder / "halted").exists()


@BACKENDS
@pytest.mark.parametrize("moment", [None, "before", "stored", "after"])
def test_a_run_whose_disk_failed(ram: Path, backend: Backend, moment: Any):
    """needs_recovery: ``doctor``, then ``resume``; nothing that had settled runs again."""
    begin = begins(chain(cast.ok, cast.ok, cast.ok))
    halted = 0
    for nth in FAULTS:
        folder = ram / str(nth)
        folder.mkdir()
        said = in_a_storm(folder, backend, begin, nth)
        halted += said
        first = found(folder)
        if not said or not first.records:
            continue
        assert verify(folder / "j.db", first.run) == [], "doctor finds an unknown tail, and no damage"
        resume = lambda session: session.resume()
        last = first
        # the unknown tail may be there: then the run had ended, and there is nothing to resume
        if moment is not None and not first.state.ended:
            last = process(folder, backend, resume, Point(1, moment))
        if not last.state.ended:
            last = process(folder, backend, resume)
        assert last.state.ended == "completed"
        extra = last.called() - last.called().__class__("abc")
        assert sum(extra.values()) <= 1 + (moment in {"stored", "after"}), (nth, extra)
        assert not set(extra) & first.settled, (nth, "had settled and ran again")
        decided_again(last.records)
    assert halted > len(FAULTS) // 2


@BACKENDS
def test_a_session_is_left_as_usual_when_its_disk_fails(ram: Path, backend: Backend):
    """engine.md 30: the fault is the outcome; that its log cannot be closed either is logged."""

    async def drive(at: Path) -> None:
        Told.path = at / "told"
        async with Session(cast.CAST, journal=at / "j.db", folder=at) as session:
            run = await begins(chain(cast.ok, cast.ok, cast.ok))(session)
            assert (await run.wait()).reason == "needs_recovery"
        (at / "left").touch()

    def child() -> None:
        with weather(Fail(60, sticky=True)) as storm:
            journals_in_a_storm(storm)
            run_virtual(drive, ram, backend=backend)

    assert not forked(child)
    assert (ram / "left").exists()
    assert process(ram, backend, lambda session: session.resume()).state.ended == "completed"
