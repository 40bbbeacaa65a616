"""From a schema's annotations to channels: ``Annotated[list, operator.add]`` and their like."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from orchestrator.errors import GraphError
from orchestrator.supersteps.channels import (
    BinaryOperatorAggregate,
    Channel,
    LastValue,
    Messages,
    add_messages,
)
from orchestrator.supersteps.channels.base import EMPTY

__all__ = ["channels_of"]

_INITIAL: Mapping[Any, Any] = {int: 0, float: 0.0, str: "", list: [], dict: {}, bool: False}
_TWO = 2


def channels_of(schema: type) -> dict[str, Channel]:
    """The channels of a schema: a TypedDict, or any class with annotations.

    Raises:
        GraphError: it names no key, or a reducer that does not take two values.
    """
    try:
        hints = get_type_hints(schema, include_extras=True)
    except (NameError, TypeError) as error:
        raise GraphError(f"the annotations of {schema!r} cannot be read: {error}") from None
    if not hints:
        raise GraphError(f"{schema!r} has no annotated key; give a TypedDict, such as class State(TypedDict)")
    return {key: _channel(key, hint) for key, hint in hints.items()}


def _channel(key: str, hint: Any) -> Channel:
    while getattr(get_origin(hint), "__name__", "") in {"Required", "NotRequired", "ReadOnly"}:
        hint = get_args(hint)[0]
    if get_origin(hint) is not Annotated:
        return LastValue()
    plain, *extras = get_args(hint)
    for extra in extras:
        if isinstance(extra, Channel):
            return extra
        if isinstance(extra, type) and issubclass(extra, Channel):
            return extra()
        if extra is add_messages:
            return Messages()
        if callable(extra):
            _check(key, extra)
            return BinaryOperatorAggregate(extra, _initial(plain))
    return LastValue()


def _initial(plain: Any) -> Any:
    kind = get_origin(plain) or plain
    try:
        return _INITIAL.get(kind, EMPTY)
    except TypeError:
        return EMPTY


def _check(key: str, reducer: Any) -> None:
    try:
        parameters = inspect.signature(reducer).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    most = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    if len(needed) > _TWO or not most:
        raise GraphError(
            f"the reducer of {key!r} takes {len(needed)} values; it is called as fn(value, write)"
        )
