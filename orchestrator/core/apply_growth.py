"""``evolve`` for facts that grow the graph, fill the ledger and write the context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestrator.core import facts as f
from orchestrator.core.births import Birth
from orchestrator.core.context import prior_of
from orchestrator.core.frames import Frame
from orchestrator.core.payloads import read_escalation, read_verdict
from orchestrator.core.retracting import EMPTY
from orchestrator.core.sequences import grown
from orchestrator.core.settling import accept_failures, leave, let_go
from orchestrator.core.spec import Edge, EdgeKind
from orchestrator.core.state import EdgeState, Emitted, Escalation, NodeState, RunState, Write
from orchestrator.core.status import Status

__all__ = ["GROWTH", "carry", "link"]


def _added(state: RunState, fact: f.NodeAdded, _frame: Frame) -> None:
    operation = fact.operation
    parent = None if fact.parent is None else state.nodes[fact.parent]
    if parent is None:
        state.injected += 1
        # injected nodes are roots that were born after every planned one
        birth = Birth(len(state.plan.operations) + fact.number)
        node = NodeState(operation, birth, fact.origin or operation.name)
    else:
        parent.children += 1
        node = NodeState(operation, parent.birth.child(fact.number), fact.origin)
        node.parent, node.depth = fact.parent, fact.depth
        one = operation.instance
        node.elements_above = parent.elements_above + (one is not None and one.of == fact.parent)
        if state.loops:
            state.families.setdefault(fact.origin, []).append(operation.name)
    state.nodes[operation.name] = node
    state.live += 1
    if fact.counted:
        state.spawns += 1
        count_key = (node.origin, operation.role or operation.verb)
        state.name_counts[count_key] = state.name_counts.get(count_key, 0) + 1
    if fact.key is not None:
        state.injections[fact.parent, fact.key] = operation.name
    for edge in fact.edges:
        link(state, edge)
    if fact.splice and parent is not None:
        _splice(state, parent, node)


def _instances_added(state: RunState, fact: f.InstancesAdded, frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.opened = True
    node.ready_at = node.started_at = frame.at
    # what its instances write is seen when it is due again
    node.seen, node.view = False, None
    accept_failures(state, fact.handles)


def _instances_settled(state: RunState, fact: f.InstancesSettled, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    # a list that was given lacks nothing
    node.left_out = 0 if node.restored else len(fact.failed)
    failed = (name for name in fact.failed if state.nodes[name].status is Status.FAILED)
    accept_failures(state, failed)


def link(state: RunState, edge: Edge) -> None:
    """An edge enters the graph; its target waits for its source unless that has let go."""
    link = EdgeState(edge.source, edge.target, edge)
    source = state.nodes[edge.source]
    source.outs = grown(source.outs, link)
    if edge.kind is not EdgeKind.CHILD:
        source.onward = grown(source.onward, link)
    target = state.nodes[edge.target]
    target.ins = grown(target.ins, link)
    if not source.released:
        target.pending += 1


def carry(edge: EdgeState, source: NodeState) -> None:
    """The edge comes from another node from here on; its target reads that under the name that it knows."""
    if edge.spec.reads_as is None:
        edge.spec = msgspec.structs.replace(edge.spec, reads_as=edge.spec.source)
    edge.source = source.op.name
    source.outs = grown(source.outs, edge)
    if edge.spec.kind is not EdgeKind.CHILD:
        source.onward = grown(source.onward, edge)


def _splice(state: RunState, emitter: NodeState, child: NodeState) -> None:
    """Put ``child`` between ``emitter`` and everything that waits for it, its own children apart."""
    kept: list[EdgeState] = []
    for link in emitter.outs:
        target = state.nodes[link.target]
        mine = link.target == child.name or link.spec.kind is EdgeKind.CHILD
        if mine or target.status is not Status.WAITING:
            kept.append(link)
            continue
        carry(link, child)
    emitter.outs = kept
    emitter.onward = tuple(link for link in kept if link.spec.kind is not EdgeKind.CHILD)
    emitter.superseded_by = child.name
    child.rungs = emitter.rungs + 1
    child.round, child.refused = emitter.round, emitter.refused
    state.escalations += 1


def _escalated(state: RunState, fact: f.NodeEscalated, frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.value = None if fact.value is None else frame.values[fact.value]
    node.reason, node.restored = fact.reason, fact.restored
    leave(state, node, Status.ESCALATED, frame.at)
    let_go(state, node)


def _emission(state: RunState, fact: f.EmissionAccepted, frame: Frame) -> None:
    node = state.nodes[fact.node]
    payload = frame.values[fact.payload]
    entry = Emitted(fact.emission, fact.number, fact.attempt, payload, fact.key, fact.child, fact.role)
    if fact.number <= node.emitted:
        # a later attempt said it again: the entry is this attempt's now
        node.ledger = tuple(entry if known.number == fact.number else known for known in node.ledger)
    else:
        node.emitted = fact.number
        node.ledger = grown(node.ledger, entry)
        identity = (fact.emission, payload if fact.key is None else fact.key, fact.nth)
        if node.identities is None:
            node.identities = {}
        node.identities[identity] = fact.number
    if fact.emission == "Verdict":
        verdict = read_verdict(payload)
        node.verdicts = [*(node.verdicts or ()), verdict.verdict]
        node.rationale = verdict.rationale
    elif fact.emission == "EscalationRequest" and fact.child is not None:
        request = read_escalation(payload)
        before = node.escalation
        if before is None:
            state.escalating += 1
            node.escalation = Escalation(request.reason, request.urgency, fact.child, bytes(request.context))
        else:
            node.escalation = msgspec.structs.replace(before, more=(*before.more, request.reason))


def _spawn_refused(state: RunState, fact: f.SpawnRefused, _frame: Frame) -> None:
    state.refused.append((fact.node, fact.reason, fact.detail, fact.assignee, fact.key))
    if fact.node is None:
        state.refused_outside[fact.reason] = state.refused_outside.get(fact.reason, 0) + 1


def _refusals(state: RunState, fact: f.Refusals, _frame: Frame) -> None:
    for reason, count in fact.counts.items():
        known = state.counted_refusals.get((None, reason), 0) if fact.node is None else 0
        state.counted_refusals[fact.node, reason] = known + count
    if fact.node is None:
        state.unrecorded = {}


def _notified(state: RunState, fact: f.NodeNotified, _frame: Frame) -> None:
    if fact.route == "give_up":
        state.nodes[fact.node].gave_up = fact.reason


def _written(state: RunState, fact: f.ContextWritten, frame: Frame) -> None:
    node = state.nodes[fact.node]
    prior, generation = prior_of(state, node, fact.key)
    value = frame.values[fact.value]
    if node.writes is None:
        node.writes = {}
    before = node.writes.get(fact.key)
    if before is None or fact.replace or before.value == EMPTY:
        write = Write(fact.node, fact.key, value, fact.leaves, fact.replace, prior, generation)
    else:
        # several writes of one node follow each other: the later is folded over the earlier
        leaves = tuple(dict.fromkeys((*before.leaves, *fact.leaves)))
        write = msgspec.structs.replace(before, leaves=leaves, more=(*before.more, value))
    node.writes[fact.key] = write
    state.written[fact.key] = None


GROWTH: Mapping[type[f.Fact], Callable[[RunState, Any, Frame], None]] = {
    f.NodeAdded: _added,
    f.InstancesAdded: _instances_added,
    f.InstancesSettled: _instances_settled,
    f.NodeEscalated: _escalated,
    f.NodeNotified: _notified,
    f.EmissionAccepted: _emission,
    f.SpawnRefused: _spawn_refused,
    f.Refusals: _refusals,
    f.ContextWritten: _written,
}
