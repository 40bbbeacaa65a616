"""How runs stop when several things stop them at once."""

from __future__ import annotations

import pytest

from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.spec import Budget, Gate, Operation
from orchestrator.core.status import PRECEDENCE
from tests.core.small import Small, plan


def test_cancelled_while_it_is_being_interrupted():
    """The attempts that were to be given back are cancelled: the run ends, and nothing is left ready."""
    run = Small(plan("a", "b", edges=["a>b"]))
    run.tell(c.Cancel(suspend="interrupted"))
    run.tell(c.Cancel(reason="enough"))
    run.stopped("a")
    assert run.statuses() == {"a": "cancelled", "b": "cancelled"}
    assert run.state.ended == "cancelled"


def test_interrupted_while_it_is_being_cancelled():
    """Cancelled is cancelled."""
    run = Small(plan("a"))
    run.tell(c.Cancel(reason="enough"))
    run.tell(c.Cancel(suspend="interrupted"))
    run.stopped("a")
    assert (run.state.ended, run.statuses()) == ("cancelled", {"a": "cancelled"})


REQUESTS = {
    "drained": c.Drain(),
    "deadline": c.Elapsed("wall_clock"),
    "interrupted": c.Cancel(suspend="interrupted"),
}


@pytest.mark.parametrize("first", REQUESTS)
@pytest.mark.parametrize("second", REQUESTS)
def test_two_reasons_to_suspend(first: str, second: str):
    """The first of PRECEDENCE is told, whichever came first; a harder stop is not lost on a softer one."""
    run = Small(plan("a", "b", edges=["a>b"]))
    run.tell(REQUESTS[first])
    run.tell(REQUESTS[second])
    run.stopped("a") if {first, second} != {"drained"} else run.finish("a")
    order = [reason.value for reason in PRECEDENCE]
    assert run.state.suspended == min(first, second, key=order.index)


def test_a_deadline_stops_what_a_drain_lets_run():
    """kernel.md 8: at the end of the wall clock attempts are stopped, a drain or not."""
    run = Small(plan("a"))
    run.tell(c.Drain())
    run.tell(c.Elapsed("wall_clock"))
    assert run.status("a") == "stopping"


def test_nothing_follows_the_end():
    """What comes too late is answered; the run's last fact stays its last."""
    run = Small(plan("a"))
    run.finish("a")
    last = run.state.facts
    for command in (c.Finish("a", 1), c.AttemptStopped("a", 1), c.Pause(), c.Cancel("a"), c.Drain()):
        decision = run.tell(command)
        assert decision.facts == []
        assert decision.receipts[0].reason == "not_running"  # type: ignore[union-attr]
    assert run.state.facts == last


def test_a_veto_reaches_past_a_node_that_was_cancelled_early():
    """Law 6: `w` was cancelled while its gate ran; `x` still depends on the gate that then rejects."""
    gate = Operation(name="gate", role="worker", gate=Gate())
    run = Small(plan(gate, "w", "other", "x", edges=["gate>w", "w>x", "other>x"]))
    run.tell(c.Cancel("w"))
    run.verdict("gate", "REJECT")
    run.finish("other")
    assert run.statuses()["x"] == "vetoed"
    assert run.state.nodes["x"].vetoed_by == ("gate",)


def test_a_veto_does_not_reach_past_a_known_outcome():
    """An outcome that was given does not come from the gate above it."""
    gate = Operation(name="gate", role="worker", gate=Gate())
    graph = plan(gate, "w", "other", "x", edges=["gate>w", "w>x", "other>x"])
    run = Small(graph, b"1", known=(c.Known("w", "completed", 0),))
    run.verdict("gate", "REJECT")
    run.finish("other")
    run.finish("x")
    assert run.state.ended == "gate_rejected"


def test_an_attempt_that_waits_to_be_repeated_has_started():
    """Veto keeps what has not started from starting; a node between two attempts has."""
    run = Small(plan("a", "b", budget=Budget(concurrency=1)))
    run.finish("a", proposals=(c.Proposal("veto", "b", "no"),))
    assert run.statuses()["b"] == "vetoed"
    run = Small(plan("a", "b"), waits_for_answers=True)
    run.tell(c.Ask("b", 1, "k", "?"))
    run.tell(c.Pause())
    run.tell(c.Answer("b", "k", 0), b"1")
    run.finish("a", proposals=(c.Proposal("veto", "b", "no"),))
    assert run.statuses()["b"] == "ready"
    assert run.facts_of(f.NodeVetoed) == []


def test_what_a_settling_asks_for_is_not_lost_on_an_escalation():
    """on_settle may inject as a node hands its work up; law 8: nothing is dropped silently."""
    run = Small(plan("a"))
    assert run.emit("a", "EscalationRequest", reason="too hard")
    run.finish("a", proposals=(c.Proposal("inject", "extra", assignee="senior"),))
    assert set(run.statuses()) == {"a", "a+1", "extra"}
