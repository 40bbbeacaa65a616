"""A turn of an agent: what it is shown, who performs it, what it leaves in its branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from emissions import Emission
from orchestrator.agents import Message
from orchestrator.agents.backends import backend_for
from orchestrator.agents.jobs import Job, Spent
from orchestrator.agents.tools import ReadyTool
from orchestrator.core.commands import Usage
from orchestrator.core.resources import model_of
from orchestrator.core.state import NodeState
from orchestrator.flows.shapes import shape_fault
from orchestrator.runtime.artifacts import declared
from orchestrator.runtime.powers import may_use
from orchestrator.runtime.turns import RoleTurn
from roles import Artifact, Brief, Prompt, Role, build_prompt
from roles.prompts import offered

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["brief_of", "speak"]

_decode = msgspec.json.decode
#: The verb that leaves no trace in the branch (kernel.md 1).
_TRACELESS: Final = "chat"


async def speak(engine: Engine, node: NodeState, role: Role, turn: RoleTurn) -> Any:
    """Perform one turn of a role that has no function, and return its value."""
    operation, branch = node.op, turn.branch
    history = list(branch.settled)
    tools = await engine.tools.of(role, partial(may_use, engine, node))
    brief = brief_of(engine, node, role, turn, tuple(tools.values()))
    prompt = _prompt(brief, history, node)
    for name, text in prompt.files.items():
        folder = turn.workdir / "inputs"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    turn.traceless = operation.verb == _TRACELESS
    turn.text = ""
    _say(branch, prompt, operation.name)

    def spend(spent: Spent) -> None:
        turn.usage = _sum(turn.usage, spent)

    def read(text: str) -> None:
        turn.text = text

    tier = model_of(node)
    job = Job(
        stage=turn,
        role=role,
        brief=brief,
        prompt=prompt,
        history=history,
        verb=operation.verb,
        models=() if not tier else (tier, *role.fallback),
        effort=operation.effort or role.effort,
        tools=tuple(tools.values()),
        offered=offered(brief),
        returns=brief.returns,
        fault=lambda value: None if brief.returns is None else shape_fault(brief.returns, value),
        spend=spend,
        say=branch.extend,
        read=read,
    )
    value = await backend_for(job)(job)
    if role.program is not None and role.program.result is None and role.program.protocol == "text":
        turn.text = None
    return value


def _prompt(brief: Brief, history: Sequence[Message], node: NodeState) -> Prompt:
    """The whole brief, or, where the node goes on with its own work, only what is new."""
    prompt = build_prompt(brief)
    if not brief.notices or not any(message.node == node.op.name for message in history):
        return prompt
    return Prompt(prompt.system, "\n\n".join(brief.notices))


def _say(branch: Any, prompt: Prompt, node: str) -> None:
    """What is shown becomes part of the conversation; who it is, where that is not said already."""
    said = next((m.content for m in reversed(branch.messages) if m.role == "system"), None)
    if prompt.system and said != prompt.system:
        branch.say("system", prompt.system, node)
    branch.say("user", prompt.user, node)


def brief_of(
    engine: Engine, node: NodeState, role: Role, turn: RoleTurn, tools: Sequence[ReadyTool]
) -> Brief:
    """What a node's prompt is made of."""
    operation, state = node.op, engine.state
    grants = [kind for kind in role.grants if _granted(kind, operation.emits)]
    returns = None if operation.returns is None else _decode(operation.returns)
    return Brief(
        role=_leaving(role, node),
        grants=grants,
        channel="blocks" if role.program is not None else "tools",
        assignees=engine.bodies.assignees(),
        spawns=max(0, state.budget.spawns - state.spawns),
        gate="" if operation.gate is None else _gate(operation.gate.refuse_on),
        returns=returns,
        asks=operation.asks,
        tools={tool.name: tool.description.partition("\n")[0] for tool in tools},
        notices=tuple(_notices(node, turn)),
        instruction=turn.instruction,
        parameters=turn.parameters,
        inputs=tuple(engine.bodies.handed(node, turn)),
        failed={} if operation.inputs is not None else turn.failed,
        emissions=tuple(engine.bodies.heard(node)),
    )


def _granted(kind: type[Emission], narrowed: Sequence[str] | None) -> bool:
    return narrowed is None or kind.emission_kind in (*narrowed, "EscalationRequest")


def _leaving(role: Role, node: NodeState) -> Role:
    """The role with what the node itself is to leave beside."""
    if not node.op.artifacts:
        return role
    artifacts = [Artifact(a.name, a.path, a.required, a.kind) for a in declared(node, role)]
    fields = {name: getattr(role, name) for name in Role.__dataclass_fields__ if name != "_"}
    return Role(**{**fields, "artifacts": tuple(artifacts)})


def _gate(refuse_on: Sequence[str]) -> str:
    return (
        f"Your verdict is a gate here: {' and '.join(refuse_on)} stops everything that depends on it; "
        "every other verdict lets it go on."
    )


def _notices(node: NodeState, turn: RoleTurn) -> Iterator[str]:
    if turn.attempt > 1 and node.error is not None:
        error = node.error
        yield (
            f"[CONTINUE]\nAttempt {error.attempt} at this failed: {error.type}: {error.message}\n"
            "What you said up to your last answer stands. Continue your work from there; do not start over.\n"
            "[/CONTINUE]"
        )


def _sum(before: Usage | None, spent: Spent) -> Usage:
    before = Usage() if before is None else before
    costs = [cost for cost in (before.cost_usd, spent.cost_usd) if cost is not None]
    return Usage(
        before.requests + spent.requests,
        before.input_tokens + spent.input_tokens,
        before.output_tokens + spent.output_tokens,
        sum(costs) if costs else None,
        spent.model or before.model,
        before.cache_read + spent.cache_read,
    )
