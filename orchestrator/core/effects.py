"""``react``: what the world must now do because of a fact. Every effect names the fact that caused it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestrator.core import facts as f
from orchestrator.core.status import RunReason

__all__ = [
    "REACT",
    "AnswerAttempt",
    "CloseRun",
    "DeliverSteer",
    "Effect",
    "FoldStep",
    "SetBackoff",
    "StartAttempt",
    "StopAttempt",
    "TellChildren",
]


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of all effects. ``cause`` is the number of the fact."""

    cause: int


class StartAttempt(Effect, frozen=True):
    """Run this attempt's body; one that waits for an answer goes on instead."""

    node: str
    attempt: int


class StopAttempt(Effect, frozen=True):
    """Cancel this attempt's body; ``attempt`` None is whichever still runs."""

    node: str
    attempt: int | None
    reason: str


class SetBackoff(Effect, frozen=True):
    """Say ``Elapsed("backoff")`` after so many nanoseconds."""

    node: str
    attempt: int
    delay: int


class AnswerAttempt(Effect, frozen=True):
    """A question of this node has its answer."""

    node: str
    key: str


class DeliverSteer(Effect, frozen=True):
    """Put this note into the mailbox of a running attempt."""

    node: str
    attempt: int
    id: int


class TellChildren(Effect, frozen=True):
    """Pause, resume or drain the runs of included flows, as this run is."""

    what: str


class FoldStep(Effect, frozen=True):
    """Fold the writes of a step that has settled."""

    step: int


class CloseRun(Effect, frozen=True):
    """The run has ended or is suspended: no attempt goes on."""

    reason: str


def _started(fact: f.NodeStarted, cause: int) -> Effect:
    return StartAttempt(cause, fact.node, fact.attempt)


def _stopping(fact: f.NodeStopping, cause: int) -> Effect:
    return StopAttempt(cause, fact.node, fact.attempt, fact.reason)


def _cancelled(fact: f.NodeCancelled | f.NodeVetoed, cause: int) -> Effect:
    # a node that was asking, or has its answer and no slot yet, has a body that waits
    return StopAttempt(cause, fact.node, None, fact.reason)


def _failed(fact: f.NodeFailed, cause: int) -> Effect:
    # the same, where its deadline passed before it had a slot
    return StopAttempt(cause, fact.node, None, fact.error.type)


def _backoff(fact: f.NodeRetryScheduled, cause: int) -> Effect:
    return SetBackoff(cause, fact.node, fact.attempt, fact.delay)


def _answered(fact: f.QuestionAnswered, cause: int) -> Effect:
    return AnswerAttempt(cause, fact.node, fact.key)


def _steer(fact: f.SteerDelivered, cause: int) -> Effect:
    return DeliverSteer(cause, fact.node, fact.attempt, fact.id)


def _settled(fact: f.StepSettled, cause: int) -> Effect:
    return FoldStep(cause, fact.step)


def _closed(fact: f.RunEnded | f.RunSuspended, cause: int) -> Effect:
    return CloseRun(cause, fact.reason)


def _paused(_fact: f.RunPaused, cause: int) -> Effect:
    return TellChildren(cause, "pause")


def _unpaused(_fact: f.RunUnpaused, cause: int) -> Effect:
    return TellChildren(cause, "resume")


def _draining(fact: f.DrainRequested, cause: int) -> Effect:
    # of every other reason a running attempt is told by its own fact
    return TellChildren(cause, "drain" if fact.reason == RunReason.DRAINED else "")


#: Any, because each function takes its own kind of fact. A fact that is not here asks for nothing.
REACT: Mapping[type[f.Fact], Callable[[Any, int], Effect]] = {
    f.NodeStarted: _started,
    f.NodeStopping: _stopping,
    f.NodeCancelled: _cancelled,
    f.NodeVetoed: _cancelled,
    f.NodeFailed: _failed,
    f.NodeRetryScheduled: _backoff,
    f.QuestionAnswered: _answered,
    f.SteerDelivered: _steer,
    f.RunPaused: _paused,
    f.RunUnpaused: _unpaused,
    f.DrainRequested: _draining,
    f.StepSettled: _settled,
    f.RunEnded: _closed,
    f.RunSuspended: _closed,
}
