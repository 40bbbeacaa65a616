"""What every fact is."""

from __future__ import annotations

from typing import ClassVar

import msgspec

__all__ = ["Fact", "Failure", "LeftArtifact"]


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why an attempt failed: the type's name, its text, the attempt. Never a live exception."""

    type: str
    message: str = ""
    attempt: int = 0
    traceback: str = ""


class LeftArtifact(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A file that a node left (kernel.md 6).

    Attributes:
        name: as it was declared. path: relative to the folder that the node worked in.
        place: where it can be read: its copy, or the file itself if it was too large to copy.
        sha256: of its content, in hex. size: bytes. kind: what it is, for readers.
        copied: ``place`` is a copy.
    """

    name: str
    path: str
    place: str
    sha256: str
    size: int = 0
    kind: str | None = None
    copied: bool = True


class Fact(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=True, omit_defaults=True):
    """Base of all facts."""

    #: fields that hold a position in the record's values
    positions: ClassVar[tuple[str, ...]] = ()
