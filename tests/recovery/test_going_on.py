"""Going on in particular: cancels under way, growth that a retry drops, questions, clocks, owners, faults."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from orchestrator import Budget, OperationGraphBuilder, Retry, Run, Session, create_operation
from orchestrator.core import facts as f
from orchestrator.errors import JournalError, OperationError, RunOwnedError
from orchestrator.journal.control import request
from orchestrator.journal.runlog import RunLog
from orchestrator.runtime.projections import run_result
from orchestrator.testing.loops import run_virtual
from tests.recovery import cast
from tests.recovery.canon import Told
from tests.recovery.crashing import MOMENTS, Found, Point, decided_again, driven, found
from tests.recovery.test_stops import BACKENDS, in_session, process, statuses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from orchestrator.testing.loops import Backend

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def resume(session: Session) -> Awaitable[Run]:
    return session.resume()


def retry(session: Session) -> Awaitable[Run]:
    return session.retry()


def starts(*nodes: tuple[str, Any, dict[str, Any]], **options: Any) -> Callable[[Session], Awaitable[Run]]:
    """Start a graph of (name, role, arguments); ``after``: what must have completed."""

    def begin(session: Session) -> Awaitable[Run]:
        graph = OperationGraphBuilder()
        for name, role, more in nodes:
            graph.add_operation(
                role, name, **{"depends_on": [], **{key: more[key] for key in more if key != "after"}}
            )
            for source in more.get("after", ()):
                graph.add_edge(source, name, accept=["completed"])
        return session.start(graph.get_graph(), **options)

    return begin


def of(run: Found, kind: type[f.Fact]) -> list[Any]:
    return [fact for record in run.records for fact in record.facts if isinstance(fact, kind)]


def refused(folder: Path, what: Callable[[Session], Awaitable[Run]], words: str) -> None:
    """The command says why it does nothing, and does nothing."""
    before = len(found(folder).records)

    async def ask() -> None:
        Told.path = folder / "told"
        async with Session(cast.CAST, journal=folder / "j.db", folder=folder) as session:
            with pytest.raises(OperationError, match=words):
                await what(session)

    run_virtual(ask)
    assert len(found(folder).records) == before


# --- a cancel and a failure that stop the run --------------------------------------------------------


@BACKENDS
@pytest.mark.parametrize("point", [Point(2, "stored"), Point(2, "after"), Point(3, "before")], ids=str)
def test_killed_while_it_is_cancelled(ram: Path, point: Point, backend: Backend):
    """A cancel that is on record holds: the run ends as cancelled, and nothing of it starts again."""

    async def cancelled(session: Session) -> Run:
        begin = starts(("a", cast.tidies, {}), ("b", cast.ok, {"depends_on": ["a"]}))
        run = await begin(session)
        await anyio.sleep(1)
        assert run.cancel(reason="enough")
        return run

    killed = process(ram, backend, cancelled, point)
    assert killed.state.cancelling == "cancelled"
    refused(ram, retry, "cancelled")
    last = process(ram, backend, resume)
    assert last.state.ended == "cancelled"
    assert statuses(last) == {"a": "cancelled", "b": "cancelled"}
    assert last.called() == {"a": 1}
    refused(ram, resume, "has ended")
    decided_again(last.records)


@BACKENDS
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_a_failure_stops_it(ram: Path, moment: Any, backend: Backend):
    """on_failure: stop. The failure is on record; a retry runs what failed and what it had cancelled."""

    def begin(session: Session) -> Awaitable[Run]:
        graph = OperationGraphBuilder()
        stops = create_operation(cast.needs_file, {}, node_id="a", stop_on_failure=True)
        graph.add_operation(stops, depends_on=[], role=cast.needs_file)
        graph.add_operation(cast.tidies, "b", depends_on=[])
        graph.add_operation(cast.ok, "c", depends_on=["b"])
        return session.start(graph.get_graph())

    point = Point(2, moment)
    killed = process(ram, backend, begin, point)
    if moment == "before":
        assert not killed.state.cancelling
        killed = process(ram, backend, resume)
    cast.there(ram)
    assert killed.state.cancelling == "failed"

    async def briefly(session: Session) -> Run:
        run = await session.retry()
        await anyio.sleep(1)
        assert run.cancel("b")
        return run

    last = process(ram, backend, briefly)
    assert statuses(last) == {"a": "completed", "b": "cancelled", "c": "skipped"}
    decided_again(last.records)


# --- growth and retries ------------------------------------------------------------------------------


@BACKENDS
@pytest.mark.parametrize("key", [None, "k"])
def test_a_retry_drops_what_the_failed_attempt_grew(ram: Path, key: str | None, backend: Backend):
    """S67: transitively; what it asks for again is made again; who waited for it waits for the new one."""
    parameters = {"key": key, "before": ["last"]}
    begin = starts(
        ("a", cast.grows, {"parameters": parameters}),
        ("b", cast.ok, {"after": ["a"]}),
        ("last", cast.reads, {"after": ["b"]}),
        reducers={"grown": "sum"},
    )
    first = process(ram, backend, begin)
    assert first.state.ended == "failed"
    grown = dict.fromkeys(("a.grows-1", "a.grows-2"), "completed")
    assert statuses(first) == {"a": "failed", "b": "skipped", "last": "skipped", **grown}
    refused(ram, resume, "callboard retry")
    cast.there(ram)
    killed = process(ram, backend, retry, Point(1, "stored"))
    assert {fact.node for fact in of(killed, f.NodeDropped)} == {"a.grows-1", "a.grows-2"}
    last = process(ram, backend, resume)
    assert last.state.ended == "completed"
    assert statuses(last) == dict.fromkeys(("a", "b", "last", "a.grows-3", "a.grows-4"), "completed")
    assert last.state.nodes["last"].value == b'["a.grows-3","b"]'
    assert [node.parent for node in last.state.nodes.values()] == [None, None, None, "a", "a.grows-3"]
    assert last.called()["a.grows-3"] == last.called()["a.grows-4"] == 1
    # what the dropped nodes wrote is not in the sum
    assert run_result(last.state).final_context == {"grown": 3}
    decided_again(last.records)


@BACKENDS
def test_a_run_that_grew_crashes_twice_before_it_says_so_again(ram: Path, backend: Backend):
    """RESUME 65: the second process dies before the emitter runs again; both nodes are there, once."""
    begin = starts(("a", cast.grows, {"parameters": {"fails": False}}), reducers={"grown": "sum"})
    process(ram, backend, begin, Point(2, "stored"))
    process(ram, backend, resume, Point(1, "before"))
    process(ram, backend, resume, Point(1, "stored"))
    last = process(ram, backend, resume)
    assert statuses(last) == dict.fromkeys(("a", "a.grows-1", "a.grows-2"), "completed")
    assert [node.parent for node in last.state.nodes.values()] == [None, "a", "a.grows-1"]
    decided_again(last.records)


@BACKENDS
def test_a_deadline_begins_anew_with_a_retry(ram: Path, backend: Backend):
    """TIME 103: what ran out for a failed generation is not held against the next."""

    async def limited(session: Session) -> Run:
        graph = OperationGraphBuilder()
        limit = create_operation(cast.needs_file, {}, node_id="a", deadline=5)
        graph.add_operation(limit, depends_on=[], role=cast.needs_file)
        graph.add_operation(cast.slow, "b", depends_on=[])
        return await session.start(graph.get_graph())

    first = process(ram, backend, limited)
    assert first.state.ended == "failed"
    assert first.state.at > 5e9
    cast.there(ram)
    last = process(ram, backend, retry)
    assert (last.state.ended, last.called()["b"]) == ("completed", 1)


@BACKENDS
def test_a_deadline_holds_in_every_generation_and_after_an_answer(ram: Path, backend: Backend):
    """TIME 103: opened again it has its whole time once more, and no more; hours of asking do not count."""

    async def limited(session: Session) -> Run:
        graph = OperationGraphBuilder()
        graph.add_operation(create_operation(cast.asks_late, {}, node_id="a", deadline=5), depends_on=[])
        return await session.start(graph.get_graph())

    first = process(ram, backend, limited)
    assert first.stopped == "awaiting_answer"
    request(ram / "j.db", first.run, "answer", {"node": "a", "key": "long", "value": 4})
    process(ram, backend, resume, Point(1, "stored"))
    last = process(ram, backend, resume)
    # three seconds before the question; what is said again after it takes another three: too long
    assert last.state.ended == "failed"
    assert [fact.error.type for fact in of(last, f.NodeFailed)] == ["DeadlineExceeded"]
    assert 5e9 <= last.state.at < 6e9
    again = process(ram, backend, retry)
    assert [fact.error.type for fact in of(again, f.NodeFailed)] == ["DeadlineExceeded"] * 2
    assert again.state.at - last.state.at == 5 * 10**9
    decided_again(again.records)


# --- questions ---------------------------------------------------------------------------------------


@BACKENDS
def test_a_question_that_answers_itself_after_a_kill(ram: Path, backend: Backend):
    """Killed while only time will answer: it can be resumed, and what was left of the time is waited for."""
    begin = starts(("a", cast.expects, {}))
    process(ram, backend, begin, Point(2, "after"))
    last = process(ram, backend, resume)
    assert statuses(last) == {"a": "completed"}
    assert last.state.nodes["a"].value == b'"nobody"'
    assert 60e9 <= last.state.at < 61e9
    decided_again(last.records)


@BACKENDS
def test_an_answer_while_nothing_runs_is_used_once(ram: Path, backend: Backend):
    """RESUME 74, S71: two resumes after one answer; what was said before the question is not doubled."""
    first = process(ram, backend, starts(("a", cast.asks, {})))
    assert first.stopped == "awaiting_answer"
    again = process(ram, backend, resume)
    assert again.called() == first.called(), "nobody answered: nobody is asked again"
    request(ram / "j.db", first.run, "answer", {"node": "a", "key": "colour", "value": "red"})
    request(ram / "j.db", first.run, "answer", {"node": "a", "key": "colour", "value": "blue"})
    last = process(ram, backend, resume)
    assert last.state.ended == "completed"
    assert last.state.nodes["a"].value == b'"red"'
    assert [fact.refused for fact in of(last, f.ControlApplied)] == ["", "invalid"]
    assert [fact.key for fact in of(last, f.QuestionAnswered)] == ["colour"]
    assert last.called() == {"a": 2, "a.ok-1": 1, "a.ok-2": 1, "a.ok-3": 1}
    assert of(last, f.EmissionRefused) == []


# --- clocks ------------------------------------------------------------------------------------------


@BACKENDS
def test_a_backoff_goes_on_from_what_was_left(ram: Path, backend: Backend):
    """RETRY 93: killed four seconds into ten of backoff: six are left, whatever the clocks of the process."""
    cast.there(ram)
    (ram / "file").unlink()

    async def waits(session: Session) -> Run:
        tries = {"retry": Retry(attempts=2, backoff=10)}
        run = await starts(("a", cast.needs_file, tries), ("b", cast.slow, {}))(session)
        await anyio.sleep(4)
        assert run.steer("hello", "b")
        return run

    process(ram, backend, waits, Point(3, "after"))
    cast.there(ram)
    last = process(ram, backend, resume)
    began = [record.at for record in last.records for fact in record.facts if isinstance(fact, f.NodeStarted)]
    assert statuses(last) == {"a": "completed", "b": "completed"}
    assert round(began[-1] / 1e9, 1) == 10.0


@BACKENDS
def test_a_spent_wall_clock_starts_nothing(ram: Path, backend: Backend):
    """RETRY 95: resumed without a higher budget it says so again; no attempt is begun only to be stopped."""
    first = process(ram, backend, starts(("a", cast.slow, {}), budget=Budget(wall_clock=3)))
    assert first.stopped == "deadline"
    again = process(ram, backend, resume)
    assert again.stopped == "deadline"
    assert again.called() == first.called() == {"a": 1}
    last = process(ram, backend, lambda session: session.resume(budget={"wall_clock": 20}))
    assert last.state.ended == "completed"


@BACKENDS
def test_the_wall_clock_set_back_changes_nothing(
    ram: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
):
    """Bad-inputs 11: a day back, in the middle and between two processes: order and durations hold."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    begin = starts(("a", cast.slow, {}), ("b", cast.ok, {"depends_on": ["a"]}))
    process(ram, backend, begin, Point(2, "before"))
    monkeypatch.setattr(time, "time_ns", lambda: now - 86_400 * 10**9)
    last = process(ram, backend, resume)
    assert last.state.ended == "completed"
    assert [record.at for record in last.records] == sorted(record.at for record in last.records)
    assert all(node.settled_at >= node.started_at for node in last.state.nodes.values())


# --- owners ------------------------------------------------------------------------------------------


@BACKENDS
def test_two_resumes_race(ram: Path, backend: Backend):
    """RESUME 71, 74, bad-inputs 9: one proceeds; the other is told who drives it, and runs nothing."""
    process(ram, backend, starts(("a", cast.slow, {})), Point(1, "after"))
    (ready, holding), (over, told) = os.pipe(), os.pipe()
    second = os.fork()
    if second == 0:
        code = 3
        try:
            os.close(over)
            first = os.read(ready, 20).decode()
            with pytest.raises(RunOwnedError, match=f"driven by process {first}"):
                run_virtual(in_session, ram, resume, backend=backend)
            code = 0
        finally:
            os._exit(code)
    os.close(told)

    async def holds(session: Session) -> Run:
        run = await session.resume()
        with pytest.raises(RunOwnedError, match="live in this session"):
            await session.resume()
        os.write(holding, str(os.getpid()).encode())
        assert os.read(over, 1) == b"", "closed by the end of the other process"
        return run

    last = process(ram, backend, holds)
    assert os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]) == 0
    for end in (ready, holding, over):
        os.close(end)
    assert last.state.ended == "completed"
    assert last.called()["a"] <= 2
    assert last.state.epoch == 2


@BACKENDS
def test_many_processes_race_for_one_run(ram: Path, backend: Backend):
    """RESUME 74: eight at once, none waits for another: the question's node goes on once."""
    first = process(ram, backend, starts(("a", cast.asks, {})))
    request(ram / "j.db", first.run, "answer", {"node": "a", "key": "colour", "value": "red"})
    reader, writer = os.pipe()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            try:
                os.close(writer)
                os.read(reader, 1)  # all are let go when the parent closes its end
                run_virtual(in_session, ram, resume, backend=backend)
            except (RunOwnedError, OperationError):
                os._exit(7)
            finally:
                os._exit(3)
        children.append(child)
    os.close(reader)
    os.close(writer)
    ends = Counter(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert ends == {-9: 1, 7: 7}
    last = found(ram)
    assert last.called() == {"a": 2, "a.ok-1": 1, "a.ok-2": 1, "a.ok-3": 1}


# --- the journal fails -------------------------------------------------------------------------------


@BACKENDS
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_journal_that_fails(ram: Path, nth: int, backend: Backend):
    """Bad-inputs 7: the write that records a veto fails: nothing below starts; resumed, the veto holds."""
    begin = starts(
        ("a", cast.ok, {}),
        ("b", cast.rejects, {"depends_on": ["a"], "gate": True}),
        ("c", cast.ok, {"depends_on": ["b"]}),
    )

    async def full(session: Session) -> Run:
        write, count = RunLog._write, 0

        def fails(self: RunLog, batch: Any) -> None:
            nonlocal count
            count += 1
            if count == nth:
                message = "no space left on device"
                raise OSError(message)
            write(self, batch)

        RunLog._write = fails  # type: ignore[method-assign]
        run = await begin(session)
        result = await run.wait()
        if result.reason == "needs_recovery":
            Told.say("halted")
        return run

    first = process(ram, backend, full)
    if not first.records:
        refused(ram, resume, "no first record")
        return
    assert first.called()["c"] == 0
    if ["halted"] in first.calls:
        first = process(ram, backend, resume)
    assert first.state.ended == "gate_rejected"
    assert statuses(first)["c"] == "vetoed"
    assert first.called()["c"] == 0
    refused(ram, resume, "has ended")
    refused(ram, retry, "nothing to retry")


def test_which_run_is_meant(ram: Path):
    """S69: a run is named by an unambiguous prefix; what is ambiguous or not there is said."""
    first = process(ram, "asyncio", starts(("a", cast.asks, {})))
    process(ram, "asyncio", starts(("a", cast.asks, {})))
    shared = first.run[:4]

    async def names() -> None:
        Told.path = ram / "told"
        async with Session(cast.CAST, journal=ram / "j.db", folder=ram) as session:
            for wrong, words in (("nobody", "no run"), (shared, first.run)):
                with pytest.raises(JournalError, match=words):
                    await session.resume(wrong)
            run = await session.resume(first.run[:-1])
            assert run.id == first.run

    assert driven(ram, "asyncio", None, lambda _at: names()) is False
