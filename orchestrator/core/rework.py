"""What a node is told that does its work once more: who refused it, why, and what it gave (kernel.md 5)."""

from __future__ import annotations

import msgspec

from orchestrator.core.payloads import read_verdict
from orchestrator.core.state import NodeState, RunState

__all__ = ["Refusal", "reworked", "with_notice"]


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why a node works again.

    Attributes:
        gate: the gate's name in the round that it refused. round: the round that is made now; the first is 1.
        verdict: None if a policy or a bare ``gate_verdict`` refused. rationale: the gate's or the person's.
        reversible_by: what would turn the verdict, as the gate said. by: who refused, if a person did.
        previous: the node whose work is taken up; value: what it had given, as JSON.
    """

    gate: str
    round: int
    verdict: str | None
    rationale: str
    reversible_by: str | None
    by: str
    previous: str
    value: bytes | None


def reworked(state: RunState, node: NodeState) -> Refusal | None:
    """The refusal that a node answers to; None in its first round and for what grew."""
    first = state.nodes[node.origin]
    if node.depth or first.previous is None or first.sent_back_by is None:
        return None
    gate, before = state.nodes[first.sent_back_by], state.nodes[first.previous]
    said = [entry for entry in gate.ledger if entry.kind == "Verdict" and entry.attempt == gate.attempt]
    return Refusal(
        gate.op.name,
        first.round,
        gate.verdicts[-1] if gate.verdicts else None,
        gate.because or gate.rationale,
        read_verdict(said[-1].payload).reversible_by if said and not gate.decided_by else None,
        gate.decided_by,
        before.op.name,
        before.value,
    )


def with_notice(state: RunState, node: NodeState, instruction: str) -> str:
    """The instruction of a node that speaks, after the notice that its work was sent back."""
    told = reworked(state, node) if node.op.speaks else None
    if told is None:
        return instruction
    return f"{_notice(state, node, told)}\n\n{instruction}".rstrip()


def _notice(state: RunState, node: NodeState, told: Refusal) -> str:
    judge = state.authored(state.nodes[told.gate])
    own = state.authored(node) == judge
    who = "You" if own else f"{judge} ({told.by})" if told.by else judge
    lines = [f"{who} refused round {told.round - 1} of this work: {told.verdict or 'no verdict'}"]
    if told.rationale:
        lines.append(f"Why: {told.rationale}")
    if told.reversible_by:
        lines.append(f"What would turn it: {told.reversible_by}")
    if node.op.fresh and told.value is not None:
        lines.append(f"You had given: {told.value.decode()}")
    if own:
        lines.append("Judge the new round by what you asked for; do not start over.")
    else:
        lines.append("Continue your own work: change what was refused and keep what stands.")
    return "\n".join(("[REWORK]", *lines, "[/REWORK]"))
