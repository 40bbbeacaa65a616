"""Waits for names: it has a value when every one of them was written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from orchestrator.supersteps.channels.base import EMPTY, Channel
from orchestrator.supersteps.errors import InvalidUpdateError

__all__ = ["NamedBarrier"]


class NamedBarrier(Channel):
    """The names that have arrived, in the order in which they are declared.

    Joins of a graph need none: ``add_edge([a, b], c)`` waits by itself. It is for barriers over other things.
    """

    kind = "barrier"

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.initial = []

    def fold(self, value: Any, writes: Sequence[Any]) -> Any:
        """The names that have arrived by now."""
        seen = set([] if value is EMPTY else value)
        for write in writes:
            if write not in self.names:
                raise InvalidUpdateError(f"{write!r} is none of {', '.join(self.names)}")
            seen.add(write)
        return [name for name in self.names if name in seen]
