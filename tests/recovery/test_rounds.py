"""Refusal loops over kills: refusals count on, a round starts once, each as it was (journal.md, D5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchestrator import Gate, OperationGraphBuilder, Run, Session
from orchestrator.core import facts as f
from tests.recovery import cast
from tests.recovery.crashing import MOMENTS, Moment, Point, decided_again
from tests.recovery.test_going_on import of, resume
from tests.recovery.test_stops import BACKENDS, process, statuses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from orchestrator.testing.loops import Backend

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

WHOLE = ("a", "g", "z", "a@2", "g@2", "a@3", "g@3")


def loop(approves: int) -> Callable[[Session], Awaitable[Run]]:
    """a -> g (a gate with two refusals) -> z; g approves in round ``approves``, if it comes to that."""

    def begin(session: Session) -> Awaitable[Run]:
        graph = OperationGraphBuilder()
        graph.add_operation(cast.works, "a", depends_on=[])
        graph.add_operation(
            cast.refuses, "g", depends_on=["a"], gate=Gate(refusals=2), parameters={"approves": approves}
        )
        graph.add_operation(cast.ok, "z", depends_on=["g"])
        return session.start(graph.get_graph())

    return begin


@BACKENDS
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("nth", range(1, 8))
def test_killed_at_any_record(ram: Path, backend: Backend, nth: int, moment: Moment):
    """journal.md, resume: refusal counts are as they were; killed anywhere, exactly two rounds are added."""
    run = process(ram, backend, loop(9), Point(nth, moment))
    if not run.stopped:
        run = process(ram, backend, resume if run.records else loop(9))
    assert run.state.ended == "refusals_exhausted"
    assert tuple(run.state.nodes) == WHOLE
    assert statuses(run)["z"] == "vetoed"
    assert [fact.node for fact in of(run, f.GateRefused)] == ["g", "g@2"]
    assert [(one.number, one.judgement) for one in run.state.rounds] == [
        (1, "refused"), (2, "refused"), (3, "rejected"),
    ]  # fmt: skip
    assert run.state.nodes["a@3"].value == b"[1,2,3]"
    assert all(count <= 2 for count in run.called().values())
    decided_again(run.records)


@BACKENDS
def test_killed_between_rounds_and_approved_after(ram: Path, backend: Backend):
    """The other arm: the round that was under way goes on after the kill, and opens."""
    run = process(ram, backend, loop(2), Point(4, MOMENTS[0]))
    assert not run.stopped
    run = process(ram, backend, resume)
    assert run.state.ended == "completed"
    assert [one.moved for one in run.state.rounds] == [None, True]


@BACKENDS
def test_a_fork_that_overrules_the_last_refusal(ram: Path, backend: Backend):
    """journal.md: a fork answers the last refusal; a bare name is the last round."""
    process(ram, backend, loop(9))

    async def overrule(session: Session) -> Run:
        return await session.fork("last", at="g", answers={"g": "APPROVE"}, by="ann", because="enough")

    run = process(ram, backend, overrule)
    assert run.state.ended == "completed"
    assert (run.state.nodes["g@3"].judgement, run.state.nodes["g@3"].decided_by) == ("approved", "ann")
    assert run.state.nodes["z"].status == "completed"


@BACKENDS
def test_a_fork_whose_answer_refuses(ram: Path, backend: Backend):
    """A person's REJECT has the refusals of the gate that it stands for."""
    process(ram, backend, loop(2))

    async def refuse(session: Session) -> Run:
        return await session.fork("last", at="g@2", answers={"g@2": "REJECT"}, by="ann", because="no")

    run = process(ram, backend, refuse)
    assert run.state.ended == "completed"
    assert run.state.nodes["g@2"].judgement == "refused"
    assert run.state.nodes["g@3"].judgement == "approved"


@BACKENDS
def test_reuse_goes_through_the_same_rounds(ram: Path, backend: Backend):
    """journal.md, reuse: keyed by content: each round takes its own outcome, none that of another round."""
    first = process(ram, backend, loop(3))

    async def again(session: Session) -> Run:
        graph = OperationGraphBuilder()
        graph.add_operation(cast.works, "a", depends_on=[])
        graph.add_operation(
            cast.refuses, "g", depends_on=["a"], gate=Gate(refusals=2), parameters={"approves": 3}
        )
        graph.add_operation(cast.ok, "z", depends_on=["g"])
        return await session.start(graph.get_graph(), reuse=first.run)

    run = process(ram, backend, again)
    assert run.state.ended == "completed"
    assert {name: node.restored for name, node in run.state.nodes.items()} == dict.fromkeys(WHOLE, True)
    assert run.state.nodes["a@3"].value == b"[1,2,3]"
