"""A turn of an agent: what it is shown, who performs it, what it leaves in its branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from emissions import EMISSIONS, Emission, EscalationRequest, Malformed
from orchestrator.agents import Message
from orchestrator.agents.backends import backend_for
from orchestrator.agents.jobs import Job, Spent
from orchestrator.agents.providers import rate_of
from orchestrator.agents.secrecy import redacted_data
from orchestrator.agents.tools import ReadyTool
from orchestrator.agents.verbs import choice_fault, read_already, shaped
from orchestrator.core.commands import EmissionIn, Emit, Usage
from orchestrator.core.emitting import grants_of
from orchestrator.core.resources import model_of
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.verbs import VERBS
from orchestrator.flows.shapes import shape_fault
from orchestrator.runtime.artifacts import declared
from orchestrator.runtime.powers import may_use
from orchestrator.runtime.steering import rendered
from orchestrator.runtime.turns import RoleTurn
from roles import Artifact, Brief, Prompt, Role, build_prompt
from roles.prompts import offered, only_new

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["brief_of", "judge_of", "speak", "standing"]

_decode = msgspec.json.decode
#: How a verb of the session's own is performed where a role speaks under it.
_OPERATE: Final = VERBS["operate"]


async def speak(engine: Engine, node: NodeState, role: Role, turn: RoleTurn) -> Any:
    """Perform one turn of a role that has no function, and return its value."""
    verb = VERBS.get(node.op.verb, _OPERATE)
    history = list(turn.branch.settled) if verb.hears else []
    tools: Mapping[str, ReadyTool] = {}
    if verb.acts:
        tools = await engine.tools.of(role, partial(may_use, engine, node))
    brief = shaped(brief_of(engine, node, role, turn, tuple(tools.values())), node.op.verb)
    judge = judge_of(node.op.verb, brief)
    if node.op.verb == "parse":
        # what is that object already needs no model
        text = turn.parameters.get("text")
        for value in read_already(text) if isinstance(text, str) else ():
            if judge(value) is None:
                return value
    prompt = _prompt(engine.state, node, turn, brief, history)
    for name, text in prompt.files.items():
        folder = turn.workdir / "inputs"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    turn.traceless = not verb.stays
    turn.text = ""
    _say(turn.branch, prompt, node.op.name)
    job = _job(engine, node, turn, role, brief)
    job = replace(job, prompt=prompt, history=history, fault=judge, tools=tuple(tools.values()))
    value = await backend_for(job)(job)
    if role.program is not None:
        value = redacted_data(value)
    if role.program is not None and role.program.result is None and role.program.protocol == "text":
        turn.text = None
    return value


def _job(engine: Engine, node: NodeState, turn: RoleTurn, role: Role, brief: Brief) -> Job:
    """What a turn's backend may use; who works and on what is known already."""
    operation, tier = node.op, engine.model or model_of(node)

    def spend(spent: Spent) -> None:
        turn.usage = _sum(turn.usage, spent)

    def read(text: str) -> None:
        turn.text = text

    return Job(
        stage=turn,
        role=role,
        brief=brief,
        prompt=Prompt("", ""),
        verb=operation.verb,
        models=() if not tier else (tier, *role.fallback),
        effort=operation.effort or role.effort,
        offered=offered(brief),
        returns=brief.returns,
        spend=spend,
        say=turn.branch.extend if role.program is None else partial(_say_clean, turn.branch),
        read=read,
        refuse=lambda malformed: _refuse(engine, node, turn, malformed),
        heard=_Notes(engine, node, turn).heard,
        providers=engine.providers,
        rate=partial(rate_of, engine.state.plan.limits),
        branch=turn.spoken_as,
        fresh=operation.fresh,
    )


def _say_clean(branch: Any, messages: Sequence[Message]) -> None:
    """What a program said, without the keys that it was given."""
    branch.extend([replace(one, content=redacted_data(one.content)) for one in messages])


def _refuse(engine: Engine, node: NodeState, turn: RoleTurn, malformed: Malformed) -> None:
    """Put something on record that was meant as an emission and is none."""
    one = EmissionIn(malformed.kind, channel="tool", reason=malformed.reason, detail=malformed.detail)
    engine.tell(Emit(node.op.name, turn.attempt, one, ()))


class _Notes:
    """An operator's notes to a running node, each handed on once."""

    def __init__(self, engine: Engine, node: NodeState, turn: RoleTurn) -> None:
        self._engine, self._node, self._turn = engine, node, turn
        #: what came before is in the instruction already
        self._told = self._rendered = len(turn.notes)

    def heard(self) -> str:
        """The block of those that came since the last call; empty if none did."""
        unread = self._turn.steers()
        count = max(0, len(unread) - self._rendered)
        self._rendered = max(0, self._rendered - len(unread))
        if not count:
            return ""
        name, attempt = self._node.op.name, self._turn.attempt
        mine = [
            (note.time, note.text)
            for note in self._engine.state.steers
            if note.delivered_to == name and note.attempt == attempt
        ]
        self._told += count
        return rendered(mine[self._told - count : self._told], "")


def judge_of(verb: str, brief: Brief) -> Callable[[Any], str | None]:
    """What says why a value does not fit, or None."""
    schema = brief.returns

    def fault(value: Any) -> str | None:
        if schema is None:
            return None
        return choice_fault(schema, value) if verb == "select" else shape_fault(schema, value)

    return fault


#: Ends what a node is told that goes on with its own work.
_REST: Final = "What is not said again here is as it was."


def _prompt(
    state: RunState, node: NodeState, turn: RoleTurn, brief: Brief, history: Sequence[Message]
) -> Prompt:
    """The whole brief, or, where the node goes on with its own work, only what is new."""
    prompt = build_prompt(brief)
    mine, round_ = {node.op.name}, node
    while round_.previous is not None:
        round_ = state.nodes[round_.previous]
        mine.add(round_.op.name)
    goes_on = bool(brief.notices) or node.previous is not None
    if not goes_on or not any(message.node in mine for message in history):
        return prompt
    said = "\n\n".join(str(message.content) for message in history if message.role == "user")
    new = build_prompt(only_new(brief, turn.render(node.op.instruction).strip(), said))
    return Prompt(prompt.system, f"{new.user}\n\n{_REST}".lstrip(), new.files)


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
    return replace(
        standing(engine.state, node, role, tools),
        assignees=engine.bodies.assignees(),
        notices=tuple(_notices(node, turn)),
        instruction=turn.instruction,
        parameters=turn.parameters,
        inputs=tuple(engine.bodies.handed(node, turn)),
        failed={} if node.op.inputs is not None else turn.failed,
        emissions=tuple(engine.bodies.heard(node)),
    )


def standing(state: RunState, node: NodeState, role: Role, tools: Sequence[ReadyTool]) -> Brief:
    """The part of a brief that is the same in every turn: who works, and what it may do."""
    operation = node.op
    return Brief(
        role=_leaving(role, node),
        grants=_grants(state, node, role),
        channel="blocks" if role.program is not None else "tools",
        spawns=max(0, state.budget.spawns - state.spawns),
        gate="" if operation.gate is None else _gate(operation.gate.refuse_on),
        returns=None if operation.returns is None else _decode(operation.returns),
        asks=operation.asks and role.program is None,
        tools={tool.name: tool.description.partition("\n")[0] for tool in tools},
    )


def _grants(state: RunState, node: NodeState, role: Role) -> list[type[Emission]]:
    """What it may emit; a node without a role has what it names itself, and as a gate its verdict."""
    narrowed = node.op.emits
    if node.op.role is None:
        return [EMISSIONS[kind] for kind in grants_of(state, node) if kind in EMISSIONS]
    always = EscalationRequest.emission_kind
    return [kind for kind in role.grants if narrowed is None or kind.emission_kind in (*narrowed, always)]


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
