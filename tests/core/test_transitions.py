"""The table of transitions, row by row: each is reached by commands, and nothing else ever happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.decisions import Decision
from orchestrator.core.spec import Budget, Edge, Gate, Operation, Retry
from orchestrator.core.status import LIVE, TERMINAL, Status
from orchestrator.core.table import TRANSITIONS, IllegalTransition, settle
from tests.core.driver import Driver, Seeded
from tests.core.small import Small, moves, plan

S = Status
TWICE = Retry(attempts=2, backoff=5.0)
ONE_SLOT = Budget(concurrency=1)


def chain() -> Small:
    return Small(plan("a", "b", edges=["a>b"]))


def waiting_to_ready() -> Small:
    run = chain()
    run.finish("a")
    return run


def waiting_to_skipped() -> Small:
    run = chain()
    run.finish("a", "not_applicable")
    return run


def waiting_to_vetoed() -> Small:
    run = Small(plan(Operation(name="a", role="worker", gate=Gate()), "b", edges=["a>b"]))
    run.verdict("a", "REJECT")
    return run


def waiting_to_failed() -> Small:
    """A condition that gives no bool fails the node that it was to start."""
    run = Small(plan("a", "b", edges=[Edge(source="a", target="b", when="result")]))
    run.finish("a", value=b"7")
    error = run.state.nodes["b"].error
    assert error is not None
    assert error.type == "ConditionError"
    return run


def waiting_to_cancelled() -> Small:
    run = chain()
    run.tell(c.Cancel("b", "not needed"))
    return run


def waiting_to_completed() -> Small:
    return Small(plan("a", "b", edges=["a>b"]), b"1", known=(c.Known("a", "completed", 0),))


def waiting_to_escalated() -> Small:
    return Small(plan("a"), known=(c.Known("a", "escalated", reason="above it"),))


def queued() -> Small:
    """`b` is ready and waits for the slot."""
    return Small(plan(Operation(name="a", role="worker", retry=TWICE), "b", budget=ONE_SLOT))


def ready_to_running() -> Small:
    run = queued()
    run.finish("a")
    return run


def ready_to_vetoed() -> Small:
    run = queued()
    run.finish("a", proposals=(c.Proposal("veto", "b", "no"),))
    return run


def again_and_queued() -> Small:
    """`a` is ready for its second attempt and waits for the slot, which `b` has."""
    run = queued()
    run.finish("a", "failed")
    run.tell(c.Elapsed("backoff", "a", 1))
    return run


def ready_to_failed() -> Small:
    run = again_and_queued()
    run.tell(c.Elapsed("deadline", "a", 1))
    return run


def ready_to_cancelled() -> Small:
    run = queued()
    run.tell(c.Cancel("b"))
    return run


def running_to_completed() -> Small:
    run = chain()
    run.finish("a")
    return run


def running_to_failed() -> Small:
    run = chain()
    run.finish("a", "failed")
    return run


def running_to_escalated() -> Small:
    run = chain()
    assert run.emit("a", "EscalationRequest", reason="too hard")
    run.finish("a")
    return run


def running_to_skipped() -> Small:
    run = chain()
    run.finish("a", "not_applicable")
    return run


def running_to_backing_off() -> Small:
    run = queued()
    run.finish("a", "failed")
    return run


def running_to_ready() -> Small:
    """No model takes its calls: the attempt is given back, and the run is suspended."""
    run = chain()
    run.finish("a", "quota")
    return run


def asking() -> Small:
    run = Small(plan("a", "b"), waits_for_answers=True)
    run.tell(c.Ask("a", 1, "colour", "which?"))
    return run


def running_to_stopping() -> Small:
    run = chain()
    run.tell(c.Cancel("a"))
    return run


def stopping_to_cancelled() -> Small:
    run = running_to_stopping()
    run.stopped("a")
    return run


def stopping_to_failed() -> Small:
    run = chain()
    run.tell(c.Elapsed("deadline", "a", 1))
    run.stopped("a")
    return run


def stopping_to_ready() -> Small:
    run = chain()
    run.tell(c.Cancel(suspend="interrupted"))
    run.stopped("a")
    return run


def backing_off_to_failed() -> Small:
    run = running_to_backing_off()
    run.tell(c.Elapsed("deadline", "a", 1))
    return run


def backing_off_to_cancelled() -> Small:
    run = running_to_backing_off()
    run.tell(c.Cancel("a"))
    return run


def asking_to_ready() -> Small:
    run = asking()
    run.tell(c.Answer("a", "colour", 0, "ann"), b'"red"')
    return run


def asking_to_completed() -> Small:
    """A body may stop waiting for its answer and end."""
    run = asking()
    run.finish("a")
    return run


def asking_to_failed() -> Small:
    run = asking()
    run.finish("a", "failed")
    return run


def asking_to_skipped() -> Small:
    run = asking()
    run.finish("a", "not_applicable")
    return run


def asking_to_backing_off() -> Small:
    run = Small(plan(Operation(name="a", role="worker", retry=TWICE)), waits_for_answers=True)
    run.tell(c.Ask("a", 1, "colour", "which?"))
    run.finish("a", "failed")
    assert not run.state.nodes["a"].questions
    return run


def asking_to_escalated() -> Small:
    run = Small(plan(Operation(name="a", role="worker", models=("m", "n"))), waits_for_answers=True)
    run.tell(c.Ask("a", 1, "colour", "which?"))
    assert run.emit("a", "EscalationRequest", reason="too hard")
    run.finish("a")
    return run


def asking_to_cancelled() -> Small:
    run = asking()
    run.tell(c.Cancel("a"))
    return run


ROWS: dict[tuple[Status, Status], Callable[[], Small]] = {
    (S.WAITING, S.READY): waiting_to_ready,
    (S.WAITING, S.SKIPPED): waiting_to_skipped,
    (S.WAITING, S.VETOED): waiting_to_vetoed,
    (S.WAITING, S.FAILED): waiting_to_failed,
    (S.WAITING, S.CANCELLED): waiting_to_cancelled,
    (S.WAITING, S.COMPLETED): waiting_to_completed,
    (S.WAITING, S.ESCALATED): waiting_to_escalated,
    (S.READY, S.RUNNING): ready_to_running,
    (S.READY, S.VETOED): ready_to_vetoed,
    (S.READY, S.FAILED): ready_to_failed,
    (S.READY, S.CANCELLED): ready_to_cancelled,
    (S.RUNNING, S.COMPLETED): running_to_completed,
    (S.RUNNING, S.FAILED): running_to_failed,
    (S.RUNNING, S.ESCALATED): running_to_escalated,
    (S.RUNNING, S.SKIPPED): running_to_skipped,
    (S.RUNNING, S.BACKING_OFF): running_to_backing_off,
    (S.RUNNING, S.ASKING): asking,
    (S.RUNNING, S.STOPPING): running_to_stopping,
    (S.RUNNING, S.READY): running_to_ready,
    (S.STOPPING, S.CANCELLED): stopping_to_cancelled,
    (S.STOPPING, S.FAILED): stopping_to_failed,
    (S.STOPPING, S.READY): stopping_to_ready,
    (S.BACKING_OFF, S.READY): again_and_queued,
    (S.BACKING_OFF, S.FAILED): backing_off_to_failed,
    (S.BACKING_OFF, S.CANCELLED): backing_off_to_cancelled,
    (S.ASKING, S.READY): asking_to_ready,
    (S.ASKING, S.COMPLETED): asking_to_completed,
    (S.ASKING, S.FAILED): asking_to_failed,
    (S.ASKING, S.ESCALATED): asking_to_escalated,
    (S.ASKING, S.SKIPPED): asking_to_skipped,
    (S.ASKING, S.BACKING_OFF): asking_to_backing_off,
    (S.ASKING, S.CANCELLED): asking_to_cancelled,
}


def test_every_row_has_a_way_to_it():
    """A row that no command reaches is dead, and one that is not here is not tested."""
    assert set(ROWS) == set(TRANSITIONS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0].value}-{row[1].value}")
def test_row(row: tuple[Status, Status]):
    """The row happens; every law holds after every command on the way (PROP 2)."""
    run = ROWS[row]()
    assert row in [(before, after) for _, before, after in moves(run.records)]


def test_every_status_is_left_and_reached():
    """No live status without a way out, none without a way in; no way out of a terminal one."""
    assert {before for before, _ in TRANSITIONS} == LIVE
    assert {after for _, after in TRANSITIONS} == set(Status) - {S.WAITING}
    assert not {before for before, _ in TRANSITIONS} & TERMINAL


@pytest.mark.parametrize("limits", [False, True])
def test_nothing_else_happens(limits: bool):
    """Whatever is done to a run, no status changes by a way that is not in the table."""
    seen = set()
    for seed in range(50_000, 50_060):
        driver = Driver(Seeded(seed), limits=limits)
        for _ in range(30):
            if not driver.over:
                driver.step()
        seen |= {(before, after) for _, before, after in moves(driver.log.records)}
    assert seen <= set(TRANSITIONS)
    assert len(seen) > len(TRANSITIONS) / 2


def test_what_is_not_in_the_table_raises():
    """A rule that recommends it is a bug; the error names node, from and to."""
    run = chain()
    decision = Decision(run.state, c.Pause(), 1, ())
    decision.recommend(run.state.nodes["b"], S.RUNNING)
    with pytest.raises(IllegalTransition, match="b cannot go from waiting to running") as raised:
        settle(decision)
    assert raised.value.node == "b"
    assert decision.facts == []


def test_the_first_of_two_recommendations_stands():
    """Nothing settles twice in one decision, whatever two rules want."""
    run = chain()
    decision = Decision(run.state, c.Pause(), 1, ())
    decision.recommend(run.state.nodes["b"], S.CANCELLED, "first")
    decision.recommend(run.state.nodes["b"], S.VETOED, f.NodeVetoed("b", ("a",)))
    settle(decision)
    assert decision.facts == [f.NodeCancelled("b", "first")]


def test_restoring_by_the_table():
    """(waiting, completed) is carried out from a known outcome and from nothing else."""
    run = chain()
    decision = Decision(run.state, c.Pause(), 1, (b"5",))
    decision.recommend(run.state.nodes["a"], S.STOPPING, "x")
    decision.recommend(run.state.nodes["b"], S.COMPLETED, c.Known("b", "completed", 0))
    settle(decision)
    assert decision.facts[-1] == f.NodeCompleted("b", 0, 0, restored=True)
    assert run.state.nodes["b"].early


def test_settling_at_time_zero():
    """A virtual clock begins at 0: a node that settles then has settled all the same."""
    run = Small(plan("a", "b", edges=["a>b"]))
    decision = Decision(run.state, c.Pause(), 0, ())
    for _ in range(2):
        decision.recommend(run.state.nodes["b"], S.CANCELLED, "twice")
    decision.recommend(run.state.nodes["b"], S.VETOED, f.NodeVetoed("b", ("a",)))
    settle(decision)
    assert [type(fact) for fact in decision.facts] == [f.NodeCancelled]
