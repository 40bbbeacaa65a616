"""Hypothesis strategies for the core's structs, made from their annotations."""

from __future__ import annotations

import types
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

#: Values that a record holds: JSON, exact.
json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
raw = json.map(lambda value: msgspec.Raw(msgspec.json.encode(value)))
_PLAIN: dict[object, st.SearchStrategy[Any]] = {
    str: st.text(max_size=12),
    int: st.integers(-(2**62), 2**62),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    msgspec.Raw: raw,
    type(None): st.none(),
}


def value_of(hint: Any) -> st.SearchStrategy[Any]:
    """A strategy for a type hint as the core's structs use them."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin in (Union, types.UnionType):
        return st.one_of(*(value_of(one) for one in arguments))
    if origin is tuple:
        return st.lists(value_of(arguments[0]), max_size=3).map(tuple)
    if origin is list:
        return st.lists(value_of(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(value_of(arguments[0]), value_of(arguments[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    return instances_of(hint)


def instances_of(struct: type[Any]) -> st.SearchStrategy[Any]:
    """A strategy for a struct: any value in every field."""
    hints = get_type_hints(struct)
    fields = [field.name for field in msgspec.structs.fields(struct)]
    return st.builds(struct, **{name: value_of(hints[name]) for name in fields})
