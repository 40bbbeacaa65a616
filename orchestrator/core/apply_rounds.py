"""``evolve`` for refusal loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from orchestrator.core import facts as f
from orchestrator.core.apply_growth import carry, link
from orchestrator.core.frames import Frame
from orchestrator.core.retracting import retract
from orchestrator.core.round_records import Round
from orchestrator.core.settling import accept_failures, let_go
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = ["EXHAUSTED", "ROUNDS", "judged"]

#: The cause of a rejection because no refusal was left.
EXHAUSTED: Final = "refusals_exhausted"
#: Births of copies: after everything that grew from the planned node, before the next planned one.
_COPY: Final = 1 << 40


def judged(
    state: RunState,
    node: NodeState,
    judgement: str,
    fact: f.GateApproved | f.GateRejected | f.GateRefused,
) -> None:
    """A gate has its judgement; by whom and why."""
    if node.judgement == "undecided":
        state.undecided -= 1
    node.judgement = judgement
    node.decided_by, node.because = fact.by or "", fact.because
    node.verdicts = [fact.verdict] if fact.verdict else node.verdicts


def _refused(state: RunState, fact: f.GateRefused, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.rationale = fact.rationale
    judged(state, node, "refused", fact)


def _started(state: RunState, fact: f.RoundStarted, _frame: Frame) -> None:
    gate = state.nodes[fact.node]
    for one in fact.nodes:
        _again(state, fact, one)
    for edge in fact.edges:
        link(state, edge)
    for move in fact.moved:
        _move(state, move)
    let_go(state, gate)
    copy = next(one.operation.name for one in fact.nodes if one.of == fact.gate)
    opened = Round(fact.gate, fact.round, copy, continued=fact.continued, fresh=fact.fresh)
    opened.refusals, opened.allowed = fact.refusals, fact.allowed
    state.rounds.append(opened)


def _again(state: RunState, fact: f.RoundStarted, one: f.RoundNode) -> None:
    """A copy enters the graph; the round before it is over."""
    last, name = state.nodes[one.previous], one.operation.name
    node = NodeState(one.operation, state.nodes[one.of].birth.child(_COPY + one.round), name)
    node.copies, node.round, node.previous = one.of, one.round, one.previous
    node.sent_back_by = fact.node
    if last.status is Status.COMPLETED:
        node.rungs = last.rungs
    if one.of == fact.gate:
        node.refused = state.nodes[fact.node].refused + 1
    if not one.operation.fresh:
        node.branch = last.branch
    state.nodes[name] = node
    state.latest[one.of] = name
    state.live += 1
    retract(state, node)
    accept_failures(state, (one.op.name for one in state.family(last) if one.status is Status.FAILED))


def _move(state: RunState, move: f.EdgeMoved) -> None:
    """Every edge from one node to another comes from a third one now, or is gone."""
    source, target = state.nodes[move.source], state.nodes[move.target]
    moving = [edge for edge in source.outs if edge.target == move.target]
    source.outs = tuple(edge for edge in source.outs if edge.target != move.target)
    source.onward = tuple(edge for edge in source.onward if edge.target != move.target)
    state.orders.pop(move.target, None)
    if not source.released:
        target.pending -= len(moving)
    if not move.to:
        target.ins = tuple(edge for edge in target.ins if edge.source != move.source)
        return
    new = state.nodes[move.to]
    for edge in moving:
        carry(edge, new)
        edge.judged = None
        target.pending += 1


def _ended(state: RunState, fact: f.RoundEnded, _frame: Frame) -> None:
    gate = state.nodes[fact.node]
    found = next((one for one in reversed(state.rounds) if one.node == gate.origin), None)
    if found is None:
        found = Round(fact.gate, fact.round, gate.origin)
        state.rounds.append(found)
    for field in ("judgement", "verdict", "moved", "nodes", "tokens", "cost_usd", "duration"):
        setattr(found, field, getattr(fact, field))
    found.refusals, found.allowed = fact.refusals, fact.allowed
    found.rationale = gate.rationale


ROUNDS: Mapping[type[f.Fact], Callable[[RunState, Any, Frame], None]] = {
    f.GateRefused: _refused,
    f.RoundStarted: _started,
    f.RoundEnded: _ended,
}
