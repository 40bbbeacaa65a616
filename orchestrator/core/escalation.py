"""Escalation: work moves a tier up. Answered at once, carried out when the node settles (kernel.md 4)."""

from __future__ import annotations

import msgspec

from emissions import Refused
from orchestrator.core.commands import EmissionIn
from orchestrator.core.decisions import Decision
from orchestrator.core.facts import NodeAdded, NodeEscalated, NodeNotified
from orchestrator.core.payloads import read_escalation
from orchestrator.core.refusing import refuse
from orchestrator.core.spec import CHILD_ACCEPTS, Edge, Operation
from orchestrator.core.state import NodeState, RunState

__all__ = ["TIERS_PER_LINEAGE", "escalate", "request_escalation"]

#: So often may one piece of work move up.
TIERS_PER_LINEAGE = 2


def request_escalation(
    decision: Decision, node: NodeState, emission: EmissionIn, payload: bytes
) -> str | Refused | None:
    """Answer an EscalationRequest of a running node."""
    request = read_escalation(payload)
    route = request.effective_route
    if route != "higher_tier":
        decision.fact(NodeNotified(node.op.name, node.attempt, route, request.reason, request.urgency))
        return None
    if node.escalation is not None:
        # a second reason for a move that is under way goes with it
        return node.escalation.child
    state = decision.state
    used = state.escalations + state.escalating
    if node.rungs >= TIERS_PER_LINEAGE or used >= state.budget.escalations:
        detail = (
            f"{node.name} is {node.rungs} tiers above where it began (at most {TIERS_PER_LINEAGE}); "
            f"{used} of {state.budget.escalations} escalations are used"
        )
        return refuse(decision, node, emission, "escalation_exhausted", detail)
    if _higher(state, node) is None:
        who = f"role {node.op.role!r}" if node.op.role else f"{node.name!r}"
        detail = f"{who} has no further model and no escalates_to"
        return refuse(decision, node, emission, "no_higher_tier", detail)
    return _child_name(node)


def escalate(decision: Decision, node: NodeState, value: int | None) -> None:
    """(running, escalated): the child takes the node's place, then the node settles."""
    asked = node.escalation
    operation = _higher(decision.state, node)
    if asked is None or operation is None:
        message = f"{node.name} escalates without a request"
        raise AssertionError(message)
    name = node.op.name
    edge = Edge(source=name, target=operation.name, accept=CHILD_ACCEPTS)
    reasons = "; ".join((asked.reason, *asked.more))
    notice = _notice(node, reasons, asked.context)
    if operation.renders:
        # what a role says is no template, though the text that it stands before is one
        notice = notice.replace("${", "$${")
    child = msgspec.structs.replace(operation, instruction=f"{notice}\n\n{operation.instruction}".rstrip())
    decision.fact(
        NodeAdded(
            child, (edge,), name, node.children + 1, node.depth, node.origin, splice=True, counted=False
        )
    )
    decision.fact(
        NodeEscalated(
            name, node.attempt, child.name, reasons, asked.urgency, "higher_tier", child.tier, value
        )
    )


def _child_name(node: NodeState) -> str:
    base = node.op.name.partition("+")[0]
    return f"{base}+{node.rungs + 1}"


def _higher(state: RunState, node: NodeState) -> Operation | None:
    """The node's operation one tier up, or None: the next model of its role, else the role above it."""
    operation = node.op
    role = None if operation.role is None else state.roles.get(operation.role)
    change: dict[str, object] = {"name": _child_name(node), "needs": "all", "when": None}
    if operation.tier + 1 < len(operation.models):
        change["tier"] = operation.tier + 1
    elif role is not None and role.escalates_to is not None and role.escalates_to in state.roles:
        above = state.roles[role.escalates_to]
        change |= {
            "role": above.name,
            "models": above.models,
            "tier": 0,
            "speaks": above.speaks,
            "retry": operation.retry or above.retry,
            "timeout": operation.timeout or above.timeout,
        }
    else:
        return None
    return msgspec.structs.replace(operation, **change)


def _notice(node: NodeState, reasons: str, context: bytes) -> str:
    """Who gave up, why, and what it found, before the original instruction."""
    found = "" if context == b"{}" else f"\nIt found: {context.decode()}"
    who = f"{node.op.name} ({node.op.role})" if node.op.role else node.op.name
    return f"[ESCALATION]\n{who} could not finish this and handed it up: {reasons}{found}\n[/ESCALATION]"
