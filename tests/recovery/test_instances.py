"""``for_each`` and ``ask`` over kills: a value is kept, what has none runs again, an answer counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator import OperationGraphBuilder, Run, Session, create_operation
from orchestrator.core import facts as f
from orchestrator.journal.control import request
from tests.recovery import cast
from tests.recovery.crashing import MOMENTS, Moment, Point, decided_again
from tests.recovery.test_going_on import of, resume, retry
from tests.recovery.test_stops import BACKENDS, process, statuses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from orchestrator.testing.loops import Backend

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

WHOLE = {"a": "completed", "fan": "completed", "z": "completed"}


def fan(*items: str, skip: bool = False) -> Callable[[Session], Awaitable[Run]]:
    """a -> fan (once per item) -> z, which needs the list."""

    def begin(session: Session) -> Awaitable[Run]:
        graph = OperationGraphBuilder()
        graph.add_operation(cast.ok, "a", depends_on=[])
        each = {"over": str([*items]), "max": 9, "skip": skip}
        parameters = {"item": "${item}", "index": "${index}"}
        made = create_operation(cast.each, parameters, node_id="fan", for_each=each)
        graph.add_operation(made, depends_on=["a"], role=cast.each)
        graph.add_operation(cast.last, "z", depends_on=[])
        graph.add_edge("fan", "z", accept=["completed"])
        return session.start(graph.get_graph())

    return begin


@BACKENDS
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("nth", range(1, 7))
def test_killed_at_any_record(ram: Path, backend: Backend, nth: int, moment: Moment):
    """RESUME 69, GROW: the membership of a fan is on record; killed anywhere, it comes to the same list."""
    begin = fan("x", "late", "y")
    run = process(ram, backend, begin, Point(nth, moment))
    if not run.stopped:
        run = process(ram, backend, resume if run.records else begin)
    assert run.state.ended == "completed"
    assert statuses(run) == {**WHOLE, **{f"fan.{index}": "completed" for index in (1, 2, 3)}}
    assert run.state.nodes["fan"].value == b'[[1,"x"],[2,"late"],[3,"y"]]'
    assert run.state.nodes["z"].value == b'{"fan":[[1,"x"],[2,"late"],[3,"y"]]}'
    assert len(of(run, f.InstancesAdded)) == 1
    # what was on disk as completed was not called again
    assert all(count <= 2 for count in run.called().values())
    decided_again(run.records)


@BACKENDS
@pytest.mark.parametrize("named", [(), ("fan",), ("fan.2",)])
def test_a_retry_runs_only_what_failed(ram: Path, backend: Backend, named: tuple[str, ...]):
    """flows.md: whether all that failed, the node or one instance is named, the others keep their values."""
    first = process(ram, backend, fan("x", "bad", "y"))
    assert statuses(first) == {
        "a": "completed", "fan": "failed", "z": "skipped",
        "fan.1": "completed", "fan.2": "failed", "fan.3": "completed",
    }  # fmt: skip
    assert first.state.ended == "failed"
    (ram / "file").touch()

    def again(session: Session) -> Awaitable[Run]:
        return session.retry(nodes=named) if named else session.retry()

    last = process(ram, backend, again)
    assert last.state.ended == "completed"
    assert last.state.nodes["z"].value == b'{"fan":[[1,"x"],[2,"bad"],[3,"y"]]}'
    assert last.called() == {"a": 1, "fan.1": 1, "fan.2": 2, "fan.3": 1, "z": 1}
    decided_again(last.records)


@BACKENDS
def test_a_retry_that_fails_again(ram: Path, backend: Backend):
    """Each generation has its own error and settles once; the laws hold over both."""
    process(ram, backend, fan("x", "bad", "bad"))
    last = process(ram, backend, retry)
    assert last.state.ended == "failed"
    assert last.called() == {"a": 1, "fan.1": 1, "fan.2": 2, "fan.3": 2}
    assert [len(fact.failed) for fact in of(last, f.InstancesSettled)] == [2, 2]
    decided_again(last.records)


@BACKENDS
def test_what_was_left_out_stays_out(ram: Path, backend: Backend):
    """With ``skip`` the node has its list: its failures are handled, and nothing is left to retry."""
    first = process(ram, backend, fan("x", "bad", skip=True))
    assert (first.state.ended, first.state.nodes["fan"].left_out) == ("completed", 1)
    assert first.state.nodes["z"].value == b'{"fan":[[1,"x"]]}'


@BACKENDS
def test_a_fork_that_gives_the_list(ram: Path, backend: Backend):
    """A given list stands for every instance: what ran is cancelled, what failed makes nothing fail."""
    first = process(ram, backend, fan("bad", "late", "y"), Point(3, "after"))
    assert first.state.nodes["fan.1"].status == "failed"

    def forked(session: Session) -> Awaitable[Run]:
        return session.fork(first.run, at=first.records[-1].last, values={"fan": [1]})

    last = process(ram, backend, forked)
    assert last.state.ended == "completed"
    assert last.state.nodes["z"].value == b'{"fan":[1]}'
    assert (last.state.nodes["fan"].left_out, statuses(last)["fan.2"]) == (0, "cancelled")
    decided_again(last.records)


def asking(*, gate: bool) -> Callable[[Session], Awaitable[Run]]:
    def begin(session: Session) -> Awaitable[Run]:
        graph = OperationGraphBuilder()
        given = {"node_id": "person", "ask": True, "gate": gate, "instruction": "Go on?"}
        graph.add_operation(create_operation("ask", **given), depends_on=[])
        graph.add_operation(cast.last, "z", depends_on=["person"])
        return session.start(graph.get_graph())

    return begin


@BACKENDS
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_asking(ram: Path, backend: Backend, moment: Moment):
    """S71: killed while it asks, answered twice while nothing runs, resumed: the first counts, once."""
    process(ram, backend, asking(gate=False), Point(2, moment))
    first = process(ram, backend, resume)
    assert first.stopped == "awaiting_answer"
    for value in ("yes", "no"):
        request(ram / "j.db", first.run, "answer", {"node": "person", "key": "person", "value": value})
    last = process(ram, backend, resume)
    assert last.state.ended == "completed"
    assert last.state.nodes["z"].value == b'{"person":"yes"}'
    assert [fact.refused for fact in of(last, f.ControlApplied)] == ["", "invalid"]
    assert last.called() == {"z": 1}
    decided_again(last.records)


@BACKENDS
@pytest.mark.parametrize(("verdict", "ends"), [("approve", "completed"), ("REJECT", "gate_rejected")])
def test_a_verdict_while_nothing_runs(ram: Path, backend: Backend, verdict: str, ends: str):
    """kernel.md 5: a person's verdict outlives the process that asked for it, with who and why."""
    first = process(ram, backend, asking(gate=True))
    assert first.stopped == "awaiting_answer"
    told = {"node": "person", "key": "person", "value": verdict, "by": "ada", "because": "read it"}
    request(ram / "j.db", first.run, "answer", told)
    last = process(ram, backend, resume)
    gate = last.state.nodes["person"]
    assert (last.state.ended, gate.decided_by, gate.because) == (ends, "ada", "read it")
    assert statuses(last)["z"] == ("completed" if ends == "completed" else "vetoed")
    decided_again(last.records)
