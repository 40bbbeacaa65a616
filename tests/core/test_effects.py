"""What the world must do because of a fact: every kind of fact has its effect or has none on purpose."""

from __future__ import annotations

import pytest

from orchestrator.core import commands as c
from orchestrator.core import effects as e
from orchestrator.core import facts as f
from orchestrator.core.apply import APPLY
from orchestrator.core.decisions import Decision
from orchestrator.core.effects import REACT
from orchestrator.core.spec import Operation, Retry
from tests.core.small import Small, plan

NO = f.Failure("ValueError", "no", 1)
#: fact, and the effect that fact 7 has
EFFECTS = [
    (f.NodeStarted("a", 2), e.StartAttempt(7, "a", 2)),
    (f.NodeStopping("a", 2, "cancelled", "enough"), e.StopAttempt(7, "a", 2, "enough")),
    (f.NodeCancelled("a", "enough"), e.StopAttempt(7, "a", None, "enough")),
    (f.NodeVetoed("a", ("g",), "enough"), e.StopAttempt(7, "a", None, "enough")),
    (f.NodeFailed("a", 2, NO), e.StopAttempt(7, "a", None, "ValueError")),
    (f.NodeRetryScheduled("a", 2, NO, 5), e.SetBackoff(7, "a", 2, 5)),
    (f.QuestionAnswered("a", "colour", 0), e.AnswerAttempt(7, "a", "colour")),
    (f.SteerDelivered(3, "a", 2), e.DeliverSteer(7, "a", 2, 3)),
    (f.RunPaused(), e.TellChildren(7, "pause")),
    (f.RunUnpaused(), e.TellChildren(7, "resume")),
    (f.DrainRequested(), e.TellChildren(7, "drain")),
    (f.DrainRequested("deadline"), e.TellChildren(7, "")),
    (f.StepSettled(3), e.FoldStep(7, 3)),
    (f.RunEnded("completed"), e.CloseRun(7, "completed")),
    (f.RunSuspended("drained"), e.CloseRun(7, "drained")),
]


@pytest.mark.parametrize(("fact", "effect"), EFFECTS, ids=lambda part: type(part).__name__)
def test_effect(fact: f.Fact, effect: e.Effect):
    """Each effect names the fact that caused it and says no more than the fact does."""
    assert REACT[type(fact)](fact, 7) == effect


def test_every_kind_is_decided_about():
    """A fact has one of these effects or asks for nothing; apply knows every fact."""
    assert set(REACT) == {type(fact) for fact, _ in EFFECTS}
    assert set(REACT) <= set(f.FACTS)
    assert set(APPLY) == set(f.FACTS)


def effects_of(decision: Decision, first: int) -> list[e.Effect]:
    return [
        REACT[type(fact)](fact, first + place)
        for place, fact in enumerate(decision.facts)
        if type(fact) in REACT
    ]


def parts(effects: list[e.Effect]) -> list[tuple[str, object]]:
    return [(type(effect).__name__, getattr(effect, "node", None)) for effect in effects]


def test_a_settling_starts_what_it_was_waited_for_by():
    """One decision: the dependents' starts, in order, each caused by its own NodeStarted."""
    run = Small(plan("a", "b", "c", edges=["a>b", "a>c"]))
    first = run.state.facts + 1
    effects = effects_of(run.finish("a"), first)
    assert parts(effects) == [("StartAttempt", "b"), ("StartAttempt", "c")]
    numbers = {first + place: fact for place, fact in enumerate(run.records[-1].facts)}
    assert [numbers[effect.cause] for effect in effects] == [f.NodeStarted("b", 1), f.NodeStarted("c", 1)]


def test_a_retry_sets_a_timer_and_no_more():
    """The delay is in nanoseconds; the attempt that failed is named, so that a late timer is known."""
    run = Small(plan(Operation(name="a", role="worker", retry=Retry(attempts=2, backoff=1.5))))
    effects = effects_of(run.finish("a", "failed"), 1)
    assert effects == [e.SetBackoff(1, "a", 1, 1_500_000_000)]


def test_cancelling_a_run_stops_what_runs_and_closes_when_it_has_stopped():
    """Stop first, close last."""
    run = Small(plan("a", "b", "c", edges=["a>c"]))
    told = effects_of(run.tell(c.Cancel(reason="x")), 1)
    assert parts(told) == [("StopAttempt", "a"), ("StopAttempt", "b"), ("StopAttempt", "c")]
    assert "CloseRun" not in dict(parts(effects_of(run.stopped("a"), 1)))
    assert parts(effects_of(run.stopped("b"), 1))[-1] == ("CloseRun", None)


def test_an_answer_goes_on_with_the_same_attempt():
    """AnswerAttempt, then the start of the attempt that asked."""
    run = Small(plan("a"), waits_for_answers=True)
    run.tell(c.Ask("a", 1, "colour", "which?"))
    effects = effects_of(run.tell(c.Answer("a", "colour", 0), b'"red"'), 1)
    assert [type(effect) for effect in effects] == [e.AnswerAttempt, e.StartAttempt]
    assert effects[1] == e.StartAttempt(effects[1].cause, "a", 1)
