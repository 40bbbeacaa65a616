"""Leaves a suspended coroutine behind for good, with the `with` blocks closed that it is inside of."""

import gc
import threading
import types
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, Final

_FRAMES: Final = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)

_left: list[Coroutine[Any, Any, Any]] = []


def abandon(
    coro: Coroutine[Any, Any, Any],
    context: Context,
    exits: list[Callable[..., object]],
    reason: BaseException,
) -> None:
    """Leave a coroutine suspended for ever and close, in its stead, the blocks that it is inside of.

    A cancel scope that stayed open (trio's `sleep` has one) would take the place of its host's own.

    Args:
        coro: what it waits for has been given up: nobody will try to wake it.
        context: the context that it ran in.
        exits: what `open_blocks` found.
        reason: the exception that the blocks are closed with.
    """
    for close in reversed(exits):
        with suppress(BaseException):
            context.run(close, type(reason), reason, None)
    if not _left:
        threading.Thread(target=_keep, args=(_left,), name="callboard idle keeper", daemon=True).start()
    _left.append(coro)


def _keep(left: list[Coroutine[Any, Any, Any]]) -> None:
    """Hold on to what was left, beyond the end of the interpreter.

    Dropping the last reference would run a body's code once more, at any moment and on any thread. A daemon
    thread's frame is never unwound.
    """
    threading.Event().wait()
    left.clear()  # pragma: no cover - never


def open_blocks(coro: object) -> list[Callable[..., object]] | None:
    """The exit methods of the `with` blocks that a suspended coroutine is inside of, outermost first.

    An open block keeps its exit method on its frame's stack, where only the collector's view shows it.

    Returns:
        None if one of the blocks is an `async with`: such an exit waits.
    """
    exits: list[Callable[..., object]] = []
    frame: object | None = coro
    while frame is not None:
        if _attribute(frame, "code").co_name == "__aexit__":
            return None
        held = gc.get_referents(frame)
        for index, block in enumerate(held):
            name = getattr(block, "__name__", None)
            if name == "__aexit__":
                return None
            if name == "__exit__":
                # Up to 3.13 the stack holds a bound method, later a function followed by its object.
                bound = hasattr(block, "__self__")
                exits.append(block if bound else partial(block, held[index + 1]))
        frame = _awaited(frame)
    return exits


def _awaited(frame: object) -> object | None:
    """The coroutine or generator that this one waits for, if it is one."""
    inner = _attribute(frame, "await", "yieldfrom")
    if inner is None or isinstance(inner, _FRAMES):
        return inner
    return next((held for held in gc.get_referents(inner) if isinstance(held, _FRAMES)), None)


def _attribute(frame: object, *names: str) -> Any:
    candidates = (f"{prefix}_{name}" for prefix in ("cr", "gi", "ag") for name in names)
    return next((getattr(frame, name) for name in candidates if hasattr(frame, name)), None)
