"""Refusal loops: a gate that refuses sends the work back and a new round of it is planned (kernel.md 5).

A round copies planned nodes only, each at the tier that last completed; what grew in the old round stays
there. Whatever still waits for the old round waits for the new one, and reads it under the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from orchestrator.core.decisions import Decision
from orchestrator.core.facts import EdgeMoved, GateRefused, RoundEnded, RoundNode, RoundStarted
from orchestrator.core.spec import Edge, EdgeKind, Operation
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = ["end_round", "round_of", "send_back"]


def send_back(decision: Decision, gate: NodeState, refused: GateRefused) -> bool:
    """Start the next round of a gate that refuses, if it has refusals left; False changes nothing.

    A gate that settled before its predecessors did has judged nothing, and a run that stops starts nothing.
    """
    state = decision.state
    spec = gate.op.gate
    if spec is None or gate.refused >= spec.refusals or gate.early or state.cancelling:
        return False
    loop = state.loops.get(state.planned_name(gate), ())
    old = round_of(state, gate)
    if not loop or len(old) != len(loop):
        return False
    decision.fact(refused)
    _end(decision, gate, old)
    started = _round(state, gate, {name: old[name] for name in loop})
    decision.fact(started)
    waiting = (*(one.operation.name for one in started.nodes), *(one.target for one in started.moved))
    for name in dict.fromkeys(waiting):
        node = state.nodes[name]
        if node.pending == 0 and node.status is Status.WAITING:
            decision.due(node)
    return True


def round_of(state: RunState, gate: NodeState) -> dict[str, NodeState]:
    """Planned name -> the node that did its work in the round that ``gate`` judges, at its last tier."""
    name = state.planned_name(gate)
    loop = frozenset(state.loops.get(name, ()))
    found = {name: gate}
    stack, seen = [gate], {gate.op.name}
    while stack:
        for edge in stack.pop().ins:
            source = state.nodes[edge.source]
            name = state.planned_name(source)
            if name not in loop or source.depth or edge.source in seen:
                continue
            seen.add(edge.source)
            stack.append(source)
            known = found.get(name)
            if known is None or (source.round, source.rungs) > (known.round, known.rungs):
                found[name] = source
    return found


def end_round(decision: Decision, gate: NodeState) -> None:
    """A gate with a loop was judged: record what the round came to. Nothing acts on it."""
    if gate.op.gate is not None and gate.op.gate.refusals:
        _end(decision, gate, round_of(decision.state, gate))


def _end(decision: Decision, gate: NodeState, planned: Mapping[str, NodeState]) -> None:
    """Record what the round came to in which these nodes did the work."""
    state = decision.state
    everyone = [node for one in planned.values() for node in state.family(one)]
    before = _judged_before(state, gate)
    verdict = gate.verdicts[0] if gate.verdicts else None
    priced = [node.cost_usd for node in everyone if node.cost_usd is not None]
    began = min((node.started_at for node in everyone if node.attempt), default=decision.at)
    decision.fact(
        RoundEnded(
            gate.op.name,
            state.planned_name(gate),
            gate.round,
            gate.judgement or "",
            verdict,
            None if before is None else (verdict, gate.judgement == "approved") != before,
            len(everyone),
            sum(node.input_tokens + node.output_tokens for node in everyone),
            sum(priced) if priced else None,
            decision.at - began,
            gate.refused + (gate.judgement == "refused"),
            0 if gate.op.gate is None else gate.op.gate.refusals,
        )
    )


def _judged_before(state: RunState, gate: NodeState) -> tuple[str | None, bool] | None:
    """The verdict of the gate's round before, and whether that opened; None if this is the first."""
    first = state.nodes[gate.origin]
    if first.previous is None:
        return None
    before = state.nodes[first.previous]
    return (before.verdicts[0] if before.verdicts else None), before.judgement == "approved"


def _round(state: RunState, gate: NodeState, old: Mapping[str, NodeState]) -> RoundStarted:
    """The new round: ``old`` is the one that was refused, by planned name in topological order."""
    nodes = tuple(_again(state, name, node) for name, node in old.items())
    names = {one.of: one.operation.name for one in nodes}
    edges = tuple(edge for one in nodes for edge in _edges(state, one, names))
    speaking = [one for one in nodes if one.operation.speaks]
    planned = state.planned_name(gate)
    number = next(one.round for one in nodes if one.of == planned)
    moved = tuple(_moved(state, gate, old, names))
    return RoundStarted(
        gate.op.name,
        planned,
        number,
        nodes,
        edges,
        (*moved, *_left_behind(state, old, {one.target for one in moved})),
        tuple(one.operation.name for one in speaking if not one.operation.fresh),
        tuple(one.operation.name for one in speaking if one.operation.fresh),
        gate.refused + 1,
        0 if gate.op.gate is None else gate.op.gate.refusals,
    )


def _again(state: RunState, name: str, last: NodeState) -> RoundNode:
    """The copy of a planned node whose work ``last`` did: as written, at the tier that last completed."""
    first = state.nodes[last.origin].op
    number = state.nodes[state.latest.get(name, name)].round + 1
    operation: Operation = msgspec.structs.replace(first, name=f"{name}@{number}")
    if last.rungs and last.status is Status.COMPLETED:
        tier = last.op
        operation = msgspec.structs.replace(
            operation, role=tier.role, models=tier.models, tier=tier.tier, speaks=tier.speaks,
            retry=tier.retry, timeout=tier.timeout,
        )  # fmt: skip
    return RoundNode(operation=operation, of=name, previous=last.op.name, round=number)


def _edges(state: RunState, one: RoundNode, names: Mapping[str, str]) -> Iterator[Edge]:
    """The copy's own edges: inside the loop from copy to copy, into it from whatever they came from."""
    first = state.nodes[state.nodes[one.previous].origin]
    for edge in first.ins:
        source = state.nodes[edge.source]
        planned = state.planned_name(source)
        if source.depth and planned in names:
            continue
        came_from = names.get(planned, edge.source)
        yield msgspec.structs.replace(
            edge.spec, source=came_from, target=one.operation.name, reads_as=edge.reads_as
        )


def _moved(
    state: RunState, gate: NodeState, old: Mapping[str, NodeState], names: Mapping[str, str]
) -> Iterator[EdgeMoved]:
    """What waits outside the loop waits for the new round; what grew in the old one only if for the gate."""
    for name, last in old.items():
        for node in (one for one in state.family(last) if not one.depth):
            for target in dict.fromkeys(edge.target for edge in node.outs):
                waiter = state.nodes[target]
                mine = state.planned_name(waiter) in names and name != state.planned_name(gate)
                if waiter.status is Status.WAITING and not mine:
                    yield EdgeMoved(node.op.name, target, names[name])


def _left_behind(state: RunState, old: Mapping[str, NodeState], waiting: set[str]) -> Iterator[EdgeMoved]:
    """What grew in the old round and joined a node that waits for the new one joins it no more."""
    grew = [node for last in old.values() for node in state.family(last) if node.depth]
    for edge in (edge for node in grew for edge in node.outs):
        target = state.nodes[edge.target]
        joins = edge.spec.kind is EdgeKind.JOIN and edge.target in waiting
        if joins and target.status is Status.WAITING and not target.depth:
            yield EdgeMoved(edge.source, edge.target)
