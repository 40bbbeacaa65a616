"""``returns:``, the shape of a node's value: the short form in documents, as JSON Schema, and its use.

Short form: ``str``, ``int``, ``float``, ``bool``, ``any``, ``[T]``, ``{enum: [a, b]}``, ``{field: T}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.flows.names import suggestion

__all__ = ["GATE_FIELDS", "Schema", "ShapeError", "look_up", "schema_of", "shape_fault"]

Schema = Mapping[str, Any]

_SIMPLE: Final[Mapping[str, Schema]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "any": {},
}
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_TEXT: Final[Schema] = {"type": "string"}
#: What a gate's value holds whatever its role returns.
GATE_FIELDS: Final[Mapping[str, Schema]] = {
    "verdict": {"type": "string", "enum": ["APPROVE", "APPROVE-WITH-FIXES", "REQUEST-CHANGES", "REJECT"]},
    "rationale": _TEXT,
    "evidence": {},
    "reversible_by": {},
    "gate_verdict": _TEXT,
}
_DEPTH_LIMIT: Final = 20
_VALUE_DEPTH: Final = 200
#: Alternatives inside alternatives multiply: they use the depth up sooner.
_WAY: Final = 25


class ShapeError(Exception):
    """Raised for a shape that means nothing; the message ends in the accepted form."""


def schema_of(shape: object, depth: int = 0) -> dict[str, Any]:
    """The JSON Schema of a shape in short form.

    Raises:
        ShapeError: it is none.
    """
    if depth > _DEPTH_LIMIT:
        raise ShapeError(f"the shape nests deeper than {_DEPTH_LIMIT} levels")
    if isinstance(shape, str):
        if shape not in _SIMPLE:
            raise ShapeError(f"{shape!r} is no type{suggestion(shape, _SIMPLE)}")
        return dict(_SIMPLE[shape])
    if isinstance(shape, list):
        if len(shape) != 1:
            raise ShapeError("a list has one type in it, such as [str]")
        return {"type": "array", "items": schema_of(shape[0], depth + 1)}
    if isinstance(shape, Mapping):
        if set(shape) == {"enum"} and isinstance(shape["enum"], list):
            return _enum(shape["enum"])
        fields = {str(key): schema_of(value, depth + 1) for key, value in shape.items()}
        return {"type": "object", "properties": fields, "required": list(fields)}
    raise ShapeError(f"{shape!r} is no shape; write str, [str], {{enum: [a, b]}} or {{field: str}}")


def _enum(values: list[object]) -> dict[str, Any]:
    if not values or any(type(value) is not str for value in values):
        raise ShapeError("enum holds texts; quote what is not read as one")
    return {"type": "string", "enum": values}


def look_up(schema: Schema, steps: tuple[str | int, ...], where: str) -> tuple[Schema, str | None]:
    """Follow ``steps`` through a schema: what stands there (``{}`` if unknown), or what is wrong."""
    definitions = schema.get("$defs") or {}
    for step in steps:
        schema = _resolved(schema, definitions)
        kind = schema.get("type")
        fields = schema.get("properties")
        if isinstance(step, str) and kind == "object" and isinstance(fields, Mapping):
            if step not in fields:
                if schema.get("additionalProperties"):
                    return {}, None
                return {}, f"{where} has no {step!r}{suggestion(step, fields)}"
            schema, where = fields[step], f"{where}.{step}"
        elif isinstance(step, int) and kind == "array":
            schema, where = schema.get("items") or {}, f"{where}[{step}]"
        elif kind in _PYTHON and kind not in ("object", "array"):
            return {}, f"{where} is of type {kind} and has no {step!r}"
        elif kind in ("object", "array") and ((kind == "array") is isinstance(step, str)):
            what = "a list; write a position such as [0]" if kind == "array" else "a mapping; write a key"
            return {}, f"{where} is {what}"
        else:
            return {}, None
    return _resolved(schema, definitions), None


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """What a ``$ref`` to the schema's own definitions means."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    return definitions.get(name, schema)


def shape_fault(schema: Schema, value: object, where: str = "the value") -> str | None:
    """Why a JSON value does not fit a schema, or None.

    Looked at are ``type``, ``enum``, ``const``, ``properties``, ``required``, ``items``, ``anyOf``,
    ``additionalProperties: false``, and ``$ref`` to the schema's own ``$defs``.
    """
    return _fault(schema, value, where, schema.get("$defs") or {}, 0)


def _fault(
    schema: Schema, value: object, where: str, definitions: Mapping[str, Schema], depth: int
) -> str | None:
    schema = _resolved(schema, definitions)
    if depth > _VALUE_DEPTH:
        return f"{where} is nested deeper than {_VALUE_DEPTH} levels"
    ways = schema.get("anyOf")
    if isinstance(ways, list) and ways:
        faults = [_fault(way, value, where, definitions, depth + _WAY) for way in ways]
        if None not in faults:
            return faults[0]
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    accepted = [kind for kind in kinds if kind in _PYTHON]
    if accepted and not any(type(value) in _PYTHON[kind] for kind in accepted):
        return f"{where} is {type(value).__name__}, not {' or '.join(accepted)}"
    if "const" in schema and value != schema["const"]:
        return f"{where} is {value!r}, not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is {value!r}, not one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                return f"{where} has no {name!r}"
        fields = schema.get("properties", {})
        if schema.get("additionalProperties") is False:
            for name in value:
                if name not in fields:
                    return f"{where} has {name!r}, which its shape does not hold{suggestion(name, fields)}"
        inner = ((fields[key], item, f"{where}.{key}") for key, item in value.items() if key in fields)
        told = (_fault(part, item, place, definitions, depth + 1) for part, item, place in inner)
        return next((fault for fault in told if fault), None)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        told = (
            _fault(schema["items"], item, f"{where}[{at}]", definitions, depth + 1)
            for at, item in enumerate(value)
        )
        return next((fault for fault in told if fault), None)
    return None
