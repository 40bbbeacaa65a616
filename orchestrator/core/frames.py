"""What carries a fact: time and values. A decision while it is made, a record when it is read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

__all__ = ["Frame", "Recorded"]


class Frame(Protocol):
    """The surroundings of a fact."""

    @property
    def at(self) -> int:
        """Nanoseconds of active time."""

    @property
    def values(self) -> Sequence[bytes]:
        """The JSON values to which facts refer by position."""


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """The surroundings of the facts of a record."""

    at: int
    values: Sequence[bytes]
