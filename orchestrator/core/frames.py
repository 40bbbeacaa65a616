"""What carries a fact: time and values. A decision while it is made, a record when it is read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Frame"]


class Frame(Protocol):
    """The surroundings of a fact."""

    @property
    def at(self) -> int:
        """Nanoseconds of active time."""

    @property
    def values(self) -> Sequence[bytes]:
        """The JSON values to which facts refer by position."""
