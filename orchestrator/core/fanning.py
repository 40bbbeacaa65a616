"""Rules of ``for_each``: a node that is due gets its instances, then the list of what they gave."""

from __future__ import annotations

import msgspec

from orchestrator.core.decisions import Decision
from orchestrator.core.facts import ContextWritten, InstancesAdded, InstancesSettled, NodeAdded, NodeCompleted
from orchestrator.core.fans import instance_edges, instance_of
from orchestrator.core.outcomes import after
from orchestrator.core.restoring import restore
from orchestrator.core.spec import Edge
from orchestrator.core.state import NodeState

__all__ = ["Gathered", "Opened", "complete_waiting", "open_instances"]


class Opened(msgspec.Struct, frozen=True):
    """The list of a node that is due.

    Attributes:
        items: JSON of its elements. handles: failures that the node accepts.
        above: the edges by which every instance reads what the node reads.
    """

    items: list[bytes]
    handles: tuple[str, ...]
    above: list[Edge]


class Gathered(msgspec.Struct, frozen=True):
    """Every instance has settled: the node's value, and the instances that it lacks."""

    value: bytes
    failed: tuple[str, ...]


def open_instances(decision: Decision, node: NodeState, why: Opened) -> None:
    """It goes on waiting: one instance per element, in list order; without any the node is due again."""
    name = node.op.name
    decision.fact(InstancesAdded(name, len(why.items), why.handles))
    state = decision.state
    plans = [
        (operation, instance_edges(node, operation.name, why.above))
        for operation in (instance_of(node, index, item) for index, item in enumerate(why.items, 1))
    ]
    for number, (operation, edges) in enumerate(plans, 1):
        decision.fact(NodeAdded(operation, edges, name, number, node.depth + 1, node.origin, counted=False))
        decision.due(state.nodes[operation.name])
    if not plans:
        decision.due(node)


def complete_waiting(decision: Decision, node: NodeState, why: object) -> None:
    """(waiting, completed): the instances have settled, or the outcome was known before the run."""
    if not isinstance(why, Gathered):
        restore(decision, node, why)
        return
    name, position = node.op.name, decision.value(why.value)
    decision.fact(InstancesSettled(name, why.failed))
    if node.op.writes is not None:
        decision.fact(ContextWritten(name, node.op.writes, position, ("",), replace=False))
    decision.fact(NodeCompleted(name, 0, position))
    after(decision, node, ())
