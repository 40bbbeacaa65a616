"""What each verb asks of an agent: the same brief, shaped to the verb (kernel.md 1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from emissions.json_text import NotJsonError, decode_at, find_fault, skip_blanks
from orchestrator.core.verbs import MAX_STEPS, STEPS, VERBS, choices_fault
from orchestrator.errors import OperationError
from roles import Brief, Handed, Role

__all__ = ["ALONE", "choice_fault", "read_already", "shaped", "steps_of"]

#: Who performs a verb without a role.
ALONE: Final = Role("agent", body="You are given one piece of work. Do it, and answer with the result alone.")

_PARSE: Final = (
    "Give what the text below says in the shape that is asked for. Take every value from the text; "
    "where it says nothing of a value, leave that out, or use what the shape has for nothing."
)
_INTERPRET: Final = (
    "What follows is a rough request. Write the one instruction that was meant: clear, complete, in the "
    "imperative, for somebody who knows nothing of it. Keep every name, number and limit. Do not carry it "
    "out; answer with the instruction alone."
)
_STEPS: Final = (
    "## How you work here\n\nYou work in steps. In each step say in a sentence or two what you know and "
    "what you need, then call the tools that get it. When you know enough, answer without a call. You have "
    "at most {steps} steps; after that there are no tools."
)


#: Where a fenced block begins: the rest of the line is its tag.
_FENCE: Final = re.compile(r"^ {0,3}```+[^`\n]*\n", re.MULTILINE)


def shaped(brief: Brief, verb: str) -> Brief:
    """The brief of a node that performs ``verb``.

    Raises:
        OperationError: a parameter of the verb, rendered, is not what it has to be.
    """
    known = VERBS.get(verb)
    if known is None:
        return brief
    if not known.emits:
        brief = replace(brief, grants=())
    if not known.acts:
        brief = replace(brief, tools={}, asks=False)
    shape = _SHAPES.get(verb)
    return brief if shape is None else shape(brief)


def _parse(brief: Brief) -> Brief:
    return _of_text(brief, brief.instruction or _PARSE)


def _interpret(brief: Brief) -> Brief:
    return _of_text(brief, _INTERPRET + (f"\n\n{brief.instruction}" if brief.instruction else ""))


def _of_text(brief: Brief, instruction: str) -> Brief:
    """A text that is worked on is data: it stands apart from the instruction, under its name."""
    parameters = dict(brief.parameters)
    text = parameters.pop("text", None)
    inputs = brief.inputs if text is None else (Handed("text", text),)
    return replace(brief, instruction=instruction, parameters=parameters, inputs=inputs)


def _select(brief: Brief) -> Brief:
    fault = choices_fault(brief.parameters)
    if fault is not None:
        raise OperationError(fault)
    parameters = dict(brief.parameters)
    choices, most = parameters.pop("choices"), parameters.pop("most", 1)
    meanings = choices if isinstance(choices, dict) else dict.fromkeys(choices, "")
    lines = [f"- {name}: {meaning}" if meaning else f"- {name}" for name, meaning in meanings.items()]
    how = "Select one of these:" if most == 1 else f"Select at least one and at most {most} of these:"
    items = {"type": "array", "items": {"enum": list(meanings)}, "minItems": 1, "maxItems": most}
    schema = {"type": "object", "properties": {"selected": items}, "required": ["selected"]}
    instruction = "\n\n".join(part for part in (brief.instruction, how, "\n".join(lines)) if part)
    return replace(brief, instruction=instruction, parameters=parameters, returns=schema)


def _stepwise(brief: Brief) -> Brief:
    role = brief.role
    how = _STEPS.format(steps=steps_of(brief.parameters))
    fields = {name: getattr(role, name) for name in Role.__dataclass_fields__ if name != "_"}
    body = role.body or f"You are {role.name}. {role.description}".strip()
    parameters = {name: value for name, value in brief.parameters.items() if name != "max_steps"}
    return replace(brief, role=Role(**{**fields, "body": f"{body}\n\n{how}"}), parameters=parameters)


_SHAPES: Final = {
    "parse": _parse,
    "interpret": _interpret,
    "select": _select,
    "ReAct": _stepwise,
    "ReActStream": _stepwise,
}


def steps_of(parameters: Mapping[str, Any]) -> int:
    """How many steps ReAct may take; what is no number belongs to the work, not to the verb."""
    steps = parameters.get("max_steps")
    return steps if type(steps) is int and 1 <= steps <= MAX_STEPS else STEPS


def read_already(text: str) -> Iterator[Any]:
    """The JSON that a text holds already, whole or in a fenced block: where it fits, no model is asked."""
    for at in (0, *(fence.end() for fence in _FENCE.finditer(text))):
        try:
            value, end = decode_at(text, skip_blanks(text, at))
        except NotJsonError:
            continue
        # the decoder says where a value ends: a fence inside of one of its texts is data
        rest = text[skip_blanks(text, end) :]
        if (not rest or (at and rest.startswith("```"))) and find_fault(value) is None:
            yield value


def choice_fault(schema: Mapping[str, Any], value: object) -> str | None:
    """Why a value is no answer to a ``select``, or None; its schema's limits of a list are judged here."""
    selected = value.get("selected") if isinstance(value, dict) else None
    if not isinstance(selected, list):
        return "give an object whose selected is a list of choices"
    items = schema["properties"]["selected"]
    wrong = next((one for one in selected if one not in items["items"]["enum"]), None)
    if wrong is not None:
        return f"{wrong!r} is none of the choices; write one exactly as it stands in the list"
    if len(set(selected)) != len(selected) or not 1 <= len(selected) <= items["maxItems"]:
        return f"select from 1 to {items['maxItems']} different ones"
    return None
