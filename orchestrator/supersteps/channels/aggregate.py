"""A reducer folds each write into the value: ``reducer(value, write)``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from orchestrator.core.supersteps.writes import behind
from orchestrator.supersteps.channels.base import EMPTY, Channel, Folded, Pending

__all__ = ["BinaryOperatorAggregate"]


class BinaryOperatorAggregate(Channel):
    """Folds with a function of two values.

    Attributes:
        reducer: ``fn(value, write) -> value``, pure. initial: what the first write is folded into.
    """

    kind = "aggregate"

    def __init__(self, reducer: Callable[[Any, Any], Any], initial: Any = EMPTY) -> None:
        self.reducer = reducer
        self.initial = initial

    def fold(self, value: Any, writes: Sequence[Any]) -> Any:
        """Each write in its order; the first is the value where nothing was before."""
        for write in writes:
            value = write if value is EMPTY else self.reducer(value, write)
        return value

    def patch(self, key: str, raw: bytes | None, writes: Sequence[Pending]) -> Folded:
        """Lists and texts that are added up go one behind the other, without being read."""
        if self.reducer is operator.add and not any(write.overwrite for write in writes):
            first = raw if raw is not None else (b"[]" if self.initial == [] else b'""')
            kinds = {write.raw[:1] for write in writes} | {first[:1]}
            if kinds in ({b"["}, {b'"'}) and (raw is not None or self.initial in ([], "")):
                if len(writes) == 1:
                    return Folded(writes[0].raw, append=raw is not None, task=writes[0].task)
                more = writes[0].raw
                for write in writes[1:]:
                    more = behind(more, write.raw)
                return Folded(more, append=raw is not None)
        return super().patch(key, raw, writes)
