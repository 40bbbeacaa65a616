"""Refusals: a receipt to the emitter and a record, bounded per emitter and reason (engine.md 22)."""

from __future__ import annotations

import msgspec

from emissions import Refused
from orchestrator.core.commands import EmissionIn
from orchestrator.core.decisions import Decision
from orchestrator.core.facts import EmissionRefused, Refusals, SpawnRefused
from orchestrator.core.payloads import GROWING
from orchestrator.core.state import NodeState, RunState

__all__ = ["RECORDED", "refuse", "refuse_growth", "total_outside", "total_refusals"]

#: So many refusals of one kind by one node are facts; further ones are answered and counted.
RECORDED = 100


class _Asked(msgspec.Struct, frozen=True):
    """What a refused request to grow is recorded with."""

    assignee: str | None = None


def refuse(decision: Decision, node: NodeState, emission: EmissionIn, reason: str, detail: str) -> Refused:
    """Refuse an emission; nothing else changes."""
    if emission.kind in GROWING:
        # one that could not be read (too deep, forged) has no payload, and is a dropped spawn all the same
        position = emission.payload
        asked = _Asked() if position is None else msgspec.json.decode(decision.values[position], type=_Asked)
        return refuse_growth(decision, node, reason, detail, assignee=asked.assignee, key=emission.key)
    if _counted(node, reason):
        decision.fact(EmissionRefused(node.op.name, node.attempt, emission.kind, reason, detail))
    return Refused(reason, detail)


def refuse_growth(
    decision: Decision,
    node: NodeState | None,
    reason: str,
    detail: str,
    *,
    assignee: str | None = None,
    key: str | None = None,
) -> Refused:
    """Refuse a request to grow, from a node or from outside."""
    if _counted(node, reason) if node is not None else _counted_outside(decision.state, reason):
        decision.fact(SpawnRefused(None if node is None else node.op.name, reason, detail, assignee, key))
    return Refused(reason, detail)


def _counted(node: NodeState, reason: str) -> bool:
    """Count one refusal; True while it is to be recorded.

    The count is not a fact: it lives until the node settles, which records the total.
    """
    if node.refusals is None:
        node.refusals = {}
    count = node.refusals[reason] = node.refusals.get(reason, 0) + 1
    return count <= RECORDED


def _counted_outside(state: RunState, reason: str) -> bool:
    """Count one refusal of somebody outside; True while it is to be recorded.

    What is recorded is known from the facts, so that a restart does not begin to count anew.
    """
    if state.refused_outside.get(reason, 0) < RECORDED:
        return True
    state.unrecorded[reason] = state.unrecorded.get(reason, 0) + 1
    return False


def total_outside(decision: Decision) -> None:
    """As the run stops: how many refusals of people outside were answered without a fact of their own."""
    if decision.state.unrecorded:
        decision.fact(Refusals(None, dict(decision.state.unrecorded)))


def total_refusals(decision: Decision, node: NodeState) -> None:
    """As the node settles: how many refusals were answered without a fact of their own."""
    over = {reason: count - RECORDED for reason, count in (node.refusals or {}).items() if count > RECORDED}
    if over:
        decision.fact(Refusals(node.op.name, over))
