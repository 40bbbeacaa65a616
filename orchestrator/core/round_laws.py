"""The laws of refusal loops, as ``laws`` sees them in a state and ``fact_laws`` in the order of facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrator.core import facts as f
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import TERMINAL

__all__ = ["refused_breaches", "round_started", "rounds_breaches"]

Breaches = Iterator[str]


def rounds_breaches(state: RunState) -> Breaches:
    """Rounds are numbered without a gap, and the latest copy is the one that counts."""
    copies: dict[str, list[int]] = {}
    for name, node in state.nodes.items():
        if node.copies is not None:
            copies.setdefault(node.copies, []).append(node.round)
            if node.previous not in state.nodes or node.sent_back_by not in state.nodes:
                yield f"{name} takes up the work of {node.previous!r}, sent back by {node.sent_back_by!r}"
    for planned, numbers in copies.items():
        if numbers != list(range(2, len(numbers) + 2)):
            yield f"rounds of {planned} are {numbers}"
        if state.latest.get(planned) != f"{planned}@{len(numbers) + 1}":
            yield f"{planned} has {len(numbers) + 1} rounds and means {state.latest.get(planned)!r}"
    if set(state.latest) != set(copies):
        yield f"latest rounds of {sorted(state.latest)}, copies of {sorted(copies)}"


def refused_breaches(state: RunState, node: NodeState) -> Breaches:
    """A gate refuses as often as it may, and nothing waits for one that did (law 4)."""
    allowed = 0 if node.op.gate is None else node.op.gate.refusals
    if node.refused > allowed or (node.judgement == "refused" and node.refused == allowed):
        yield f"it has refused {node.refused} times before this round, at most {allowed}"
    if node.spent and (node.judgement != "rejected" or node.refused != allowed):
        yield f"it is {node.judgement or 'open'} for want of refusals, {node.refused} of {allowed} are used"
    if node.judgement != "refused":
        return
    for edge in node.outs:
        target = state.nodes[edge.target]
        if target.status not in TERMINAL:
            yield f"it refused, and {edge.target} depends on it and is {target.status.value}"


def round_started(account: Any, fact: f.RoundStarted) -> None:
    """A round enters with its edges; nothing goes on to wait for the gate that refused."""
    gate = account.nodes[fact.node]
    if account.refusing != fact.node:
        account.breach(f"a round of {fact.gate} starts and {fact.node} did not refuse in this record")
    account.refusing = ""
    for one in fact.nodes:
        spec = one.operation.gate
        account.admit(one.operation.name, 0 if spec is None else spec.refusals)
        account.nodes[one.operation.name].including = one.operation.flow is not None
        if one.of == fact.gate:
            account.nodes[one.operation.name].refused = gate.refused + 1
    for edge in fact.edges:
        account.nodes[edge.source].outs.append(edge)
        if account.nodes[edge.source].tainted or account.nodes[edge.source].judged == "rejected":
            account.taint_from([edge.target])
    for move in fact.moved:
        moving = [edge for edge in account.nodes[move.source].outs if edge.target == move.target]
        kept = [edge for edge in account.nodes[move.source].outs if edge.target != move.target]
        account.nodes[move.source].outs = kept
        if move.to:
            account.nodes[move.to].outs += moving
    for edge in gate.outs:
        if not account.nodes[edge.target].settled:
            account.breach(f"{edge.target} waits for {fact.node}, which refused")
