"""What a role without a function is shown: one pure function from a brief to two texts.

The order is fixed (the kernel's rule for what a model is shown): the role's body and modes, what it may emit,
an operator's notes, the instruction, then what predecessors gave and emitted, under their names. The part
that changes least stands first, so that providers can keep it. What is not granted is not mentioned.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from emissions import Emission, EscalationRequest, SpawnRequest, TaskAssignment, Verdict, tag
from roles.declaration import Role
from roles.modes import MODES
from roles.offers import offer_of
from roles.turn import Emitted, NodeError

__all__ = ["HANDOVER", "Brief", "Handed", "Prompt", "build_prompt", "offered", "only_new"]

HANDOVER: Final = 16_000
"""Characters of one value that are shown; a longer one is cut at a mark and given whole as a file."""

Channel = Literal["tools", "blocks"]


@dataclass(frozen=True, slots=True)
class Handed:
    """A predecessor's value.

    Attributes:
        name: the node, as this one reads it. value: JSON data. role: the role of that node, if it has one.
    """

    name: str
    value: Any
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """All that a prompt is made of.

    Attributes:
        role: who is to work. grants: what this node may emit.
        channel: emissions are tool calls, or tagged blocks in the text.
        assignees: role -> description, for those who may get work; spawns: how many more nodes may be grown.
        gate: what a verdict does here, in words; empty where the node is no gate.
        returns: JSON Schema of the value, or None. asks: it may put questions to a person.
        tools: name -> description of its further tools.
        notices: what happened before (an attempt that failed, work sent back), most recent last.
        instruction, parameters: what to do, an operator's notes before it.
        inputs, failed, emissions: what predecessors left.
        handover: see HANDOVER.
    """

    role: Role
    grants: Sequence[type[Emission]] = ()
    channel: Channel = "tools"
    assignees: Mapping[str, str] = field(default_factory=dict)
    spawns: int | None = None
    gate: str = ""
    returns: Any = None
    asks: bool = False
    tools: Mapping[str, str] = field(default_factory=dict)
    notices: Sequence[str] = ()
    instruction: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[Handed] = ()
    failed: Mapping[str, NodeError] = field(default_factory=dict)
    emissions: Sequence[Emitted[Any]] = ()
    handover: int = HANDOVER


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is shown.

    Attributes:
        system: who the role is and what it may say; equal for every turn of a node.
        user: what to do now, and with what.
        files: file name -> whole text of a value that was cut.
    """

    system: str
    user: str
    files: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Read as one text."""
        return "\n\n".join(part for part in (self.system, self.user) if part)


def build_prompt(brief: Brief) -> Prompt:
    """What a role is shown."""
    files: dict[str, str] = {}
    user = [*brief.notices, brief.instruction, *_handed_over(brief, files)]
    return Prompt(_system(brief), _joined(user), files)


def only_new(brief: Brief, instruction: str, said: str) -> Brief:
    """The brief of who goes on with its own work: without what its conversation holds already.

    Args:
        instruction: the node's own, which ends the brief's. said: all that it was told before.
    """
    new = brief.instruction.removesuffix(instruction).strip()
    return replace(
        brief,
        instruction="" if new in said else new,
        parameters={} if _text(dict(brief.parameters)) in said else brief.parameters,
        inputs=[one for one in brief.inputs if _text(one.value)[: brief.handover] not in said],
        failed={name: error for name, error in brief.failed.items() if str(error) not in said},
        emissions=[one for one in brief.emissions if _emitted(one) not in said],
    )


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


# --- who it is ---------------------------------------------------------------------------------


def _system(brief: Brief) -> str:
    role = brief.role
    return _joined(
        (
            role.body or f"You are {role.name}. {role.description}",
            _modes(role),
            _may_emit(brief),
            _tools(brief),
            _leaves(brief),
        )
    )


def _modes(role: Role) -> str:
    if not role.modes:
        return ""
    return "\n\n".join(("## How you think here", *(f"{name}: {MODES[name]}" for name in role.modes)))


def offered(brief: Brief) -> list[type[Emission]]:
    """The grants that can be used: growth needs a budget and somebody to give work to."""
    grows = brief.spawns != 0 and bool(brief.assignees)
    return [kind for kind in brief.grants if grows or kind not in (SpawnRequest, TaskAssignment)]


def _may_emit(brief: Brief) -> str:
    kinds = offered(brief)
    if not kinds:
        return ""
    if brief.channel == "tools":
        how = "Emit by calling a tool; its answer says whether it was taken, and if not, why."
    else:
        how = (
            "Emit by a fenced block in your output, tagged with the kind, that holds one JSON object. "
            "Text outside of such blocks is your answer."
        )
    parts = ["## What you may emit", how, *(_kind(kind, brief) for kind in kinds)]
    if SpawnRequest in kinds or TaskAssignment in kinds:
        parts.append(_assignees(brief))
    if Verdict in kinds and brief.gate:
        parts.append(brief.gate)
    return "\n\n".join(parts)


def _kind(kind: type[Emission], brief: Brief) -> str:
    offer, name = offer_of(kind), tag(kind)
    head = f"`emit_{name}`" if brief.channel == "tools" else f"`{name}`"
    if offer.example is None:
        return f"{head}: {kind.emission_kind}. {offer.when}"
    line = f"{head}: {kind.emission_kind}. Emit it {offer.when}."
    if kind is EscalationRequest:
        line += " Everybody may."
    example = _for_here(kind, offer.example, brief)
    shown = json.dumps(example, ensure_ascii=False, indent=1)
    fence = "json" if brief.channel == "tools" else name
    return f"{line} A good one:\n\n```{fence}\n{shown}\n```"


def _for_here(kind: type[Emission], example: Mapping[str, Any], brief: Brief) -> Mapping[str, Any]:
    """The example with somebody who exists: an invented assignee would be copied."""
    if kind in (SpawnRequest, TaskAssignment) and example["assignee"] not in brief.assignees:
        return {**example, "assignee": next(iter(brief.assignees))}
    return example


def _assignees(brief: Brief) -> str:
    lines = [f"- {name}: {text}" if text else f"- {name}" for name, text in brief.assignees.items()]
    room = "" if brief.spawns is None else f" {brief.spawns} more can be added to this run."
    return "\n".join((f"Work can be given to these, and to nobody else.{room}", "", *lines))


def _tools(brief: Brief) -> str:
    tools = dict(brief.tools)
    if brief.asks:
        tools["ask"] = "put a question to a person and wait for the answer"
    if not tools:
        return ""
    lines = [f"- `{name}`: {text}" if text else f"- `{name}`" for name, text in tools.items()]
    return "\n".join(("## Your tools", "", *lines))


def _leaves(brief: Brief) -> str:
    lines = []
    for artifact in brief.role.artifacts:
        kind = f" ({artifact.kind})" if artifact.kind else ""
        need = "has to be there" if artifact.required else "if you have it"
        how = "by `write_artifact`" if brief.channel == "tools" else "in the folder that you work in"
        lines.append(f"- {artifact.name}: the file `{artifact.path}`{kind}, {need}; write it {how}")
    if brief.returns is not None:
        schema = json.dumps(brief.returns, ensure_ascii=False, sort_keys=True)
        lines.append(f"- your answer: JSON that fits this schema, and nothing else: {schema}")
    return "\n".join(("## What you leave", "", *lines)) if lines else ""


# --- what is handed over -------------------------------------------------------------------------


def _handed_over(brief: Brief, files: dict[str, str]) -> Iterator[str]:
    if brief.parameters:
        yield f"## Parameters\n\n{_fenced(_text(dict(brief.parameters)), 'json')}"
    parts = list(_inputs(brief, files))
    if parts:
        yield "\n\n".join(("## What was handed over", *parts))
    if brief.emissions:
        yield "\n\n".join(("## What was emitted before you", *map(_emitted, brief.emissions)))


def _inputs(brief: Brief, files: dict[str, str]) -> Iterator[str]:
    for handed in brief.inputs:
        text = _text(handed.value)
        if text and text in brief.instruction:
            continue
        of = f", by {handed.role}" if handed.role not in (None, handed.name) else ""
        shown, mark = text, ""
        if len(text) > brief.handover:
            name = f"{handed.name}.{'txt' if isinstance(handed.value, str) else 'json'}"
            files[name] = text
            shown = text[: brief.handover]
            mark = (
                f"\n\n[cut here: {len(text) - len(shown):,} of {len(text):,} characters left out; "
                f"the whole value is in inputs/{name}]"
            )
        tongue = "" if isinstance(handed.value, str) else "json"
        yield f"### {handed.name}{of}\n\n{_fenced(shown, tongue)}{mark}"
    for name, error in brief.failed.items():
        yield f"### {name}: it failed, and left no value\n\n{error}"


def _emitted(one: Emitted[Any]) -> str:
    by = f"{one.node}, {one.role}" if one.role not in (None, one.node) else one.node
    data = one.emission.model_dump(mode="json", exclude_defaults=True)
    return f"- {one.emission.emission_kind} by {by}: {json.dumps(data, ensure_ascii=False, sort_keys=True)}"


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"text"} and isinstance(value["text"], str):
        return str(value["text"])
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)


def _fenced(text: str, tongue: str) -> str:
    """A text as data: inside a fence that is longer than every one in it."""
    longest, run = 2, 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    return f"{fence}{tongue}\n{text}\n{fence}"
