"""One way for every emission: is it new, is it granted, who acts on it; the answer is a receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from emissions import Accepted, Receipt, Refused
from orchestrator.core.commands import EmissionIn
from orchestrator.core.decisions import Decision
from orchestrator.core.escalation import request_escalation
from orchestrator.core.facts import EmissionAccepted, EmissionRepeated
from orchestrator.core.growth import assign, spawn
from orchestrator.core.payloads import GROWING
from orchestrator.core.refusing import refuse
from orchestrator.core.state import Emitted, NodeState, RunState
from orchestrator.core.status import Status
from orchestrator.core.supersteps.growing import STEP_ACTS

__all__ = ["accept", "grants_of", "take"]

_ALWAYS = "EscalationRequest"
#: Kinds of which only the final attempt's count (engine.md 14).
_OF_ATTEMPT = frozenset({"Verdict", "EscalationRequest"})


def grants_of(state: RunState, node: NodeState) -> tuple[str, ...]:
    """What a node may emit: its role's declaration, narrowed by the node, plus EscalationRequest.

    Spawn budget 0 means that growth is not offered at all (S6).
    """
    operation = node.op
    role = None if operation.role is None else state.roles.get(operation.role)
    if role is not None and operation.emits is None and state.budget.spawns and _ALWAYS in role.emits:
        return role.emits
    if role is not None:
        declared = role.emits
        if operation.emits is not None:
            declared = tuple(kind for kind in declared if kind in operation.emits)
    elif operation.emits is not None:
        declared = operation.emits
    else:
        declared = ("Verdict",) if operation.gate is not None else ()
    if state.budget.spawns == 0:
        declared = tuple(kind for kind in declared if kind not in GROWING)
    return declared if _ALWAYS in declared else (*declared, _ALWAYS)


def take(decision: Decision, node: NodeState, emission: EmissionIn) -> Receipt:
    """Judge one emission of a running node and answer it."""
    receipt = _take(decision, node, emission)
    decision.receipts.append(receipt)
    return receipt


def _take(decision: Decision, node: NodeState, emission: EmissionIn) -> Receipt:
    if emission.reason or emission.payload is None:
        return refuse(decision, node, emission, emission.reason or "invalid", emission.detail)
    if node.status is not Status.RUNNING and node.status is not Status.ASKING:
        return refuse(decision, node, emission, "not_running", f"{node.name} is {node.status.value}")
    payload = decision.values[emission.payload]
    nth, again = _sighting(node, emission, payload)
    if again is not None:
        return _seen(decision, node, emission, again)
    planning = _planning(node, emission)
    if (
        not planning
        and not _declared(decision.state, node, emission.kind)
        and (emission.kind not in grants_of(decision.state, node))
    ):
        return refuse(decision, node, emission, "not_granted", _not_granted(decision.state, node, emission))
    act = None if planning else _acts(decision.state).get(emission.kind)
    child = None if act is None else act(decision, node, emission, payload)
    if isinstance(child, Refused):
        return child
    return accept(decision, node, emission, nth, child)


def _planning(node: NodeState, emission: EmissionIn) -> bool:
    """True for a task of a node that plans its run: it is kept until the plan is whole."""
    return node.op.casting is not None and emission.kind == "TaskAssignment"


def _declared(state: RunState, node: NodeState, kind: str) -> bool:
    """True if the role declares the kind and nothing narrows it: the whole grant is seldom needed."""
    role = state.roles.get(node.op.role or "")
    return role is not None and node.op.emits is None and state.budget.spawns > 0 and kind in role.emits


def accept(
    decision: Decision, node: NodeState, emission: EmissionIn, nth: int, child: str | None
) -> Accepted:
    """Enter an emission into the ledger."""
    number = node.emitted + 1
    payload = -1 if emission.payload is None else emission.payload
    decision.fact(
        EmissionAccepted(
            node.op.name, node.attempt, emission.kind, number, payload, emission.key, child, nth, node.op.role
        )
    )
    return Accepted(child, number)


def _not_granted(state: RunState, node: NodeState, emission: EmissionIn) -> str:
    if emission.kind in GROWING and state.budget.spawns == 0:
        return "the run's spawn budget is 0"
    who = f"role {node.op.role!r}" if node.op.role else f"node {node.name!r}"
    return f"{who} does not declare {emission.kind}; add it to emits="


def _sighting(node: NodeState, emission: EmissionIn, payload: bytes) -> tuple[int, int | None]:
    """Which of several equal emissions this is, and the ledger number if it was taken before.

    Equal payloads over one channel are counted apart; the k-th over one channel is the k-th over
    another. A key stands for itself, over attempts and restarts (engine.md 13).
    """
    identity: tuple[str, str | bytes, int]
    if emission.key is not None:
        nth, identity = 1, (emission.kind, emission.key, 1)
    else:
        seen = node.sightings
        if seen is None:
            seen = node.sightings = {}
        place = (emission.channel, emission.kind, payload)
        nth = seen[place] = seen.get(place, 0) + 1
        identity = (emission.kind, payload, nth)
    return nth, None if node.identities is None else node.identities.get(identity)


def _seen(decision: Decision, node: NodeState, emission: EmissionIn, number: int) -> Receipt:
    """An emission met again: the recorded receipt, and within one attempt a duplicate on record."""
    entry = node.ledger[number - 1]  # numbered from 1 without a gap
    if entry.attempt == node.attempt:
        detail = f"this {emission.kind} was taken as number {number}"
        if entry.child is not None:
            detail += f" and made {entry.child}"
        refused = refuse(decision, node, emission, "duplicate", detail)
        if emission.key is not None and emission.channel == "call":
            return refused
    elif emission.kind in _OF_ATTEMPT or _planning(node, emission):
        return _said_again(decision, node, emission, entry)
    else:
        # on record, so that what this attempt says next is numbered in the same way when it is decided again
        decision.fact(EmissionRepeated(node.op.name, node.attempt, emission.kind, number))
    return Accepted(entry.child, number)


def _said_again(decision: Decision, node: NodeState, emission: EmissionIn, entry: Emitted) -> Receipt:
    """What counts for its attempt only counts again when a later attempt says it; it stays one entry."""
    position = emission.payload or 0
    act = None if _planning(node, emission) else _acts(decision.state).get(emission.kind)
    child = None if act is None else act(decision, node, emission, decision.values[position])
    if isinstance(child, Refused):
        return child
    name, number, role = node.op.name, entry.number, node.op.role
    fact = EmissionAccepted(name, node.attempt, emission.kind, number, position, role=role, child=child)
    decision.fact(fact)
    return Accepted(child, number)


_Act = Callable[[Decision, NodeState, EmissionIn, bytes], str | Refused | None]


def _acts(state: RunState) -> Mapping[str, _Act]:
    """Who acts on what: a request to grow adds a node, and in a stepped run sends a task."""
    return _ACTS if state.steps is None else STEP_ACTS


#: Each gives the name of the node that it made or means, None, or the refusal.
_ACTS: Mapping[str, _Act] = {
    "SpawnRequest": spawn,
    "TaskAssignment": assign,
    "EscalationRequest": request_escalation,
}
