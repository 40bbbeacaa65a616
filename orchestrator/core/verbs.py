"""The verbs that every session knows (kernel.md 1): what each needs, and what it leaves in its branch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from orchestrator.core.spec import Operation

__all__ = [
    "ACT",
    "MAX_STEPS",
    "SPAWN_VERBS",
    "SPEAKING",
    "STEPS",
    "VERBS",
    "Verb",
    "choices_fault",
    "verb_fault",
]

#: Steps of ReAct and ReActStream where the node does not say how many.
STEPS: Final = 8
MAX_STEPS: Final = 100
ACT: Final = "act"


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb does with its branch, and what an agent may do under it.

    Attributes:
        speaks: it takes a branch. hears: it goes on with what was said there before.
        stays: what it says stays there. acts: tools may be called, and a person asked.
        emits: what the node is granted may be emitted.
    """

    speaks: bool = True
    hears: bool = True
    stays: bool = True
    acts: bool = False
    emits: bool = False


VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "operate": Verb(acts=True, emits=True),
        "chat": Verb(stays=False, emits=True),
        "communicate": Verb(emits=True),
        "ReAct": Verb(acts=True, emits=True),
        "ReActStream": Verb(acts=True, emits=True),
        "parse": Verb(hears=False, stays=False),
        "select": Verb(),
        "interpret": Verb(hears=False, stays=False),
        ACT: Verb(speaks=False, hears=False, stays=False),
    }
)
"""The nine verbs by name; a session registers others."""

#: Verbs that hold a conversation: a node that performs one without a function takes a branch.
SPEAKING: Final = frozenset(name for name, verb in VERBS.items() if verb.speaks)
#: What a child of a role that speaks may be asked to perform: the seed's four verbs.
SPAWN_VERBS: Final = ("operate", "chat", "communicate", "ReAct")
_DEAF_GATES: Final = ("select", "interpret")


def verb_fault(operation: Operation) -> str | None:
    """What an operation lacks for its verb where no function performs it, or None.

    A parameter that is a text with ``${...}`` is judged when it is rendered.
    """
    verb = operation.verb
    if operation.gate is not None and verb in _DEAF_GATES:
        return f"{verb} cannot give a verdict, so {operation.name} can be no gate; use operate"
    given: dict[str, Any] = msgspec.json.decode(operation.parameters)
    if verb == "parse" and operation.returns is None:
        return "parse gives an object: say its shape with returns"
    if verb == "interpret" and not (operation.instruction or "text" in given):
        return "interpret needs what it is to make clear: an instruction, or the parameter text"
    if verb == "ReActStream" and operation.returns is not None:
        return "ReActStream gives the list of its steps; for a value of a shape use ReAct"
    if verb in ("ReAct", "ReActStream") and "max_steps" in given:
        return _steps_fault(given["max_steps"])
    if verb == "select":
        return choices_fault(given)
    return _act_fault(given) if verb == ACT else None


def _steps_fault(steps: object) -> str | None:
    if _template(steps) or (type(steps) is int and 1 <= steps <= MAX_STEPS):
        return None
    return f"max_steps is {steps!r}; give a whole number from 1 to {MAX_STEPS}"


def choices_fault(given: Mapping[str, Any]) -> str | None:
    """What is wrong with the parameters of a ``select``, or None."""
    choices, most = given.get("choices"), given.get("most", 1)
    if choices is None:
        return "select needs the parameter choices: a list of texts, or a mapping of texts to their meanings"
    if _template(choices):
        return None
    texts = list(choices) if isinstance(choices, list | dict) else []
    if not texts or not all(isinstance(one, str) and one for one in texts) or len(set(texts)) != len(texts):
        return "choices has to be a list of different texts, or a mapping of texts to their meanings"
    if _template(most) or (type(most) is int and 1 <= most <= len(texts)):
        return None
    return (
        f"most is {most!r}; at most {len(texts)} of its choices can be selected: give a whole number from 1"
    )


def _act_fault(given: Mapping[str, Any]) -> str | None:
    tool, arguments = given.get("tool"), given.get("arguments", {})
    if not isinstance(tool, str) or not tool:
        return "act needs the parameter tool: the name of the tool that it calls"
    if not isinstance(arguments, dict) and not _template(arguments):
        return f"arguments is {type(arguments).__name__}; give a mapping of the tool's arguments"
    return None


def _template(value: object) -> bool:
    return isinstance(value, str) and "${" in value
