"""Comparisons with values that can never come: a text that an enum does not hold, a number with a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.core.expressions import Comparison
from orchestrator.flows.document import ArgSpec
from orchestrator.flows.names import suggestion
from orchestrator.flows.shapes import Schema

__all__ = ["KIND_WORDS", "argument_schema", "comparison_fault"]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
}
#: A schema's type -> what people are told.
KIND_WORDS: Final[Mapping[str, str]] = {
    "string": "a text",
    "integer": "a number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_ORDERED: Final = ("string", "integer", "number")


_ARGUMENTS: Final[Mapping[str, Schema]] = {
    "str": {"type": "string"},
    "path": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "any": {},
}


def argument_schema(spec: ArgSpec) -> Schema:
    """What an argument of a flow holds."""
    schema = _ARGUMENTS[spec.type]
    return {**schema, "enum": list(spec.enum)} if spec.enum is not None and spec.type == "str" else schema


def comparison_fault(schema: Schema, comparison: Comparison) -> str | None:
    """Why the answer is always the same, or an error, whatever the run brings; None if that is not known.

    Args:
        schema: what is known of the value that the path names; null may stand where it is not asked for.
    """
    kind, sign = schema.get("type"), comparison.sign
    if not isinstance(kind, str) or kind not in KIND_WORDS:
        return None
    where = ".".join(str(step) for step in comparison.path.steps)
    known = schema.get("enum")
    for value in comparison.values:
        if value is None and sign in ("==", "!=", "in"):
            continue
        fits = type(value) in _TYPES.get(kind, ())
        if not fits or (sign[:1] in "<>" and kind not in _ORDERED):
            return f"{where} is {KIND_WORDS[kind]} and is compared with {value!r}; the two are never alike"
        if isinstance(known, list) and sign in ("==", "!=", "in") and value not in known:
            return f"{where} is never {value!r}{suggestion(str(value), map(str, known))}"
    return None
