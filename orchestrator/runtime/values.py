"""What a role gives, settled once: one walk that normalises, finds emissions and checks, then one encode.

Exact is what JSON gives back unchanged: str, bool, None, int within 64 bits, finite float, list, dict
with str keys. A tuple becomes a list; pydantic, msgspec and dataclass instances become mappings.
Everything else, subclasses included, is refused with the path inside the value (engine.md 7).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

import msgspec
from pydantic import BaseModel, ValidationError

from emissions import Emission, SpawnRequest
from orchestrator.errors import ExecutionError

__all__ = [
    "DEPTH_LIMIT",
    "EMISSION_DEPTH",
    "ITEM_LIMIT",
    "SIZE_LIMIT",
    "Found",
    "NotExactError",
    "dump",
    "encode",
    "settle",
]

#: A value nested deeper is refused: far below where Python's own recursion would end.
DEPTH_LIMIT: Final = 100
#: An emission nested deeper in a value is refused ``too_deep``.
EMISSION_DEPTH: Final = 32
#: Bytes of one value's JSON.
SIZE_LIMIT: Final = 64 * 1024 * 1024
#: Values inside one value. Lists that hold each other twice are small objects and no end of values.
ITEM_LIMIT: Final = 1_000_000

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_encoder = msgspec.json.Encoder(order="deterministic")
_SHORT_TEXT = 10_000
_MISSING = object()
_SPAWN_DEFAULTS = SpawnRequest().__dict__
_SCALARS = frozenset({str, bool, type(None)})


class NotExactError(ExecutionError):
    """Raised when a value would not come back from JSON as it is.

    Attributes:
        path: where inside the value, like ``result.files[3]``.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"{path} {problem}; give JSON data: text, numbers, lists, mappings with text keys")


class Found(msgspec.Struct, frozen=True):
    """An emission inside a value: the instance, or why it cannot be taken."""

    emission: Emission
    path: str
    depth: int


def settle(value: object, name: str = "result") -> tuple[bytes, list[Found], object]:
    """Normalise and encode a value.

    Args:
        value: what a role returned. name: the word for it in error paths.

    Returns:
        Its JSON, the emissions in it in order of appearance, and the plain data.

    Raises:
        NotExactError: naming the path.
    """
    kind = type(value)
    if value is None or kind is bool:
        return (b"null" if value is None else b"true" if value else b"false"), [], value
    found: list[Found] = []
    plain = _Walk(found).walk(value, name, 0)
    return encode(plain, name), found, plain


def encode(plain: object, name: str = "value") -> bytes:
    """JSON of plain data, keys sorted.

    Raises:
        NotExactError: a lone surrogate, or more than SIZE_LIMIT bytes.
    """
    try:
        data = _encoder.encode(plain)
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise NotExactError(name, f"cannot be written as JSON ({error})") from None
    if len(data) > SIZE_LIMIT:
        raise NotExactError(name, f"is {len(data):,} bytes of JSON, over {SIZE_LIMIT:,}")
    return data


def dump(emission: Emission) -> bytes:
    """An emission's JSON: the fields that differ from their defaults, so that equal ones are equal bytes.

    Raises:
        NotExactError: a free field (parameters, inputs, context) holds what JSON cannot, or the instance was
            made past its type's checks (``model_construct``): nobody could read it again.
    """
    kind = emission.emission_kind
    if type(emission) is SpawnRequest:
        # the one emission that comes by the thousand: most of them are flat, and need neither walk nor schema
        flat = _flat(emission.__dict__)
        if flat is not None:
            return _encoder.encode(flat)
    try:
        data = emission.__pydantic_serializer__.to_python(
            emission, mode="json", exclude_defaults=True, warnings=False
        )
    except (ValueError, RecursionError) as error:
        raise NotExactError(kind, f"has no JSON form: {error}") from None
    encoded = encode(_Walk([]).walk(data, kind, 0))
    try:
        emission.__pydantic_validator__.validate_json(encoded)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in (kind, *first["loc"]))
        raise NotExactError(place, f"is not what its type says: {first['msg']}") from None
    return encoded


def _flat(fields: dict[str, Any]) -> dict[str, Any] | None:
    """What differs from the defaults of a request that holds short texts and flags, and parameters as plain.

    None if it holds anything else. What does not fit its field is refused by the core, which reads the
    payload into a type of its own at once.
    """
    data: dict[str, Any] = {}
    for name, value in fields.items():
        default = _SPAWN_DEFAULTS.get(name, _MISSING)
        if value is default:
            continue
        kind = type(value)
        if kind is dict:
            for item in value.values():
                inner = type(item)
                if not (inner is bool or (inner is int and _INT_MIN <= item <= _INT_MAX)) and not (
                    inner is str and item.isascii() and len(item) < _SHORT_TEXT
                ):
                    return None
        elif kind is not bool and not (kind is str and value.isascii() and len(value) < _SHORT_TEXT):
            return None
        if value != default:
            data[name] = value
    return data


def _model_data(model: BaseModel, path: str) -> Any:
    try:
        return model.__pydantic_serializer__.to_python(model, mode="json")
    except (ValueError, RecursionError) as error:
        raise NotExactError(path, f"({type(model).__name__}) has no JSON form: {error}") from None


class _Walk:
    """One walk over a value."""

    __slots__ = ("found", "left")

    def __init__(self, found: list[Found]) -> None:
        self.found = found
        self.left = ITEM_LIMIT

    def walk(self, value: Any, path: str, depth: int) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        if kind is int:
            if _INT_MIN <= value <= _INT_MAX:
                return value
            raise NotExactError(path, "is a number beyond 64 bits; give it as text")
        if kind is float:
            if math.isfinite(value):
                return value
            raise NotExactError(path, f"is {value!r}, which JSON has not")
        if depth >= DEPTH_LIMIT:
            raise NotExactError(_short(path), f"is nested deeper than {DEPTH_LIMIT} levels")
        if kind is dict:
            return self._mapping(value, path, depth)
        if kind is list or kind is tuple:
            self._count(len(value), path)
            return [self.walk(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        return self._instance(value, path, depth)

    def _mapping(self, value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
        self._count(len(value), path)
        out = {}
        for key, item in value.items():
            if type(key) is not str:
                raise NotExactError(path, f"has the key {key!r} of type {type(key).__name__}")
            # most items are plain: no call, and no path is made for them
            kind = type(item)
            if kind in _SCALARS or (kind is int and _INT_MIN <= item <= _INT_MAX):
                out[key] = item
            else:
                out[key] = self.walk(item, f"{path}.{key}", depth + 1)
        return out

    def _count(self, items: int, path: str) -> None:
        self.left -= items
        if self.left < 0:
            raise NotExactError(_short(path), f"is where the value holds more than {ITEM_LIMIT:,} values")

    def _instance(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, Emission):
            self.found.append(Found(value, path, depth))
            return self.walk(_model_data(value, path), path, depth + 1)
        if isinstance(value, BaseModel):
            self._look(value.__dict__.values(), path, depth)
            return self.walk(_model_data(value, path), path, depth + 1)
        if isinstance(value, msgspec.Struct) or (
            dataclasses.is_dataclass(value) and not isinstance(value, type)
        ):
            fields = (
                value.__struct_fields__
                if isinstance(value, msgspec.Struct)
                else [field.name for field in dataclasses.fields(value)]
            )
            return self.walk({name: _builtin(getattr(value, name), path) for name in fields}, path, depth)
        raise NotExactError(path, f"is a {type(value).__module__}.{type(value).__qualname__}{_hint(value)}")

    def _look(self, values: Iterable[Any], path: str, depth: int) -> None:
        """Find emissions inside a model's fields; the model's own JSON form is what is kept."""
        for value in values:
            if isinstance(value, Emission):
                self.found.append(Found(value, path, depth + 1))
            elif isinstance(value, BaseModel):
                self._look(value.__dict__.values(), path, depth + 1)
            elif isinstance(value, dict) and depth < DEPTH_LIMIT:
                self._look(value.values(), path, depth + 1)
            elif isinstance(value, list | tuple) and depth < DEPTH_LIMIT:
                self._look(value, path, depth + 1)


def _hint(value: object) -> str:
    return f" (its .value is {value.value!r})" if isinstance(value, Enum) else ""


def _builtin(value: Any, path: str) -> Any:
    """A field's JSON form where msgspec has one for its type (dates, enums, uuids)."""
    if type(value) in _SCALARS or isinstance(value, int | float | dict | list | tuple | BaseModel):
        return value
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        return value
    try:
        return msgspec.to_builtins(value)
    except (msgspec.MsgspecError, TypeError, ValueError):
        raise NotExactError(path, f"holds a {type(value).__module__}.{type(value).__qualname__}") from None


def _short(path: str) -> str:
    return path if len(path) <= 80 else f"{path[:40]}...{path[-30:]}"  # noqa: PLR2004
