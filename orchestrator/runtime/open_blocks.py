"""Finds the `with` blocks that a suspended coroutine is inside of, at any depth of its awaits."""

import gc
import types
from collections.abc import Callable
from functools import partial
from typing import Any, Final

_FRAMES: Final = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)


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
