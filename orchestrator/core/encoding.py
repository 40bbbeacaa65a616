"""Between JSON data and the plan's structs, for rooms that hold the one and make the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

__all__ = ["changed", "decoded", "encoded", "fields_of", "struct_of"]

S = TypeVar("S", bound=msgspec.Struct)


def encoded(value: object) -> msgspec.Raw:
    """JSON data as the bytes that a plan carries."""
    return msgspec.Raw(msgspec.json.encode(value))


def decoded(raw: msgspec.Raw | bytes | str) -> Any:
    """JSON data of bytes or of a text.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error


def changed(spec: S, **changes: Any) -> S:
    """A copy of a struct with some fields changed."""
    return msgspec.structs.replace(spec, **changes) if changes else spec


def struct_of(kind: type[S], fields: object) -> S:
    """A struct from a mapping of its fields.

    Raises:
        ValueError: a field is unknown or of another type.
    """
    try:
        return msgspec.convert(fields, kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(str(error)) from error


def fields_of(value: object) -> Mapping[str, object] | None:
    """Fields of a msgspec struct or a dataclass instance as plain data; None for anything else."""
    if isinstance(value, type) or not (isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value)):
        return None
    try:
        return dict(msgspec.to_builtins(value))
    except (TypeError, ValueError, RecursionError):
        return None
