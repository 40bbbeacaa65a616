"""``evolve`` for facts that let a stopped run go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.core import facts as f
from orchestrator.core.frames import Frame
from orchestrator.core.settling import leave_status
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import TERMINAL, Status

__all__ = ["RESUMING"]


def _resumed(state: RunState, fact: f.RunResumed, _frame: Frame) -> None:
    state.ended = state.suspended = state.draining = state.cancelling = ""
    state.detail = state.cancel_detail = ""
    state.waiters = {}
    state.paused = False
    state.epoch = fact.epoch


def _control_applied(state: RunState, fact: f.ControlApplied, _frame: Frame) -> None:
    state.controls.append(fact.control)


def _reopened(state: RunState, fact: f.NodeReopened, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    if node.released:
        for edge in node.outs:
            state.nodes[edge.target].pending += 1
        node.released = False
    _forget_outcome(state, node)
    node.generation = fact.generation
    node.status = Status.WAITING
    # attempts go on counting; those of earlier generations are no longer tries
    node.given_back = node.attempt
    node.seen = node.early = node.restored = False
    node.view = None
    node.settled_at = node.ready_at = 0
    state.orders.pop(fact.node, None)
    state.live += 1


def _forget_outcome(state: RunState, node: NodeState) -> None:
    if node.status is Status.FAILED and not node.handled:
        state.failed_unhandled -= 1
    if node.judgement == "undecided":
        state.undecided -= 1
    node.handled = False
    node.judgement = node.error = node.value = node.verdicts = node.blocked_by = None
    node.reason = node.rationale = node.gave_up = ""
    node.vetoed_by = ()


def _dropped(state: RunState, fact: f.NodeDropped, _frame: Frame) -> None:
    node = state.nodes.pop(fact.node)
    if node.status not in TERMINAL:
        leave_status(state, node)
        state.live -= 1
    _forget_outcome(state, node)
    if fact.node in state.rejected:
        state.rejected.remove(fact.node)
    for edge in node.ins:
        source = state.nodes.get(edge.source)
        if source is not None:
            source.outs = tuple(other for other in source.outs if other is not edge)
    for edge in node.outs:
        target = state.nodes.get(edge.target)
        if target is not None:
            target.ins = tuple(other for other in target.ins if other is not edge)
            if not node.released:
                target.pending -= 1
            state.orders.pop(edge.target, None)
    state.orders.pop(fact.node, None)


RESUMING: Mapping[type[f.Fact], Callable[[RunState, Any, Frame], None]] = {
    f.RunResumed: _resumed,
    f.ControlApplied: _control_applied,
    f.NodeReopened: _reopened,
    f.NodeDropped: _dropped,
}
