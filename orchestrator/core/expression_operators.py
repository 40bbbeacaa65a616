"""What a compiled expression does when it runs: look-ups, comparisons, arithmetic."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from orchestrator.core.expression_values import (
    ExpressionError,
    Meter,
    MissingValueError,
    NodeView,
    as_text,
    bounded,
    charge,
    equal,
    nearest,
    type_name,
)

__all__ = [
    "ABSENT",
    "ARITHMETIC",
    "COMPARE",
    "Eval",
    "Scope",
    "ask",
    "computed",
    "look_up",
    "number",
    "present",
    "truth",
]

Scope = Mapping[str, object]
Eval = Callable[[Scope, Meter], object]
_NUMBERS = frozenset({int, float})
ABSENT: Final = object()


def look_up(root: str, steps: tuple[str | int | Eval, ...], column: int) -> Eval:
    """The closure of a look-up. The common case costs one dict access a step."""

    def evaluate(scope: Scope, meter: Meter) -> object:
        if root not in scope:
            raise MissingValueError(f"there is no {root!r}{nearest(root, scope)}", column=column)
        value = scope[root]
        for position, step in enumerate(steps):
            key = step(scope, meter) if callable(step) else step
            if type(value) is dict and type(key) is str and key in value:
                value = value[key]
            else:
                value = _step(value, key, partial(_trail, root, steps[:position]), column)
        return value.value() if type(value) is NodeView else value

    return evaluate


def _trail(root: str, steps: tuple[str | int | Eval, ...]) -> str:
    """The look-up so far, as it was written."""
    parts = (".{}" if type(step) is str else "[...]" if callable(step) else "[{}]" for step in steps)
    return root + "".join(part.format(step) for part, step in zip(parts, steps, strict=True))


def _step(value: object, key: object, trail: Callable[[], str], column: int) -> object:
    if isinstance(value, NodeView):
        if key == "status":
            return value.status
        if key == "artifacts":
            return value.artifacts
        if key == "failed" and value.failed is not None:
            return value.failed
        value = value.value()
        if key == "text" and not (isinstance(value, Mapping) and key in value):
            return as_text(value)
    if isinstance(value, Mapping) and type(key) is str:
        if key in value:
            return value[key]
        raise MissingValueError(f"{trail()} has no {key!r}{nearest(key, value)}", column=column)
    if isinstance(value, list) and type(key) is int:
        if -len(value) <= key < len(value):
            return value[key]
        raise MissingValueError(f"{trail()} has {len(value)} items, none at {key}", column=column)
    if value is None:
        raise MissingValueError(f"{trail()} is null and has no {key!r}", column=column)
    what = "keys" if type(key) is str else "positions"
    raise ExpressionError(
        f"{trail()} is {type_name(value)}, which has no {what} such as {key!r}", column=column
    )


def present(index: Eval, scope: Scope, meter: Meter) -> object:
    """A computed index; what is missing inside it is not what ``exists`` asks about."""
    try:
        return index(scope, meter)
    except MissingValueError as error:
        raise ExpressionError(error.message, column=error.column) from None


def ask(path: Eval, scope: Scope, meter: Meter) -> object:
    """The value of a look-up, or ABSENT."""
    try:
        return path(scope, meter)
    except MissingValueError:
        return ABSENT


def truth(value: object, word: str) -> bool:
    """``value`` if it is a bool; nothing else counts as true or false."""
    if value is True or value is False:
        return value
    raise ExpressionError(f"{word!r} takes true or false, not {type_name(value)}; write a comparison")


def number(value: object, sign: str) -> float:
    """``value`` if it is a number; a bool is none."""
    if type(value) is int or type(value) is float:
        return value
    raise ExpressionError(f"{sign!r} takes numbers, not {type_name(value)}")


def computed(apply: Callable[[Any, Any], float], sign: str, left: float, right: float) -> object:
    """The result of one arithmetic operator, within bounds."""
    try:
        return bounded(apply(left, right))
    except ZeroDivisionError:
        raise ExpressionError(f"division by zero in {sign!r}") from None
    except OverflowError:
        raise ExpressionError(f"the result of {sign!r} is too large") from None


def _ordered(sign: str, test: Callable[[Any, Any], bool]) -> Callable[[object, object, Meter], bool]:
    def compare(left: object, right: object, meter: Meter) -> bool:
        one, two = type(left), type(right)
        if (one in _NUMBERS and two in _NUMBERS) or (one is str and two is str):
            return test(left, right)
        message = f"{sign!r} orders two numbers or two texts, not {type_name(left)} and {type_name(right)}"
        raise ExpressionError(message)

    return compare


def _contains(left: object, right: object, meter: Meter) -> bool:
    if isinstance(right, list):
        charge(meter, len(right))
        return any(equal(left, item, meter) for item in right)
    if type(left) is not str:
        raise ExpressionError(f"'in' looks for a text in {type_name(right)}, not for {type_name(left)}")
    if isinstance(right, Mapping):
        return left in right
    if type(right) is str:
        charge(meter, len(right))
        return left in right
    raise ExpressionError(f"'in' looks into a list, a mapping or a text, not into {type_name(right)}")


def _unequal(left: object, right: object, meter: Meter) -> bool:
    return not equal(left, right, meter)


def _lacks(left: object, right: object, meter: Meter) -> bool:
    return not _contains(left, right, meter)


COMPARE: Final[Mapping[type, Callable[[object, object, Meter], bool]]] = {
    ast.Eq: equal,
    ast.NotEq: _unequal,
    ast.Lt: _ordered("<", operator.lt),
    ast.LtE: _ordered("<=", operator.le),
    ast.Gt: _ordered(">", operator.gt),
    ast.GtE: _ordered(">=", operator.ge),
    ast.In: _contains,
    ast.NotIn: _lacks,
}
ARITHMETIC: Final[Mapping[type, tuple[str, Callable[[Any, Any], float]]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
