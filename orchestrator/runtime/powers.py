"""What shrinks down the line: a grown node has its emitter's tools at most, or its role's by the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.core.state import NodeState, RunState
from roles.tools import listed, tool_name

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["may_use"]


def may_use(engine: Engine, node: NodeState, name: str) -> bool:
    """Whether a node may use a tool of this name: its role has it, the node leaves it, its emitter could."""
    role = engine.bodies.role_of(node)
    if role is None or role.fn is not None or role.program is not None:
        # code of the user's own: it can do whatever it can import or start
        return True
    if not listed(name, map(tool_name, role.tools)):
        return False
    if node.op.tools is not None and not listed(name, node.op.tools):
        return False
    emitter = None if node.parent is None else engine.state.nodes[node.parent]
    if emitter is None or (emitter.superseded_by == node.op.name and emitter.op.role != node.op.role):
        # the role above, to which the author lets it escalate
        return True
    return _granted(engine.state, node, name) or may_use(engine, emitter, name)


def _granted(state: RunState, node: NodeState, name: str) -> bool:
    """What the flow itself gives a role: as its planned nodes have it, else as it is named to be spawned."""
    planned = [one for one in state.plan.operations if one.role == node.op.role]
    if planned:
        return any(one.tools is None or listed(name, one.tools) for one in planned)
    assignees = state.budget.assignees
    return assignees is not None and node.op.role in assignees
