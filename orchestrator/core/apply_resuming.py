"""``evolve`` for facts that let a stopped run go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import msgspec

from orchestrator.core import facts as f
from orchestrator.core.frames import Frame
from orchestrator.core.retracting import retract
from orchestrator.core.settling import count_out, drop_request, free, leave_status
from orchestrator.core.state import NodeState, RunState, Write
from orchestrator.core.status import TERMINAL, RunReason, Status

__all__ = ["RESUMING"]


def _resumed(state: RunState, fact: f.RunResumed, _frame: Frame) -> None:
    if fact.previous != RunReason.INTERRUPTED:
        # a run that died while it was being cancelled is still to be cancelled
        state.cancelling = state.cancel_detail = ""
    state.ended = state.suspended = state.draining = state.detail = ""
    state.waiters = {}
    state.closed = {}
    state.paused = False
    state.epoch = fact.epoch
    completed, asking = Status.COMPLETED, Status.ASKING
    for node in state.nodes.values():
        if node.status is completed and not node.resumes:
            # most nodes of a large run: nothing of them is held, asked or under way
            continue
        if node.held:
            node.held = ""
            state.ready[node.op.name] = None
        if (node.status is asking or node.resumes) and not node.parted:
            # its body is gone with its process: the next start is another attempt, and no other try
            node.parted = True
            node.resumes = False
            count_out(state, node)


def _control_applied(state: RunState, fact: f.ControlApplied, _frame: Frame) -> None:
    state.controls.append(fact.control)


def _reopened(state: RunState, fact: f.NodeReopened, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    if node.released:
        for edge in node.outs:
            state.nodes[edge.target].pending += 1
        node.released = False
    _forget_outcome(state, node)
    _forget_writes(state, node)
    retract(state, node)
    node.generation = fact.generation
    node.status = Status.WAITING
    # attempts go on counting; those of earlier generations are no longer tries
    node.given_back = node.attempt
    node.seen = node.early = node.restored = False
    node.left_out = 0
    node.view = None
    # its deadline begins anew with its next start
    node.settled_at = node.ready_at = node.started_at = node.asked_for = 0
    state.orders.pop(fact.node, None)
    state.live += 1


def _forget_outcome(state: RunState, node: NodeState) -> None:
    if node.status is Status.FAILED and not node.handled:
        state.failed_unhandled -= 1
    if node.judgement == "undecided":
        state.undecided -= 1
    node.handled = False
    node.artifacts = ()
    node.child_run = node.child_ended = ""
    node.judgement = node.error = node.value = node.verdicts = node.blocked_by = None
    node.reason = node.rationale = node.gave_up = node.decided_by = node.because = ""
    node.vetoed_by = ()


def _forget_writes(state: RunState, node: NodeState) -> None:
    """What the node wrote counts no more; who had seen it sees what it had followed instead."""
    gone, node.writes = node.writes or {}, None
    for key, write in gone.items():
        for other in state.nodes.values():
            if other.view is not None and node.name in other.view.get(key, ()):
                other.view = {**other.view, key: _without(other.view[key], write)}
                if not other.view[key]:
                    del other.view[key]
            theirs = None if other.writes is None else other.writes.get(key)
            if other.writes is not None and theirs is not None and node.name in theirs.prior:
                prior = _without(theirs.prior, write)
                other.writes = {**other.writes, key: msgspec.structs.replace(theirs, prior=prior)}
        if not any(key in (other.writes or ()) for other in state.nodes.values()):
            del state.written[key]


def _without(names: Iterable[str], write: Write) -> tuple[str, ...]:
    parts = ((name,) if name != write.node else write.prior for name in names)
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


def _dropped(state: RunState, fact: f.NodeDropped, _frame: Frame) -> None:
    node = state.nodes.pop(fact.node)
    if node.status not in TERMINAL:
        leave_status(state, node)
        free(state, node)
        drop_request(state, node)
        state.live -= 1
    _forget_outcome(state, node)
    _forget_writes(state, node)
    if node.origin in state.families:
        state.families[node.origin].remove(fact.node)
    for asked, name in list(state.injections.items()):
        if name == fact.node or asked[0] == fact.node:
            # the attempt that is made instead may ask for it again
            del state.injections[asked]
    if fact.node in state.rejected:
        state.rejected.remove(fact.node)
    for edge in node.ins:
        source = state.nodes.get(edge.source)
        if source is not None:
            source.outs = tuple(other for other in source.outs if other is not edge)
            source.onward = tuple(other for other in source.onward if other is not edge)
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
