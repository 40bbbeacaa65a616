"""How a test loop knows, and says, that it has nothing left to do while its main task still waits."""

import asyncio
import threading
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import anyio

# Frames of these packages say how a task waits, not where; the frame above them does.
_LIBRARIES: Final = (
    str(Path(asyncio.__file__).parent),
    *(str(Path(anyio.__file__).parent.parent / name) for name in ("anyio", "trio")),
)

# Names of pooled threads while they have nothing to do: trio's and our own.
_IDLE: Final = ("Trio thread", "callboard idle")


class DeadlockError(RuntimeError):
    """Nothing is ready, no timer is set, and the run has not ended: it would have waited for ever.

    Attributes:
        waiters: one line for each task that waits: its name and where it waits.
    """

    def __init__(self, waiters: Iterable[str]) -> None:
        """Say who waits where."""
        self.waiters = tuple(waiters)
        lines = "".join(f"\n  {waiter}" for waiter in self.waiters)
        super().__init__(
            "deadlock: no task is ready, no timer is set and nothing outside the loop can wake it."
            f" Find what should have woken one of these tasks:{lines}"
        )


def threads_at_work() -> bool:
    """Whether another thread might wake the loop: one that is neither this one nor known to be idle."""
    here = threading.current_thread()
    return any(thread is not here and not thread.name.startswith(_IDLE) for thread in threading.enumerate())


def waiter(name: str, coro: object) -> str:
    """Name a suspended task and the line at which it waits, outside the async libraries if there is one."""
    frames: list[types.FrameType] = []
    inner: object | None = coro
    while inner is not None:
        frame = _frame(inner)
        frames += [] if frame is None else [frame]
        inner = _awaited(inner)
    if not frames:
        return name
    ours = [frame for frame in frames if not frame.f_code.co_filename.startswith(_LIBRARIES)]
    frame = (ours or frames)[-1]
    place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    return f"{name}: waits in {frame.f_code.co_qualname} ({place})"


def _frame(coro: object) -> types.FrameType | None:
    frame: Any = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
    return frame if isinstance(frame, types.FrameType) else None


def _awaited(coro: object) -> object | None:
    inner: object | None = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
    return inner
