"""What a node needs beside a slot: limits of its role, model and names, and its branch."""

from __future__ import annotations

from orchestrator.core.settling import BRANCH_PREFIX
from orchestrator.core.state import NodeState, RunState

__all__ = ["capacity", "closed", "closed_as", "missing", "model_of", "resources_of"]


def resources_of(state: RunState, node: NodeState) -> tuple[str, ...]:
    """The resources of a node in a fixed order; empty for most nodes."""
    operation = node.op
    branch = operation.branch or node.branch
    limits = state.plan.limits
    if not limits and branch is None:
        return ()
    wanted = [f"name:{name}" for name in operation.uses]
    if operation.role is not None:
        wanted.append(f"role:{operation.role}")
    if operation.models:
        wanted.append(f"model:{model_of(node)}")
    taken = [name for name in dict.fromkeys(wanted) if name in limits]
    if branch is not None:
        taken.append(BRANCH_PREFIX + branch)
    return tuple(taken)


def model_of(node: NodeState) -> str:
    """The model of the tier in use; empty where there is none."""
    operation = node.op
    return operation.models[min(operation.tier, len(operation.models) - 1)] if operation.models else ""


def closed(state: RunState, node: NodeState) -> bool:
    """True if the models of the node's role take no calls."""
    return bool(state.closed) and closed_as(node, model_of(node)) in state.closed


def closed_as(node: NodeState, model: str) -> str:
    """The word under which ``state.closed`` knows a model of the node's role."""
    return f"{node.op.role} {model}"


def capacity(state: RunState, resource: str) -> int:
    """How many nodes may hold a resource at once; a branch is one conversation, so one."""
    return 1 if resource.startswith(BRANCH_PREFIX) else state.plan.limits[resource]


def missing(state: RunState, node: NodeState) -> str | None:
    """The first resource that is not free for this node, or None."""
    for name in resources_of(state, node):
        if name not in node.holds and state.used.get(name, 0) >= capacity(state, name):
            return name
    return None
