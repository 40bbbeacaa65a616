"""Nodes whose outcome is known before the run starts: announced once as restored, never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emissions import Refused
from orchestrator.core.commands import Known
from orchestrator.core.decisions import Decision, Why
from orchestrator.core.facts import (
    EdgesJudged,
    Fact,
    Failure,
    NodeCancelled,
    NodeCompleted,
    NodeEscalated,
    NodeFailed,
    NodeSkipped,
    NodeVetoed,
)
from orchestrator.core.gates import judge_gate, person_decides
from orchestrator.core.outcomes import after
from orchestrator.core.state import NodeState
from orchestrator.core.status import TERMINAL, Status

__all__ = ["given_nodes", "known_nodes", "restore"]


def known_nodes(decision: Decision, known: Sequence[Known], predicates: Mapping[int, bool | str]) -> None:
    """Settle every known node before anything is judged; ``predicates``: what those of its edges gave."""
    for one in known:
        node = decision.state.nodes[one.node]
        wanted = [edge.spec.predicate for edge in node.outs if edge.spec.predicate is not None]
        judged = {index: predicates[index] for index in wanted if index in predicates}
        if judged:
            decision.fact(EdgesJudged(one.node, judged))
        _restore(decision, node, one)


def given_nodes(decision: Decision, given: Sequence[Known]) -> None:
    """Settle nodes that a fork gives an outcome of its own, whatever they were doing."""
    for one in given:
        node = decision.state.nodes[one.node]
        if node.status in TERMINAL:
            detail = f"{one.node} has settled there as {node.status.value}; fork at an earlier record"
            decision.receipts.append(Refused("too_late", detail))
            continue
        _restore(decision, node, one)


def restore(decision: Decision, node: NodeState, why: Why) -> None:
    """(waiting, completed | escalated): only a known outcome leads there without a run."""
    if not isinstance(why, Known):
        message = f"{node.op.name} can only be restored from a known outcome"
        raise TypeError(message)
    _restore(decision, node, why)


def _restore(decision: Decision, node: NodeState, known: Known) -> None:
    decision.fact(_fact(node, known))
    if known.verdict:
        wrong = person_decides(decision, node, known.verdict, known.by, known.because)
        if wrong is not None:
            decision.receipts.append(Refused("invalid", wrong))
    if node.op.gate is not None and not node.released:
        why = "" if known.status == Status.COMPLETED else f"it was restored as {known.status}"
        judge_gate(decision, node, known.gate_verdict, why)
    after(decision, node, ())


def _fact(node: NodeState, known: Known) -> Fact:
    name = node.op.name
    failure = known.error or Failure("RestoredFailure", known.reason)
    facts: dict[str, Fact] = {
        Status.COMPLETED: NodeCompleted(name, 0, known.value, restored=True),
        Status.FAILED: NodeFailed(name, 0, failure, restored=True),
        Status.SKIPPED: NodeSkipped(name, known.reason or "restored", restored=True),
        Status.VETOED: NodeVetoed(name, known.gates, known.reason, restored=True),
        Status.CANCELLED: NodeCancelled(name, known.reason, restored=True),
        Status.ESCALATED: NodeEscalated(name, 0, "", known.reason, value=known.value, restored=True),
    }
    return facts[known.status]
