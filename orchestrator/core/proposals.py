"""What handlers and ``on_settle`` ask for: each change is judged like any other (roles.md, 4)."""

from __future__ import annotations

from collections.abc import Sequence

from emissions import Accepted, Receipt, Refused
from orchestrator.core.commands import EmissionIn, Proposal
from orchestrator.core.decisions import Decision
from orchestrator.core.emitting import take
from orchestrator.core.facts import ChangeRefused, ContextWritten, NodeVetoed, SteerDelivered, SteerReceived
from orchestrator.core.growth import inject
from orchestrator.core.state import NodeState
from orchestrator.core.status import TERMINAL, Status

__all__ = ["carry_out", "take_note", "take_with"]


def take_with(
    decision: Decision, node: NodeState, emission: EmissionIn, proposals: Sequence[Proposal], place: int = 0
) -> None:
    """Judge an emission; what its handler asks for is carried out only if it is taken, and new."""
    before = node.emitted
    take(decision, node, emission)
    if proposals and node.emitted > before:
        carry_out(decision, node, [one for one in proposals if one.emission == place])


def carry_out(decision: Decision, node: NodeState | None, proposals: Sequence[Proposal]) -> list[Receipt]:
    """Judge each proposal in turn; a refused one does not stop the next."""
    receipts = []
    for proposal in proposals:
        receipt = _carry_out(decision, node, proposal)
        if isinstance(receipt, Refused) and proposal.kind != "inject":
            # a refused injection is on record as a refused spawn
            name = None if node is None else node.op.name
            decision.fact(ChangeRefused(name, proposal.kind, receipt.reason, receipt.detail))
        receipts.append(receipt)
    return receipts


def _carry_out(decision: Decision, node: NodeState | None, proposal: Proposal) -> Receipt:
    if proposal.kind == "inject":
        return inject(decision, node, proposal)
    if decision.state.steps is not None and proposal.kind != "steer":
        return Refused("invalid", "the state of a stepped run is written by its tasks; a handler may steer")
    if proposal.kind == "write" and node is not None and proposal.write is not None:
        write = proposal.write
        decision.fact(ContextWritten(node.op.name, write.key, write.value, write.leaves, write.replace))
        return Accepted()
    if proposal.kind == "steer":
        return take_note(decision, proposal.reason, proposal.time, proposal.node)
    target = None if proposal.node is None else decision.state.resolve(proposal.node)
    if proposal.node is not None and target is None:
        return Refused("unknown_node", f"{proposal.node!r} is no node of this run")
    # one that backs off or was given back is ready again, and has started all the same
    if (
        target is None
        or target.attempt
        or target.opened
        or target.status not in (Status.WAITING, Status.READY)
    ):
        return Refused("too_late", f"{proposal.node} has started")
    who = "a handler" if node is None else node.op.name
    decision.recommend(
        target, Status.VETOED, NodeVetoed(target.op.name, (who,), f"vetoed by {who}: {proposal.reason}")
    )
    return Accepted()


def take_note(decision: Decision, text: str, time: str, target: str | None) -> Receipt:
    """Take a note for a node, or for the next one that starts; one that runs has it at once."""
    node = None if target is None else decision.state.resolve(target)
    if target is not None and node is None:
        return Refused("unknown_node", f"{target!r} is no node of this run")
    if node is not None and node.status in TERMINAL:
        return Refused("too_late", f"{node.name} is {node.status.value}")
    number, name = len(decision.state.steers) + 1, None if node is None else node.op.name
    decision.fact(SteerReceived(number, text, time, name))
    if node is not None and node.status in (Status.RUNNING, Status.ASKING):
        decision.fact(SteerDelivered(number, node.op.name, node.attempt))
    return Accepted(name, number)
