"""What every channel is. ``fold`` is the one function that live runs, previews and tests use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from orchestrator.core.supersteps.writes import behind
from orchestrator.runtime.values import encode, settle
from orchestrator.supersteps.errors import InvalidUpdateError

__all__ = ["EMPTY", "Channel", "Folded", "Pending", "change"]


class _Empty:
    """The value of a channel that nobody has written."""

    def __repr__(self) -> str:
        return "EMPTY"


EMPTY: Final = _Empty()


class Pending(NamedTuple):
    """One write that is to be folded: whose it is, its JSON, and whether it is an Overwrite."""

    task: str
    raw: bytes
    overwrite: bool = False


class Folded(NamedTuple):
    """What a fold comes to.

    Attributes:
        raw: the new JSON, or None for an empty channel; with ``append`` what goes behind the present one.
        task: whose write it is, unchanged; empty if it is nobody's.
    """

    raw: bytes | None
    append: bool = False
    task: str = ""


class Channel:
    """One state key.

    Attributes:
        kind: its name in plans and pages.
        tracked: it is recorded; else it lives in this process only.
        volatile: a boundary at which nobody writes to it empties it.
        initial: what is read before anybody has written; EMPTY raises instead.
    """

    kind: ClassVar[str] = "channel"
    tracked: bool = True
    volatile: bool = False
    initial: Any = EMPTY

    def fold(self, value: Any, writes: Sequence[Any]) -> Any:
        """The value after ``writes``, in their order.

        Args:
            value: the present one, or EMPTY. It may be changed: it is nobody else's.

        Raises:
            InvalidUpdateError: they do not fit.
        """
        raise NotImplementedError

    def patch(self, key: str, raw: bytes | None, writes: Sequence[Pending]) -> Folded:
        """``fold`` over JSON: what is to be recorded of the change.

        Raises:
            InvalidUpdateError: they do not fit; names the key and the tasks.
        """
        overwrites = [write for write in writes if write.overwrite]
        if len(overwrites) > 1:
            raise InvalidUpdateError(
                f"at key {key!r}: {len(overwrites)} Overwrites in one step", _tasks(overwrites)
            )
        if overwrites:
            return Folded(overwrites[0].raw, task=overwrites[0].task)
        value = self.present(raw)
        for write in writes:
            value = self._one(key, value, write)
        return change(raw, encode(settle(value, f"state.{key}")[2], f"state.{key}"))

    def _one(self, key: str, value: Any, write: Pending) -> Any:
        try:
            return self.fold(value, [msgspec.json.decode(write.raw)])
        except InvalidUpdateError as error:
            raise InvalidUpdateError(f"at key {key!r}: {error}", (write.task,)) from None
        except Exception as error:
            message = f"at key {key!r}: the reducer raised {type(error).__name__}: {error}"
            raise InvalidUpdateError(message, (write.task,)) from error

    def present(self, raw: bytes | None) -> Any:
        """The value of some JSON; of none, what the channel begins with."""
        return self.initial_value() if raw is None else msgspec.json.decode(raw)

    def initial_value(self) -> Any:
        """A fresh copy of ``initial``."""
        return (
            self.initial if self.initial is EMPTY else msgspec.json.decode(msgspec.json.encode(self.initial))
        )


def _tasks(writes: Sequence[Pending]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(write.task for write in writes))


def change(before: bytes | None, after: bytes) -> Folded:
    """``after`` as what goes behind ``before``, where it does: storage grows with what was written."""
    if before is None or len(after) <= len(before) or before[:1] not in {b"[", b'"'}:
        return Folded(after)
    head = before[:-1]
    if len(head) > 1 and after.startswith(head):
        rest = after[len(head) :]
        if before[:1] == b'"' and not head.endswith(b"\\"):
            more = b'"' + rest
        elif before[:1] == b"[" and rest[:1] == b",":
            more = b"[" + rest[1:]
        else:
            return Folded(after)
        if behind(before, more) == after and _sound(more):
            return Folded(more, append=True)
    return Folded(after)


def _sound(raw: bytes) -> bool:
    """True for whole JSON: a number or a text that was cut is none."""
    try:
        msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return False
    return True
