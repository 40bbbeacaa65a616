"""``act``: one call of a tool, without a model (kernel.md 1)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.agents.tools import ToolError
from orchestrator.core.state import NodeState
from orchestrator.runtime.casting import lent
from orchestrator.runtime.powers import may_use
from orchestrator.runtime.turns import RoleTurn
from roles import Role

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["act"]


async def act(engine: Engine, node: NodeState, role: Role | None, turn: RoleTurn) -> Any:
    """Call the tool that the node names with its arguments; what it gives is the node's value.

    Raises:
        ToolError: the node may not call it, the arguments do not fit, or it failed.
        OperationError: nothing is called so: the run goes on in a session that lacks the tool.
    """
    given = turn.parameters
    name, arguments = given.get("tool"), given.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ToolError(f"{node.op.name} needs tool, a name, and arguments, a mapping")
    if role is None:
        role = lent((name,), engine.prepared.roles)
    known = await engine.tools.of(role, partial(may_use, engine, node))
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ToolError(f"{node.op.name} may not call the tool {name!r}; its tools: {names}")
    turn.report(f"calls {name}")
    return await known[name].call(arguments)
