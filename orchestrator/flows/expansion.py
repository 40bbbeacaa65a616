"""The four ways in which the nodes of an expansion order each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pydantic

from orchestrator.core.encoding import fields_of
from orchestrator.errors import OperationError
from orchestrator.flows.json_values import json_object, json_value

__all__ = ["ExpansionStrategy", "Step", "arrange", "item_parameters"]


class ExpansionStrategy(Enum):
    """How the nodes made from a list of items depend on each other; all depend on the source."""

    #: Not at all.
    CONCURRENT = "concurrent"
    #: Each on the one before.
    SEQUENTIAL = "sequential"
    #: Chunks one after the other; the items of a chunk at once.
    SEQUENTIAL_CONCURRENT_CHUNK = "sequential_concurrent_chunk"
    #: Chunks at once; the items of a chunk one after the other.
    CONCURRENT_SEQUENTIAL_CHUNK = "concurrent_sequential_chunk"


@dataclass(frozen=True, slots=True)
class Step:
    """One item's place: indexes of the items before it, and of the one whose messages it continues."""

    after: tuple[int, ...]
    inherits: int | None


def arrange(count: int, strategy: object, chunk: int, *, chained: bool) -> list[Step]:
    """Places of ``count`` items.

    Raises:
        OperationError: ``strategy`` is none of the four, ``chunk`` is no size, or messages are to be
            chained where nothing orders the items.
    """
    if not isinstance(strategy, ExpansionStrategy):
        shown = ", ".join(f"ExpansionStrategy.{one.name}" for one in ExpansionStrategy)
        raise OperationError(f"strategy is {strategy!r}; write one of {shown}")
    if type(chunk) is not int or chunk < 1:
        raise OperationError(f"chunk_size is {chunk!r}; write 1 or more")
    if strategy is ExpansionStrategy.CONCURRENT:
        if chained:
            raise OperationError("chain_context needs an order; take another strategy than CONCURRENT")
        return [Step((), None)] * count
    if strategy is ExpansionStrategy.SEQUENTIAL_CONCURRENT_CHUNK:
        return [_after_chunk(index, chunk) for index in range(count)]
    size = count if strategy is ExpansionStrategy.SEQUENTIAL else chunk
    return [Step((), None) if index % size == 0 else Step((index - 1,), index - 1) for index in range(count)]


def _after_chunk(index: int, chunk: int) -> Step:
    start = index - index % chunk
    if start == 0:
        return Step((), None)
    return Step(tuple(range(start - chunk, start)), index - chunk)


def item_parameters(item: object, number: int, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``add_operation`` for one item: ``shared``, with the item's data in its parameters."""
    where = f"item {number}"
    arguments = dict(shared)
    own = arguments.pop("parameters", None)
    parameters = json_object(own if own is not None else {}, "parameters")
    if isinstance(item, pydantic.BaseModel) or fields_of(item) is not None:
        fields = json_object(item, where)
        instruction = fields.get("instruction")
        if "instruction" not in arguments and isinstance(instruction, str):
            arguments["instruction"] = fields.pop("instruction")
        for name in fields:
            arguments.pop(name, None) if name not in _ARGUMENTS else None
        parameters.update(fields)
    else:
        parameters.update(item=json_value(item, where), item_index=number)
    arguments["parameters"] = parameters
    return arguments


_ARGUMENTS = frozenset(
    {"role", "gate", "when", "needs", "returns", "retry", "timeout", "fresh", "uses", "branch", "instruction"}
)
