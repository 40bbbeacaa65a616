"""Looks at what a body raised without running any code of its class: that could raise in its turn."""

from __future__ import annotations

from typing import Any, Final, cast

from anyio import get_cancelled_exc_class

__all__ = ["only_cancellation", "trimmed"]

#: The slot itself: a class may put a property of its own before it.
_TRACEBACK: Final[Any] = BaseException.__dict__["__traceback__"]


def only_cancellation(error: BaseException) -> bool:
    """True if it is the event loop's cancellation, or a group of nothing else."""
    # not isinstance: that would ask the exception itself what it is
    kind = type(error)
    if issubclass(kind, Exception):
        return False
    cancellation = get_cancelled_exc_class()
    if issubclass(kind, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return BaseExceptionGroup.split(group, cancellation)[1] is None
    return issubclass(kind, cancellation)


def trimmed(error: BaseException) -> BaseException:
    """Drop our own frame from the traceback: it would keep the body's frames alive in a cycle."""
    trace = _TRACEBACK.__get__(error)
    if trace is not None and trace.tb_next is not None:
        BaseException.with_traceback(error, trace.tb_next)
    return error
