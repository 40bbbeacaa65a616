"""What every fact is."""

from __future__ import annotations

from typing import ClassVar

import msgspec

__all__ = ["Fact", "Failure"]


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why an attempt failed: the type's name, its text, the attempt. Never a live exception."""

    type: str
    message: str = ""
    attempt: int = 0
    traceback: str = ""


class Fact(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=True, omit_defaults=True):
    """Base of all facts."""

    #: fields that hold a position in the record's values
    positions: ClassVar[tuple[str, ...]] = ()
