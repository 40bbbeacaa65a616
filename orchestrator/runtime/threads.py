"""Threads of our own for plain roles and taps: daemons, so that none keeps a process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

from anyio import Event, from_thread
from anyio.lowlevel import EventLoopToken, current_token

__all__ = ["call_on_loop", "run_in_thread", "say_on_loop"]

T = TypeVar("T")


async def run_in_thread(fn: Callable[[], T], context: Context) -> T:
    """Run ``fn`` in ``context`` on a thread; a cancelled caller leaves it behind at once."""
    done = Event()
    token = current_token()
    outcome: list[tuple[bool, Any]] = []

    def call() -> None:
        try:
            outcome.append((True, context.run(fn)))
        except BaseException as error:  # noqa: BLE001 (it is raised again in the caller)
            outcome.append((False, error))
        say_on_loop(token, done.set)

    threading.Thread(target=call, name="callboard role", daemon=True).start()
    await done.wait()
    good, value = outcome[0]
    if good:
        return value  # type: ignore[no-any-return]
    raise value


def call_on_loop(token: EventLoopToken, fn: Callable[..., T], *args: Any) -> T:  # noqa: ANN401
    """Call ``fn`` on the loop's thread and return what it gives."""
    try:
        here = current_token()
    except Exception:  # noqa: BLE001 (no loop in this thread)
        here = None
    if here == token:
        return fn(*args)
    return from_thread.run_sync(fn, *args, token=token)


def say_on_loop(token: EventLoopToken, fn: Callable[[], object]) -> None:
    """Call ``fn`` on the loop's thread; a loop that is gone hears nothing."""
    try:
        from_thread.run_sync(fn, token=token)
    except RuntimeError:
        return
