"""Values that a graph may carry: exactly what JSON holds, and nothing that only resembles it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pydantic

from orchestrator.core.encoding import fields_of
from orchestrator.errors import OperationError

__all__ = ["json_object", "json_value"]

_DEPTH_LIMIT = 64
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1


def json_object(value: object, where: str) -> dict[str, object]:
    """``value`` (a mapping, or a pydantic, msgspec or dataclass instance) as a JSON object of its own.

    Raises:
        OperationError: it is neither, or holds something that JSON would lose; names the path.
    """
    fields = _fields(value)
    if fields is None:
        message = f"{where} is {type(value).__name__}; give a mapping or a pydantic model"
        raise OperationError(message)
    return {key: json_value(item, f"{where}.{key}", 1) for key, item in _text_keys(fields, where)}


def json_value(value: object, where: str, depth: int = 0) -> object:
    """A copy of ``value`` as exact JSON data: tuples become lists, typed instances mappings.

    Raises:
        OperationError: the value, or one inside it, does not survive JSON; names the path.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        if _INT_MIN <= value <= _INT_MAX:  # type: ignore[operator]
            return value
        raise OperationError(f"{where} is a number beyond 64 bits; pass it as text")
    if kind is float:
        if math.isfinite(value):  # type: ignore[arg-type]
            return value
        raise OperationError(f"{where} is {value}, which JSON cannot hold; pass null or text")
    if depth >= _DEPTH_LIMIT:
        raise OperationError(f"{where} is nested deeper than {_DEPTH_LIMIT} levels")
    if isinstance(value, list | tuple) and kind in (list, tuple):
        return [json_value(item, f"{where}[{number}]", depth + 1) for number, item in enumerate(value)]
    fields = _fields(value)
    if fields is None:
        message = f"{where} is {kind.__name__}, which is not JSON data; pass text, numbers, lists or mappings"
        raise OperationError(message)
    return {key: json_value(item, f"{where}.{key}", depth + 1) for key, item in _text_keys(fields, where)}


def _fields(value: object) -> Mapping[Any, object] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, pydantic.BaseModel):
        return dict(value.model_dump(mode="json"))
    return fields_of(value)


def _text_keys(fields: Mapping[Any, object], where: str) -> list[tuple[str, object]]:
    for key in fields:
        if type(key) is not str:
            raise OperationError(f"{where} has the key {key!r}; keys are texts")
    return [(str(key), item) for key, item in fields.items()]
