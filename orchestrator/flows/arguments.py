"""Arguments of a flow: texts from a command line, or values from code, by the document's types."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from orchestrator.core.encoding import decoded
from orchestrator.core.expressions import ExpressionError
from orchestrator.core.spec import Budget
from orchestrator.core.templates import render_json
from orchestrator.errors import OperationError
from orchestrator.flows.document import ArgSpec, BudgetSpec
from orchestrator.flows.durations import seconds
from orchestrator.flows.json_values import json_value
from orchestrator.flows.names import suggestion

__all__ = ["ArgumentError", "bind_arguments", "bind_budget"]

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_LIMIT: Final = 10_000_000


class ArgumentError(Exception):
    """Raised with one line about the argument that does not fit; ``Flow.bind`` adds the document."""


def bind_arguments(specs: Mapping[str, ArgSpec], given: Mapping[str, object]) -> dict[str, object]:
    """Values of every argument that has one, as JSON data.

    Raises:
        ArgumentError: an argument is unknown, missing or of the wrong type.
    """
    for name in given:
        if name not in specs:
            raise ArgumentError(f"there is no argument {name!r}{suggestion(name, specs)}")
    values: dict[str, object] = {}
    missing = [name for name, spec in specs.items() if spec.required and name not in given]
    if missing:
        helps = "; ".join(f"{name} ({specs[name].help or specs[name].type})" for name in missing)
        raise ArgumentError(f"required and not given: {helps}; write --arg {missing[0]}=...")
    for name, spec in specs.items():
        if name in given:
            values[name] = _value(name, spec, given[name])
        elif "default" in spec.model_fields_set:
            values[name] = None if spec.default is None else _value(name, spec, spec.default)
    return values


def _value(name: str, spec: ArgSpec, given: object) -> object:
    try:
        value = _READERS[spec.type](given)
    except (ValueError, OperationError) as error:
        raise ArgumentError(f"argument {name}: {error}") from error
    if spec.enum is not None and value not in spec.enum:
        raise ArgumentError(f"argument {name} is {value!r}; write one of {', '.join(spec.enum)}")
    return value


def _str(given: object) -> str:
    if isinstance(given, str):
        return given
    raise ValueError(f"{given!r} is not a text")


def _int(given: object) -> int:
    if type(given) is int:
        return int(json_value(given, "it"))  # type: ignore[call-overload, no-any-return]
    if isinstance(given, str) and _WHOLE.fullmatch(given.strip()):
        return int(json_value(int(given), "it"))  # type: ignore[call-overload, no-any-return]
    raise ValueError(f"{given!r} is not a whole number")


def _float(given: object) -> float:
    try:
        found = float(given) if type(given) in (int, float, str) else math.nan  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found) or "_" in str(given):
        raise ValueError(f"{given!r} is not a number")
    return found


def _bool(given: object) -> bool:
    if isinstance(given, bool):
        return given
    if given in ("true", "false"):
        return given == "true"
    raise ValueError(f"{given!r} is not true or false")


def _path(given: object) -> str:
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(f"{given!r} is not a path")
    return text


def _any(given: object) -> object:
    """JSON data from code; a text from a command line that is JSON is read as JSON."""
    if isinstance(given, str):
        try:
            found: object = decoded(given)
        except ValueError:
            return given
        return found
    return json_value(given, "it")


_READERS: Final[Mapping[str, Callable[[object], object]]] = {
    "str": _str,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "path": _path,
    "any": _any,
}


def bind_budget(spec: BudgetSpec, args: Mapping[str, object], assignees: tuple[str, ...]) -> Budget:
    """The budget with ``${args.NAME}`` replaced; what the document does not state has its default.

    Args:
        spec: the document's budget.
        args: bound arguments.
        assignees: roles that may be spawned where the document does not say.

    Raises:
        ArgumentError: an argument is not the number that the budget needs.
    """
    stated: dict[str, Any] = {"assignees": assignees}
    for name, value in spec.model_dump(exclude_none=True).items():
        try:
            found = render_json(value, {"args": args})
        except ExpressionError as error:
            raise ArgumentError(f"budget.{name}: {error}") from error
        stated[name] = _amount(name, found)
    return Budget(**stated)


def _amount(name: str, found: object) -> object:
    if name == "assignees":
        return tuple(map(str, found)) if isinstance(found, list) else ()
    if name == "wall_clock":
        try:
            return seconds(found)
        except ValueError as error:
            raise ArgumentError(f"budget.{name}: {error}") from error
    if name == "cost_usd":
        if type(found) in (int, float) and found >= 0:  # type: ignore[operator]
            return float(found)  # type: ignore[arg-type]
        raise ArgumentError(f"budget.{name} is {found!r}; write a number of dollars, at least 0")
    least = 1 if name == "concurrency" else 0
    if type(found) is not int or not least <= found <= _LIMIT:
        raise ArgumentError(f"budget.{name} is {found!r}; write a whole number from {least} to {_LIMIT:,}")
    return found
