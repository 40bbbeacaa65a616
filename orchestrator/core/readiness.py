"""What becomes of a node when all of its predecessors have let go (kernel.md 2, in that order).

Vetoed, if any path leads through a rejected gate. Else skipped, if its edges do not carry it or its
``when`` is false. Else failed, if a condition gave no bool or two unordered context writes meet in it.
Else ready; a ``for_each`` node gets its instances instead, and when they have settled it is due again.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.core.context import conflict_in, view_of
from orchestrator.core.decisions import Why
from orchestrator.core.expressions import compile_expression
from orchestrator.core.facts import Failure, NodeFailed, NodeReady, NodeSkipped, NodeVetoed
from orchestrator.core.fanning import Gathered, Opened
from orchestrator.core.fans import elements, joined, judged_per_element, left_out, readings
from orchestrator.core.scopes import edge_scope, node_scope
from orchestrator.core.spec import ForEach
from orchestrator.core.state import EdgeState, NodeState, RunState
from orchestrator.core.status import Status
from orchestrator.errors import ConditionError, OrchestratorError

__all__ = ["judge"]

_NEVER_ALIVE = (Status.SKIPPED, Status.VETOED, Status.CANCELLED)


def judge(state: RunState, node: NodeState) -> tuple[Status, Why]:
    """What a due node becomes, with the fact that says so."""
    name, each = node.op.name, node.op.for_each
    if node.op.when is None and each is None and not state.written and _all_plain(state, node):
        return Status.READY, NodeReady(name)
    gates = _vetoing(state, node)
    if gates:
        return Status.VETOED, NodeVetoed(name, gates, f"rejected by {', '.join(gates)}")
    if node.opened:
        return _gathered(state, node)
    try:
        handles, unmet = _edges(state, node)
        if unmet is not None:
            return Status.SKIPPED, unmet
        condition = None if judged_per_element(node.op) else node.op.when
        if condition is not None and not _holds(condition, node_scope(state, node)):
            return Status.SKIPPED, NodeSkipped(name, f"condition was false: {node.op.when}")
    except OrchestratorError as error:
        return Status.FAILED, _failure(node, error)
    conflict = _conflict(state, node)
    if conflict is not None:
        return Status.FAILED, conflict
    if each is not None:
        return _opened(state, node, each, handles)
    return Status.READY, NodeReady(name, handles)


def _conflict(state: RunState, node: NodeState) -> NodeFailed | None:
    """Two unordered context writes meet in the node."""
    conflict = conflict_in(state, view_of(state, node)) if state.written else None
    if conflict is None:
        return None
    return NodeFailed(
        node.op.name, node.attempt, Failure("ContextConflictError", str(conflict), node.attempt)
    )


def _opened(state: RunState, node: NodeState, each: ForEach, handles: tuple[str, ...]) -> tuple[Status, Why]:
    items = elements(state, node, each)
    if isinstance(items, Failure):
        return Status.FAILED, NodeFailed(node.op.name, node.attempt, items)
    living = [_lives(state, edge, state.nodes[edge.source]) for edge in node.ins]
    return Status.WAITING, Opened(items, handles, readings(node, living))


def _gathered(state: RunState, node: NodeState) -> tuple[Status, Why]:
    """What becomes of a node whose instances have settled."""
    conflict = _conflict(state, node)
    if conflict is not None:
        return Status.FAILED, conflict
    value = joined(state, node)
    if isinstance(value, Failure):
        return Status.FAILED, NodeFailed(node.op.name, node.attempt, value)
    return Status.COMPLETED, Gathered(value, left_out(state, node))


def _all_plain(state: RunState, node: NodeState) -> bool:
    """True if every predecessor completed, opened its gate, and no edge has a condition: the common case."""
    nodes = state.nodes
    for edge in node.ins:
        source = nodes[edge.source]
        spec = edge.spec
        if (
            source.status is not Status.COMPLETED
            or spec.when is not None
            or spec.predicate is not None
            or (source.judgement is not None and source.judgement != "approved")
            or "completed" not in spec.accept
        ):
            return False
    return True


def _failure(node: NodeState, error: OrchestratorError) -> NodeFailed:
    return NodeFailed(node.op.name, node.attempt, Failure("ConditionError", str(error), node.attempt))


def _vetoing(state: RunState, node: NodeState) -> tuple[str, ...]:
    """Every rejecting gate on any path to the node, in the order of its edges.

    A node that was cancelled while it waited settled before what is above it did: the path goes on
    through it.
    """
    found: dict[str, None] = {}
    stack, seen = [node], {node.op.name}
    while stack:
        for edge in stack.pop().ins:
            source = state.nodes[edge.source]
            if source.status is Status.VETOED:
                found.update(dict.fromkeys(source.vetoed_by))
            elif source.judgement == "rejected":
                found[edge.source] = None
            elif source.early and not source.restored and edge.source not in seen:
                seen.add(edge.source)
                stack.append(source)
    return tuple(found)


def _edges(state: RunState, node: NodeState) -> tuple[tuple[str, ...], NodeSkipped | None]:
    """Failed predecessors whose failure a living edge accepts, and the reason to skip, if any."""
    handles: tuple[str, ...] = ()
    alive = carrying = discounted = 0
    blocked: EdgeState | None = None
    ways: list[tuple[EdgeState, bool]] = []
    for edge in node.ins:
        source = state.nodes[edge.source]
        lives = _lives(state, edge, source)
        if lives and source.status is Status.FAILED and not source.handled:
            handles = (*handles, edge.source)
        if edge.waits_only and not edge.spec.required:
            continue
        if edge.spec.way:
            ways.append((edge, lives))
            continue
        carrying += 1
        if lives:
            alive += 1
        elif node.op.needs == "all" and source.status is Status.SKIPPED and not _unjudged(state, source):
            discounted += 1
        elif blocked is None:
            blocked = edge
    if ways and not any(lives for _, lives in ways):
        blocked = blocked or ways[0][0]
    if (not carrying and blocked is None) or (node.op.needs == "any" and alive):
        return handles, None
    if node.op.needs == "all" and blocked is None and discounted < carrying:
        return handles, None
    return (), _unmet(state, node, blocked)


def _unjudged(state: RunState, gate: NodeState) -> bool:
    """True for a gate that could not judge because something before it failed: no untaken branch, and no way.

    Who discounted it would run without its verdict (law 7: gates fail closed).
    """
    node: NodeState | None = gate if gate.op.gate is not None else None
    while node is not None and node.status is Status.SKIPPED:
        node = state.nodes.get(node.blocked_by or "")
    return node is not None and node.status in (Status.FAILED, Status.CANCELLED)


def _lives(state: RunState, edge: EdgeState, source: NodeState) -> bool:
    """True if the edge can make its target live; an error of its condition is raised."""
    if edge.waits_only and not edge.spec.required:
        return source.status not in _NEVER_ALIVE
    if source.status.value not in edge.spec.accept:
        return False
    # a failure that was restored is nobody's input, whatever the edge accepts (S55)
    if source.restored and source.status is Status.FAILED:
        return False
    if edge.spec.predicate is not None:
        return _predicate(edge)
    if edge.spec.when is None:
        return True
    return _holds(edge.spec.when, edge_scope(state, source))


def _predicate(edge: EdgeState) -> bool:
    if isinstance(edge.judged, bool):
        return edge.judged
    reason = edge.judged or "was not judged"
    message = f"the condition from {edge.source!r} to {edge.target!r} {reason}"
    raise ConditionError(message)


def _holds(text: str, scope: Mapping[str, object]) -> bool:
    return compile_expression(text).evaluate_bool(scope)


def _unmet(state: RunState, node: NodeState, blocked: EdgeState | None) -> NodeSkipped:
    name = node.op.name
    edge = blocked or (node.ins[0] if node.ins else None)
    if edge is None:
        return NodeSkipped(name, "no edge leads to it")
    source = state.nodes[edge.source]
    barred = source.restored and source.status is Status.FAILED
    if barred or source.status.value not in edge.spec.accept:
        return NodeSkipped(name, f"blocked by {edge.source} ({source.status.value})", edge.source)
    condition = edge.spec.when or "its predicate"
    return NodeSkipped(name, f"condition from {edge.source} was false: {condition}", edge.source)
