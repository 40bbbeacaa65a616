"""What was published in a step, as a list; accumulating, in every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.supersteps.channels.base import EMPTY, Channel, Folded, Pending

__all__ = ["Topic"]


class Topic(Channel):
    """A list of what was published; a list that is published is taken apart once.

    Attributes:
        accumulate: what earlier steps published stays; else a step's list is seen in the next step only.
    """

    kind = "topic"

    def __init__(self, *, accumulate: bool = False) -> None:
        self.accumulate = accumulate
        self.volatile = not accumulate
        self.initial = []

    def fold(self, value: Any, writes: Sequence[Any]) -> Any:
        """The published items in order, behind what there is."""
        items = [] if value is EMPTY else list(value)
        for write in writes:
            items += write if isinstance(write, list) else [write]
        return items

    def patch(self, key: str, raw: bytes | None, writes: Sequence[Pending]) -> Folded:
        """A list that does not accumulate begins anew with every step that publishes."""
        return super().patch(key, raw if self.accumulate else None, writes)
