"""What expressions work on: JSON values, views of nodes, and the fixed table of functions.

Every function is total: it ends after a bounded number of steps with a value or with an
``ExpressionError``. Nothing here calls a method that data could bring along, and no Python
attribute is ever read: data is looked up by key.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from orchestrator.errors import OrchestratorError

__all__ = [
    "TABLE",
    "ExpressionError",
    "MissingValueError",
    "NodeView",
    "as_text",
    "bounded",
    "charge",
    "equal",
    "nearest",
    "type_name",
]

#: Characters that a text made by an expression may hold.
TEXT_LIMIT: Final = 100_000
#: Items and characters that one evaluation may visit.
STEP_LIMIT: Final = 1_000_000
#: Nesting to which two values are compared.
DEPTH_LIMIT: Final = 100
_SHOWN, _LISTED = 80, 8
_DIGITS = 20
_ROUND_LIMIT = 15
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NUMBERS = frozenset({int, float})

#: What is left of an evaluation's steps, in its one item.
Meter = list[int]


class ExpressionError(OrchestratorError):
    """Raised when an expression cannot be read, or cannot be evaluated on the data at hand.

    Attributes:
        message: what is wrong and what to write instead.
        text: the expression; empty until it is known.
        column: column in ``text``, counted from 1; None if the fault has no place.
    """

    def __init__(self, message: str, *, text: str = "", column: int | None = None) -> None:
        self.message, self.text, self.column = message, text, column
        place = f", column {column}" if column is not None else ""
        short = text if len(text) <= _SHOWN else f"{text[:77]}..."
        shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in short)
        super().__init__(f"{message} (in `{shown}`{place})" if text else message)


class MissingValueError(ExpressionError):
    """Raised when a name, key or position does not exist; ``exists`` and ``default`` look at this only."""


class NodeView:
    """One node as expressions see it: ``name.status``, ``name.artifacts``, everything else its value.

    ``name.text`` is the value's own field of this name if it has one; else the value as it stands in a text.
    ``name.failed`` of a ``for_each`` node is how many instances its list lacks.

    Attributes:
        name: the node. status: where it stands.
        artifacts: name -> path of what it left.
        failed: of a ``for_each`` node: instances that its list lacks; None for every other node.
    """

    __slots__ = ("_known", "_raw", "artifacts", "failed", "name", "status")

    def __init__(
        self,
        name: str,
        status: str,
        raw: bytes | msgspec.Raw | None = None,
        artifacts: Mapping[str, object] | None = None,
        failed: int | None = None,
    ) -> None:
        """Make a view; ``raw`` is the value as JSON, None while there is no value."""
        self.name, self.status, self.artifacts, self.failed = name, status, artifacts or {}, failed
        self._raw: bytes | msgspec.Raw | None = raw
        self._known: list[object] = []

    def value(self) -> object:
        """The node's value, decoded on first use.

        Raises:
            MissingValueError: the node has none; the message says where the node stands.
        """
        if not self._known:
            if self._raw is None:
                message = (
                    f"{self.name} has no value (it is {self.status}); "
                    f"ask with exists({self.name}) or default({self.name}, ...)"
                )
                raise MissingValueError(message)
            self._known.append(msgspec.json.decode(self._raw))
        return self._known[0]


def type_name(value: object) -> str:
    """The word for a value's type that messages use."""
    if isinstance(value, Mapping):
        return "a mapping"
    names = {
        str: "text",
        bool: "a bool",
        int: "a number",
        float: "a number",
        list: "a list",
        type(None): "null",
    }
    return names.get(type(value), type(value).__name__)


def charge(meter: Meter, steps: int) -> None:
    """Take ``steps`` from the evaluation's allowance, or raise ExpressionError."""
    meter[0] -= steps
    if meter[0] < 0:
        raise ExpressionError(f"the data is too large for an expression (over {STEP_LIMIT:,} steps)")


def bounded(value: object) -> object:
    """``value`` if it is a number within 64 bits, a finite float or a text of bounded length."""
    kind = type(value)
    if kind is int and not _INT_MIN <= value <= _INT_MAX:  # type: ignore[operator]
        raise ExpressionError("the number leaves the range of 64 bits")
    if kind is float and not math.isfinite(value):  # type: ignore[arg-type]
        raise ExpressionError("the number is not finite")
    if kind is str and len(value) > TEXT_LIMIT:  # type: ignore[arg-type]
        raise ExpressionError(f"the text is longer than {TEXT_LIMIT:,} characters")
    return value


def equal(left: object, right: object, meter: Meter, depth: int = 0) -> bool:
    """Equality of JSON values: unlike types differ, true is not 1, 1 is 1.0."""
    kind = type(left)
    if kind is not type(right):
        return kind in _NUMBERS and type(right) in _NUMBERS and left == right
    if kind in _SCALARS:
        return left == right
    if depth > DEPTH_LIMIT:
        raise ExpressionError(f"the data is nested deeper than {DEPTH_LIMIT} levels")
    if isinstance(left, list) and isinstance(right, list):
        charge(meter, len(left))
        return len(left) == len(right) and all(
            equal(one, other, meter, depth + 1) for one, other in zip(left, right, strict=True)
        )
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        charge(meter, len(left))
        return left.keys() == right.keys() and all(
            equal(left[key], right[key], meter, depth + 1) for key in left
        )
    return False


def nearest(word: object, known: Iterable[str]) -> str:
    """``; did you mean X?`` or ``; there is: a, b`` for an unknown word."""
    names = [str(name) for _, name in zip(range(200), known, strict=False)]
    close = difflib.get_close_matches(str(word), names, 1)
    if close:
        return f"; did you mean {close[0]}?"
    if not names:
        return "; it is empty"
    more = ", ..." if len(names) > _LISTED else ""
    return f"; there is: {', '.join(names[:_LISTED])}{more}"


def _text(name: str, value: object) -> str:
    if type(value) is not str:
        raise ExpressionError(f"{name} takes a text, not {type_name(value)}")
    return value


def _list(name: str, value: object, meter: Meter) -> list[object]:
    if type(value) is not list:
        raise ExpressionError(f"{name} takes a list, not {type_name(value)}")
    charge(meter, len(value))
    return value


def _number(name: str, value: object) -> int | float:
    if type(value) is int or type(value) is float:
        return value
    raise ExpressionError(f"{name} takes a number, not {type_name(value)}")


def _len(meter: Meter, value: object) -> object:
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise ExpressionError(f"len takes a text, a list or a mapping, not {type_name(value)}")


def _folded(name: str, fold: Callable[[str], str]) -> Callable[..., object]:
    def apply(meter: Meter, value: object) -> object:
        text = _text(name, value)
        charge(meter, len(text))
        return bounded(fold(text))

    return apply


def _affix(name: str, test: Callable[[str, str], bool]) -> Callable[..., object]:
    def apply(meter: Meter, value: object, part: object) -> object:
        return test(_text(name, value), _text(name, part))

    return apply


def _truths(name: str, verdict: bool) -> Callable[..., object]:
    """``any`` (verdict True) and ``all`` (verdict False): every item must be a bool, the rest included."""

    def apply(meter: Meter, value: object) -> object:
        items = _list(name, value, meter)
        for number, item in enumerate(items):
            if type(item) is not bool:
                raise ExpressionError(f"{name} takes a list of bools; item {number} is {type_name(item)}")
        return (verdict in items) is verdict

    return apply


def _count(meter: Meter, value: object, wanted: object) -> object:
    return sum(equal(item, wanted, meter) for item in _list("count", value, meter))


def _pluck(meter: Meter, value: object, field: object) -> object:
    key = _text("pluck", field)
    found = []
    for number, item in enumerate(_list("pluck", value, meter)):
        if not isinstance(item, Mapping):
            raise ExpressionError(f"pluck takes a list of mappings; item {number} is {type_name(item)}")
        if key not in item:
            raise ExpressionError(f"item {number} has no {key!r}{nearest(key, item)}")
        found.append(item[key])
    return found


def _alike(name: str, items: list[object]) -> list[object]:
    kinds = {"number" if type(item) in _NUMBERS else type(item).__name__ for item in items}
    if kinds - {"number", "str"} or len(kinds) > 1:
        raise ExpressionError(f"{name} takes numbers only or texts only")
    return items


def _extreme(name: str, choose: Callable[..., object]) -> Callable[..., object]:
    def apply(meter: Meter, *values: object) -> object:
        items = _list(name, values[0], meter) if len(values) == 1 else list(values)
        if not items:
            raise ExpressionError(f"{name} of an empty list; ask with len(...) > 0 first")
        return choose(_alike(name, items))

    return apply


def _sum(meter: Meter, value: object) -> object:
    total: int | float = 0
    for item in _list("sum", value, meter):
        total += _number("sum", item)
        bounded(total)
    return total


def _sorted(meter: Meter, value: object) -> object:
    items = _alike("sorted", _list("sorted", value, meter))
    return sorted(items)  # type: ignore[type-var]


def as_text(value: object) -> str:
    """A text as it is; everything else as compact JSON."""
    if type(value) is str:
        return value
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ExpressionError(f"{type_name(value)} cannot be written as JSON: {error}") from error


def _plain(value: object) -> object:
    if isinstance(value, NodeView):
        return value.value()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


def _int(meter: Meter, value: object) -> object:
    if type(value) is str:
        text = value.strip()
        if len(text) <= _DIGITS and text.isascii() and text.removeprefix("-").isdigit():
            return bounded(int(text))
        raise ExpressionError("int takes a number or a text of digits")
    return bounded(int(_number("int", value)))


def _float(meter: Meter, value: object) -> object:
    if type(value) is not str:
        return float(_number("float", value))
    try:
        return bounded(float(value[:64].replace("_", "x")))
    except ValueError as error:
        raise ExpressionError("float takes a number or the text of one") from error


def _round(meter: Meter, value: object, digits: object = 0) -> object:
    if type(digits) is not int or not 0 <= digits <= _ROUND_LIMIT:
        raise ExpressionError("round takes 0 to 15 digits")
    number = _number("round", value)
    return bounded(round(number, digits) if digits else round(number))


def _keys(meter: Meter, value: object) -> object:
    if not isinstance(value, Mapping):
        raise ExpressionError(f"keys takes a mapping, not {type_name(value)}")
    charge(meter, len(value))
    return list(value)


def _str(meter: Meter, value: object) -> object:
    return bounded(as_text(value))


def _abs(meter: Meter, value: object) -> object:
    return bounded(abs(_number("abs", value)))


#: name -> (function, fewest arguments, most arguments, type of the answer or None).
TABLE: Mapping[str, tuple[Callable[..., object], int, int, str | None]] = {
    "abs": (_abs, 1, 1, "number"),
    "all": (_truths("all", verdict=False), 1, 1, "bool"),
    "any": (_truths("any", verdict=True), 1, 1, "bool"),
    "count": (_count, 2, 2, "number"),
    "endswith": (_affix("endswith", str.endswith), 2, 2, "bool"),
    "float": (_float, 1, 1, "number"),
    "int": (_int, 1, 1, "number"),
    "keys": (_keys, 1, 1, "list"),
    "len": (_len, 1, 1, "number"),
    "lower": (_folded("lower", str.lower), 1, 1, "str"),
    "max": (_extreme("max", max), 1, 20, None),
    "min": (_extreme("min", min), 1, 20, None),
    "pluck": (_pluck, 2, 2, "list"),
    "round": (_round, 1, 2, "number"),
    "sorted": (_sorted, 1, 1, "list"),
    "startswith": (_affix("startswith", str.startswith), 2, 2, "bool"),
    "str": (_str, 1, 1, "str"),
    "strip": (_folded("strip", str.strip), 1, 1, "str"),
    "sum": (_sum, 1, 1, "number"),
    "upper": (_folded("upper", str.upper), 1, 1, "str"),
}
