"""One recorded node of an agent again: a model or a program does the same turn outside of its run."""

from __future__ import annotations

from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.agents.backends import backend_for, check_model
from orchestrator.agents.jobs import Job
from orchestrator.agents.tools import ReadyTool, function_tool
from orchestrator.agents.verbs import shaped
from orchestrator.core.resources import model_of
from orchestrator.core.state import NodeState, RunState
from orchestrator.errors import OperationError
from orchestrator.runtime.given import Given
from orchestrator.runtime.speaking import judge_of, standing
from orchestrator.runtime.threads import run_in_thread
from roles import Emitted, Handed, Role, Tool, build_prompt
from roles.prompts import offered
from roles.tools import listed, tool_name

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["retold"]


def retold(
    state: RunState,
    node: NodeState,
    role: Role,
    given: Given,
    emissions: Sequence[Emitted[Any]],
    model: str | None,
) -> Role:
    """A role whose function lets the agent do the recorded turn again, from the start of its conversation.

    Args:
        given, emissions: what it was given. model: performs it instead of the recorded one.

    Raises:
        OperationError: nothing names a model, or it cannot be called.
    """
    models = (model,) if model is not None else (model_of(node), *role.fallback)
    if role.program is None:
        if not models[0]:
            raise OperationError(f"{node.op.name}: nothing names a model; say --model PROVIDER:NAME")
        check_model(f"role {role.name}", models[0])

    async def again(turn: Any) -> Any:
        tools = _tools(role, node)
        assignees = state.budget.assignees
        brief = standing(state, node, role, tools)
        brief = replace(
            brief,
            assignees={name: "" for name in state.roles if assignees is None or name in assignees},
            instruction=turn.instruction,
            parameters=turn.parameters,
            inputs=tuple(_handed(state, node, given)),
            failed={} if node.op.inputs is not None else given.failed,
            emissions=tuple(emissions),
        )
        brief = shaped(brief, node.op.verb)
        job = Job(
            stage=turn,
            role=role,
            brief=brief,
            prompt=build_prompt(brief),
            verb=node.op.verb,
            models=models,
            effort=node.op.effort or role.effort,
            tools=tools,
            offered=offered(brief),
            returns=brief.returns,
            fault=judge_of(node.op.verb, brief),
        )
        return await backend_for(job)(job)

    return Role(role.name, emits=role.emits, artifacts=role.artifacts, fn=again, origin=role.origin)


def _tools(role: Role, node: NodeState) -> tuple[ReadyTool, ...]:
    """The functions of its role; a server of tools is not started for a try."""
    wanted = node.op.tools

    async def in_thread(fn: Any) -> Any:
        return await run_in_thread(fn, copy_context())

    return tuple(
        function_tool(tool if isinstance(tool, Tool) else Tool(tool_name(tool), tool), in_thread)
        for tool in role.tools
        if callable(tool) and (wanted is None or listed(tool_name(tool), wanted))
    )


def _handed(state: RunState, node: NodeState, given: Given) -> list[Handed]:
    wanted = node.op.inputs
    roles = {name: one.op.role for name, one in state.nodes.items()}
    return [
        Handed(name, value, roles.get(name))
        for name, value in given.inputs.items()
        if wanted is None or name in wanted
    ]
