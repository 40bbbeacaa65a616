"""A document against the schema: every fault with its place, in words that say what is accepted.

What does not fit is left out and the rest is looked at again, so that one typing error does not
hide the others.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from orchestrator.errors import FlowError
from orchestrator.flows.document import (
    VERSION,
    ArgSpec,
    BudgetSpec,
    ContextSpec,
    Defaults,
    Document,
    EdgeSpec,
    GateSpec,
    LimitsSpec,
    NodeSpec,
    RetrySpec,
)
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.planting import plant
from orchestrator.flows.problems import Problem

__all__ = ["validate"]

_ROUNDS: Final = 5
_SHOWN: Final = 40
#: Words for what pydantic expected, by the type of its error.
_ACCEPTED: Final[Mapping[str, str]] = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_too_short": "a text that is not empty",
    "string_type": "a text",
    "too_short": "at least one entry",
}
_TYPE_FAULTS = frozenset({*_ACCEPTED, "literal_error"})
_PARTS: Final[Mapping[str, type[BaseModel]]] = {
    "budget": BudgetSpec,
    "limits": LimitsSpec,
    "defaults": Defaults,
}
_ENTRIES: Final[Mapping[str, type[BaseModel]]] = {
    "args": ArgSpec,
    "context": ContextSpec,
    "edges": EdgeSpec,
    "nodes": NodeSpec,
}


def validate(source: Source) -> tuple[Document, list[Problem]]:
    """The document as far as it fits, and what does not.

    Raises:
        FlowError: so little fits that nothing can be said about the rest.
    """
    if not isinstance(source.data, dict):
        raise FlowError("a flow is a mapping; start with version: 1", file=source.file, line=1, column=1)
    _refuse_newer(source)
    problems: list[Problem] = []
    data = copy.deepcopy(source.data)
    plant(source, data)
    removed: list[Place] = []
    for _ in range(_ROUNDS):
        try:
            return Document.model_validate(data), problems
        except ValidationError as error:
            found = _faults(source, error, data)
        problems += [one for place, one in found.items() if not _follows(place, removed)]
        removed += found
        # Where a key is missing, what lacks it goes.
        wrong = {place if _present(data, place) else place[:-1] for place in found}
        for place in sorted(wrong, key=_backwards, reverse=True):
            _remove(source, data, place)
        data.setdefault("version", 1)
        data.setdefault("name", "flow")
        if not isinstance(data.get("nodes"), dict) or not data["nodes"]:
            break
    first = min(problems)
    raise FlowError(first.message, file=source.file, line=first.line, column=first.column)


def _refuse_newer(source: Source) -> None:
    """A later version may mean anything by its keys: nothing else is said about it."""
    version = source.data.get("version")
    if type(version) is not int or version <= VERSION:
        return
    line, column = source.position(("version",))
    message = (
        f"version {version} of the format is newer than this callboard, which reads version {VERSION}; "
        "install a newer callboard"
    )
    raise FlowError(message, file=source.file, line=line, column=column)


def _follows(place: Place, removed: list[Place]) -> bool:
    """Whether a fault is only there because something around it, or inside it, was left out."""
    return any(place[: len(one)] == one[: len(place)] for one in removed)


def _faults(source: Source, error: ValidationError, data: object) -> dict[Place, Problem]:
    """Faults by place. The members of a union that did not fit become one fault that names all forms."""
    grouped: dict[Place, list[Any]] = {}
    for fault in error.errors(include_url=False):
        place = _place(data, fault["loc"])
        grouped.setdefault(place, []).append(fault)
    found: dict[Place, Problem] = {}
    for place, faults in grouped.items():
        deeper = any(len(other) > len(place) and other[: len(place)] == place for other in grouped)
        if deeper and all(fault["type"] in _TYPE_FAULTS for fault in faults):
            continue
        for fault in faults:
            if fault["type"] == "missing":
                name = str(fault["loc"][-1])
                found[*place, name] = source.problem(
                    place, f"{_words(place)} lacks the key {name!r}", key=True
                )
        lacking = any(fault["type"] == "missing" for fault in faults)
        kept = [] if lacking else faults
        if kept:
            found[place] = _fault(source, place, kept, data)
    return found


def _fault(source: Source, place: Place, faults: list[Any], data: object) -> Problem:
    if any(fault["type"] == "extra_forbidden" for fault in faults):
        key, around = str(place[-1]), place[:-1]
        message = f"{_words(around)} has no key {key!r}{suggestion(key, _known(around))}"
        return source.problem(place, message, key=True)
    forms = dict.fromkeys(form for fault in faults for form in _forms(fault))
    if (
        (place[:1] == ("budget",) or place[-1:] == ("refusals",))
        and len(forms) > 1
        and forms.pop("a text", "") is None
    ):
        forms["${args.NAME}"] = None
    value = repr(_at(data, place))
    shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
    hint = _hint(_at(data, place), shown, forms)
    return source.problem(place, f"{_words(place)} is {shown}; write {' or '.join(forms)}{hint}")


def _hint(value: object, shown: str, forms: Iterable[str]) -> str:
    """What the author probably meant to write."""
    if shown.strip("'\"") in ("true", "false") and "true" in " ".join(forms):
        return " (without quotes)"
    if "a list" in forms and isinstance(value, str) and len(value) <= _SHOWN:
        return f": [{', '.join(part.strip() for part in value.strip('[]').split(','))}]"
    if "a list" in forms and isinstance(value, dict):
        return ": [{...}]"
    if "a text" in forms and "a list" not in forms and type(value) in (int, float, bool):
        return f": '{str(value).lower() if type(value) is bool else value}'"
    return ""


def _forms(fault: Any) -> list[str]:
    kind, context = fault["type"], fault.get("ctx") or {}
    if kind == "literal_error":
        return [str(context["expected"]).replace("True", "true")]
    if kind == "greater_than_equal":
        return [f"at least {context['ge']}"]
    if kind == "less_than_equal":
        return [f"at most {context['le']}"]
    if kind == "string_pattern_mismatch":
        return [
            "${args.NAME}"
            if "$" in str(context["pattern"])[:3]
            else "letters, digits, _ and -, a letter first"
        ]
    if kind == "value_error":
        return [str(fault["msg"]).removeprefix("Value error, ").removeprefix("write ")]
    if kind == "string_too_long":
        return [f"at most {context['max_length']} characters"]
    return [_ACCEPTED.get(kind, str(fault["msg"]))]


def _place(data: object, location: tuple[str | int, ...]) -> Place:
    """The part of pydantic's location that stands in the document; the rest names members of unions."""
    place: list[str | int] = []
    for part in location:
        inside = isinstance(data, dict) and part in data
        if not inside and not (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            continue
        data = data[part]  # type: ignore[index]
        place.append(part)
    return tuple(place)


def _known(place: Place) -> list[str]:
    """Keys that the mapping at ``place`` may have."""
    model: type[BaseModel] | None = Document if not place else None
    if len(place) == 1:
        model = _PARTS.get(str(place[0]))
    elif place and place[-1] in ("gate", "retry"):
        model = GateSpec if place[-1] == "gate" else RetrySpec
    elif len(place) == 2:  # noqa: PLR2004
        model = _ENTRIES.get(str(place[0]))
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _words(place: Place) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(parts).removeprefix(".") or "the document"


def _at(data: Any, place: Place) -> Any:
    for part in place:
        data = data[part]
    return data


def _backwards(place: Place) -> tuple[tuple[bool, int, str], ...]:
    """A key by which the last entry of a list is taken out first."""
    return tuple((isinstance(part, int), part if isinstance(part, int) else 0, str(part)) for part in place)


def _remove(source: Source, data: Any, place: Place) -> None:
    """Take what stands at ``place`` out of the data."""
    if not place or not _present(data, place):
        return
    around, last = _at(data, place[:-1]), place[-1]
    del around[last]
    if isinstance(last, int):
        source.close_up(place[:-1], last)


def _present(data: Any, place: Place) -> bool:
    return len(_place(data, place)) == len(place)
