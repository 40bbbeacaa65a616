"""Growth: every check before any change, then the child with all of its edges in one fact (kernel.md 3)."""

from __future__ import annotations

import msgspec

from emissions import Accepted, Receipt, Refused
from orchestrator.core.commands import EmissionIn, Proposal
from orchestrator.core.decisions import Decision
from orchestrator.core.facts import NodeAdded, NodeSpawned
from orchestrator.core.order import reaches
from orchestrator.core.payloads import read_assignment, read_spawn
from orchestrator.core.refusing import refuse_growth
from orchestrator.core.spec import (
    ALL_OUTCOMES,
    CHILD_ACCEPTS,
    DOCUMENT_ACCEPTS,
    Edge,
    EdgeKind,
    Operation,
    RoleSpec,
    name_fault,
)
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status
from orchestrator.core.verbs import SPEAKING

__all__ = ["Child", "admit", "assign", "inject", "spawn"]

#: A published instruction is cut here (the operation-graph seed, D6); the node keeps the whole.
_SHOWN = 512


class Child(msgspec.Struct, frozen=True, gc=False):
    """A node that somebody wants, before it was checked."""

    emitter: NodeState | None
    role: RoleSpec | None
    assignee: str | None
    verb: str = "operate"
    instruction: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    independent: bool = False
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    required: bool = False
    inherit: str | None = None
    reason: str = ""
    key: str | None = None
    name: str | None = None
    uses: tuple[str, ...] = ()
    fault: tuple[str, str] | None = None
    injected: bool = False
    speaks: bool = False


def spawn(decision: Decision, node: NodeState, emission: EmissionIn, payload: bytes) -> str | Refused:
    """Judge a SpawnRequest of a running node."""
    try:
        request = read_spawn(payload)
    except msgspec.ValidationError as error:
        return refuse_growth(decision, node, "invalid", f"SpawnRequest: {error}", key=emission.key)
    state = decision.state
    # the first check is the cheapest, because a flood of requests ends here
    if state.spawns >= state.budget.spawns:
        return _over_cap(decision, node, request.assignee, request.key)
    role, assignee, fault = state.roles.get(request.assignee or ""), request.assignee, None
    if role is None:
        role, assignee, fault = _assignee(state, node, request.assignee)
    before = request.before
    if before == "successors":
        nodes = state.nodes
        before = tuple(edge.target for edge in node.onward if nodes[edge.target].status is Status.WAITING)
    child = Child(
        node,
        role,
        assignee,
        request.operation if role is not None or request.operation != "operate" else node.op.verb,
        request.instruction,
        request.parameters,
        request.independent,
        request.after,
        tuple(before),
        request.required,
        node.name if request.inherit else None,
        request.reason or "",
        request.key,
        fault=fault,
        speaks=role is None and node.op.speaks and request.operation in SPEAKING,
    )
    return admit(decision, child)


def assign(decision: Decision, node: NodeState, _emission: EmissionIn, payload: bytes) -> str | Refused:
    """A TaskAssignment of a running node is a SpawnRequest that names its node."""
    task = read_assignment(payload)
    state = decision.state
    if state.spawns >= state.budget.spawns:
        return _over_cap(decision, node, task.assignee, task.name)
    role, assignee, fault = _assignee(state, node, task.assignee)
    wrong = name_fault(task.name)
    if wrong is not None:
        fault = ("invalid", wrong)
    child = Child(
        node, role, assignee, "operate", task.instruction, task.inputs, after=task.depends_on, key=task.name,
        name=task.name, fault=fault,
    )  # fmt: skip
    return admit(decision, child)


def inject(decision: Decision, emitter: NodeState | None, proposal: Proposal) -> Receipt:
    """Judge a node that comes from outside, from a handler, or from ``on_settle``."""
    state = decision.state
    asked, key = proposal.assignee, proposal.key
    made = None if key is None else state.injections.get((None if emitter is None else emitter.op.name, key))
    if made is not None:
        detail = f"an injection with the key {key!r} made {made}"
        return refuse_growth(decision, emitter, "duplicate", detail, assignee=asked, key=key)
    if state.spawns >= state.budget.spawns:
        return _over_cap(decision, emitter, asked, key)
    operation = proposal.operation
    role, fault = None, None
    if operation is not None and operation.role is not None:
        role = state.roles.get(operation.role)
    elif operation is None:
        role, asked, fault = _assignee(state, emitter, asked)
        if asked is None and emitter is None:
            fault = ("unknown_assignee", "an injection from outside names no role and no verb")
    name = proposal.node
    wrong = None if name is None else name_fault(name)
    if wrong is not None:
        fault = ("invalid", wrong)
    child = Child(
        emitter, role, asked, "operate" if operation is None else operation.verb, proposal.instruction,
        proposal.parameters, proposal.independent or emitter is None, proposal.after, proposal.before,
        reason=proposal.reason, key=key, name=name, fault=fault, injected=True,
        speaks=operation is not None and operation.speaks,
    )  # fmt: skip
    outcome = admit(decision, child)
    return Accepted(outcome) if isinstance(outcome, str) else outcome


def admit(decision: Decision, child: Child) -> str | Refused:
    """Check everything, then add the child; a refusal leaves no trace but itself."""
    state = decision.state
    if state.latest and child.before:
        # a bare name means the latest round
        latest = tuple(state.latest.get(name, name) for name in child.before)
        child = msgspec.structs.replace(child, before=latest)
    fault = child.fault or _faults(state, child)
    if fault is not None:
        reason, detail = fault
        return refuse_growth(decision, child.emitter, reason, detail, assignee=child.assignee, key=child.key)
    emitter = child.emitter
    operation = _operation(state, child)
    number = (state.injected if emitter is None else emitter.children) + 1
    parent = None if emitter is None else emitter.op.name
    decision.fact(
        NodeAdded(
            operation,
            _edges(state, child, operation.name)
            if child.after or child.before or not child.independent
            else (),
            parent,
            number,
            0 if emitter is None else emitter.depth + 1,
            operation.name if emitter is None else emitter.origin,
            key=child.key if child.injected else None,
        )
    )
    shown = child.instruction[:_SHOWN]
    decision.fact(NodeSpawned(operation.name, parent, child.assignee, child.independent, shown, child.reason))
    node = state.nodes[operation.name]
    if node.pending == 0:
        decision.due(node)
    return operation.name


def _over_cap(
    decision: Decision, emitter: NodeState | None, assignee: str | None, key: str | None
) -> Refused:
    cap = decision.state.budget.spawns
    detail = f"all {cap} spawns of this run are used; raise budget.spawns to allow more"
    return refuse_growth(decision, emitter, "max_spawn_exceeded", detail, assignee=assignee, key=key)


def _assignee(
    state: RunState, emitter: NodeState | None, asked: str | None
) -> tuple[RoleSpec | None, str | None, tuple[str, str] | None]:
    """The role that a name means: a role, or a node of this run whose role it is. No suffix is read."""
    if asked is None:
        own = None if emitter is None else emitter.op.role
        return (None, None, None) if own is None else (state.roles.get(own), own, None)
    role = state.roles.get(asked)
    if role is None:
        node = state.resolve(asked)
        role = None if node is None or node.op.role is None else state.roles.get(node.op.role)
    if role is None:
        known = ", ".join(sorted(state.roles)) or "none"
        return None, asked, ("unknown_assignee", f"no role and no node is called {asked!r}; roles: {known}")
    return role, role.name, None


def _faults(state: RunState, child: Child) -> tuple[str, str] | None:
    """The first check that fails, as reason and detail; nothing was changed."""
    if state.steps is not None:
        return "invalid", "a stepped run takes no injected node; let a node send a task"
    if state.cancelling or state.ended or state.suspended:
        return "closing", "the run is ending"
    emitter, role, budget = child.emitter, child.role, state.budget
    if emitter is not None and emitter.generations >= budget.depth:
        generations = f"{emitter.name} is {emitter.generations} generations below a planned node"
        return "depth", f"{generations}; budget.depth is {budget.depth}"
    if role is not None:
        if budget.assignees is not None and role.name not in budget.assignees:
            return "assignee_not_allowed", f"budget.assignees does not list {role.name!r}"
        if child.verb not in role.verbs:
            return "verb_not_allowed", f"{role.name!r} performs {', '.join(role.verbs)}, not {child.verb!r}"
    elif state.plan.verbs and child.verb not in state.plan.verbs:
        return "verb_not_allowed", f"nothing here performs {child.verb!r} without a role"
    if child.name is not None and child.name in state.nodes:
        return "exists", f"a node {child.name!r} exists; a node never runs twice"
    return _edge_faults(state, child) if child.after or child.before else None


def _edge_faults(state: RunState, child: Child) -> tuple[str, str] | None:
    waiting = []
    for name in child.after:
        node = state.resolve(name)
        if node is None:
            return "unknown_node", f"after names {name!r}, which is no node of this run"
        if node.status is Status.VETOED or node.judgement == "rejected":
            return "vetoed", f"{name!r} is below a gate that rejected"
        if node.judgement == "refused":
            return "vetoed", f"{name!r} is a gate that refused and sent the work back; name its next round"
        if node.status in (Status.FAILED, Status.SKIPPED, Status.CANCELLED):
            return "need_failed", f"{name!r} is {node.status.value}; a child cannot wait for it"
        if node.status is Status.WAITING:
            waiting.append(node.name)
    for name in child.before:
        node = state.nodes.get(name)
        if node is None:
            return "unknown_node", f"before names {name!r}, which is no node of this run"
        if child.emitter is node:
            return "cycle", f"{name!r} would wait for its own child"
        if node.status is not Status.WAITING:
            return "too_late", f"{name!r} is {node.status.value}; only a waiting node can wait for more"
    if waiting and child.before:
        path = reaches(state, child.before, waiting)
        if path is not None:
            return "cycle", f"the new node would wait for itself: {' -> '.join((*path, 'it', path[0]))}"
    return None


def _operation(state: RunState, child: Child) -> Operation:
    role = child.role
    emitter = child.emitter
    name = child.name
    if name is None:
        suffix = child.verb if role is None else role.name
        if emitter is None:
            name = _free(state, suffix, suffix)
        else:
            count = state.name_counts.get((emitter.origin, suffix), 0) + 1
            name = f"{emitter.origin}.{suffix}-{count}"
            if name in state.nodes:
                name = _free(state, emitter.origin, suffix)
    operation = Operation(
        name=name,
        verb=child.verb,
        role=None if role is None else role.name,
        parameters=child.parameters,
        instruction=child.instruction,
        needs="any" if child.independent else "all",
    )
    if child.inherit is not None or child.uses or child.speaks:
        operation = msgspec.structs.replace(
            operation, inherit=child.inherit, uses=child.uses, speaks=child.speaks
        )
    if role is None and child.speaks:
        models = state.plan.models if emitter is None or not emitter.op.models else emitter.op.models
        return msgspec.structs.replace(operation, models=models)
    if role is None or not (role.retry or role.timeout or role.speaks or role.models):
        return operation
    return msgspec.structs.replace(
        operation, retry=role.retry, timeout=role.timeout, speaks=role.speaks, models=role.models
    )


def _free(state: RunState, origin: str, suffix: str) -> str:
    count = state.name_counts.get((origin, suffix), 0) + 1
    while f"{origin}.{suffix}-{count}" in state.nodes:
        count += 1
    return f"{origin}.{suffix}-{count}"


def _edges(state: RunState, child: Child, name: str) -> tuple[Edge, ...]:
    bound = child.emitter is not None and not child.independent
    if not (bound or child.after or child.before):
        return ()
    edges = []
    if child.emitter is not None and bound:
        edges.append(
            Edge(source=child.emitter.op.name, target=name, kind=EdgeKind.CHILD, accept=CHILD_ACCEPTS)
        )
    edges += [
        _after(state, after, name)
        for after in child.after
        if child.emitter is None or after != child.emitter.op.name or child.independent
    ]
    accept = DOCUMENT_ACCEPTS if child.required else ALL_OUTCOMES
    edges += [
        Edge(source=name, target=before, kind=EdgeKind.JOIN, accept=accept, required=child.required)
        for before in child.before
    ]
    return tuple(edges)


def _after(state: RunState, name: str, target: str) -> Edge:
    """The edge from what a name means: through escalations the child, still read under the name."""
    node = state.resolve(name)
    if node is None or node.op.name == name:
        return Edge(source=name, target=target, accept=DOCUMENT_ACCEPTS)
    return Edge(source=node.op.name, target=target, accept=DOCUMENT_ACCEPTS, reads_as=name)
