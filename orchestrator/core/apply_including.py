"""``evolve`` for facts about the child runs of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.core import facts as f
from orchestrator.core.frames import Frame
from orchestrator.core.settling import leave_status
from orchestrator.core.state import RunState
from orchestrator.core.status import Status

__all__ = ["INCLUDING"]


def _started(state: RunState, fact: f.ChildRunStarted, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.child_run, node.child_ended = fact.run, ""
    # a fork has another child than its origin, whose shares it leaves
    spawns, escalations = node.share
    node.share = (fact.spawns, fact.escalations)
    _count(state, fact.node, fact.spawns - spawns, fact.escalations - escalations)


def _held(state: RunState, fact: f.ChildRunHeld, frame: Frame) -> None:
    node = state.nodes[fact.node]
    leave_status(state, node)
    node.given_back += 1
    for note in state.steers:
        note.left_by(fact.node, fact.attempt)
    # ready, and in no queue: it starts when the run goes on
    node.status, node.held = Status.READY, fact.reason
    node.ready_at = frame.at


def _ended(state: RunState, fact: f.ChildRunEnded, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    spawns, escalations = node.share
    node.child_ended, node.share = fact.reason, (0, 0)
    _count(state, fact.node, fact.spawns - spawns, fact.escalations - escalations)


def _count(state: RunState, name: str, spawns: int, escalations: int) -> None:
    node = state.nodes[name]
    before = node.child_used
    node.child_used = (before[0] + spawns, before[1] + escalations)
    state.spawns += spawns
    state.escalations += escalations


INCLUDING: Mapping[type[f.Fact], Callable[[RunState, Any, Frame], None]] = {
    f.ChildRunStarted: _started,
    f.ChildRunHeld: _held,
    f.ChildRunEnded: _ended,
}
