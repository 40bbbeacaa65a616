"""Threads of our own for plain roles and taps: daemons, so that none keeps a process alive.

anyio's worker threads are waited for at the end of the process; a plain function that never returns would
hold it for ever. Here a cancelled caller leaves the thread behind at once; the end of the process does too.

A thread cannot be stopped. One that was left behind runs on until its function returns; its context and its
calls to the loop go on working, what they mean then is for the callee to judge (`turn.emit_sync` refuses).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from anyio import Event, from_thread
from anyio.lowlevel import EventLoopToken, current_token

from orchestrator.errors import OrchestratorError
from orchestrator.runtime.drive import Raised, Returned

__all__ = ["LoopGoneError", "call_on_loop", "loop_token", "run_in_thread", "say_on_loop"]

T = TypeVar("T")

# Real seconds that a thread without work waits for some before it ends.
_IDLE_SECONDS: Final = 10.0

_lock = threading.Lock()
_idle: list[_Thread] = []

# The thread of each loop that asked for a token: anyio does not always know that a callback runs on a loop.
_threads_of_loops: WeakKeyDictionary[object, int] = WeakKeyDictionary()


class LoopGoneError(OrchestratorError, RuntimeError):
    """Raised in a thread whose event loop has ended: there is no run left to speak to."""


async def run_in_thread(
    fn: Callable[[], T],
    context: Context,
    *,
    late: Callable[[Returned | Raised], object] | None = None,
) -> T:
    """Run a plain function on a thread of ours and wait for it.

    A cancelled caller stops waiting at once and leaves the thread behind. If the loop ends first, whatever
    the function gives is dropped without a word.

    Args:
        fn: the function; it may call back with `call_on_loop`.
        context: the context it runs in; nobody else may be inside it: give each call its own copy.
        late: told the outcome on the loop's thread if the caller was cancelled and the loop still runs; must
            not raise.

    Returns:
        What the function returns.

    Raises:
        BaseException: whatever the function raises, SystemExit and KeyboardInterrupt included.
    """
    call = _Call(fn, context, loop_token(), late)
    _submit(call)
    try:
        await call.settled.wait()
    except BaseException:
        call.abandon()
        raise
    outcome, call.outcome = call.outcome, None
    if isinstance(outcome, Returned):
        value: T = outcome.value
        return value
    if outcome is None:  # pragma: no cover - the event is set after the outcome
        message = "a thread ended without an outcome; this is a defect of callboard"
        raise RuntimeError(message)
    try:
        raise outcome.error
    finally:
        del outcome


def loop_token() -> EventLoopToken:
    """Give the running loop's token, for `call_on_loop`; remembers which thread the loop runs on."""
    token = current_token()
    _threads_of_loops[token.native_token] = threading.get_ident()
    return token


def call_on_loop(token: EventLoopToken, fn: Callable[..., T], *args: Any) -> T:
    """Call a plain function on the loop's thread, from any thread, and wait for what it gives.

    On the loop's own thread it is called directly.

    Args:
        token: the loop's, best from `loop_token`.
        fn: what to call, with ``args``; it must not block.
        args: its positional arguments.

    Raises:
        LoopGoneError: the loop has ended.
        BaseException: whatever the function raises, cancellations included.
    """
    if _is_here(token):
        return fn(*args)
    outcome = _carry(token, fn, args)
    if isinstance(outcome, Returned):
        value: T = outcome.value
        return value
    try:
        raise outcome.error
    finally:
        del outcome


def say_on_loop(token: EventLoopToken, fn: Callable[[], object]) -> None:
    """Call ``fn`` on the loop's thread from another one; a loop that is gone hears nothing."""
    try:
        call_on_loop(token, fn)
    except LoopGoneError:
        return


class _Call:
    """One function on its way through a thread. Everything but ``run`` happens on the loop's thread."""

    __slots__ = ("_abandoned", "_context", "_fn", "_late", "_token", "outcome", "settled")

    def __init__(
        self,
        fn: Callable[[], Any],
        context: Context,
        token: EventLoopToken,
        late: Callable[[Returned | Raised], object] | None,
    ) -> None:
        self._fn = fn
        self._context = context
        self._token = token
        self._late = late
        self._abandoned = False
        self.settled = Event()
        self.outcome: Returned | Raised | None = None

    def run(self) -> None:
        """Run the function and hand its outcome over."""
        _forget_async_library(self._context)
        outcome = _outcome(self._context.run, (self._fn,))
        try:
            _carry(self._token, self._deliver, (outcome,))
        except LoopGoneError:
            return

    def abandon(self) -> None:
        """Nobody waits any more."""
        self._abandoned = True
        if self.outcome is not None:
            self._tell_late(self.outcome)

    def _deliver(self, outcome: Returned | Raised) -> None:
        if self._abandoned:
            self._tell_late(outcome)
        else:
            self.outcome = outcome
            self.settled.set()

    def _tell_late(self, outcome: Returned | Raised) -> None:
        if self._late is not None:
            self._late(outcome)


class _Thread:
    """A pooled daemon thread: it takes one call after another, and ends when none comes for a while."""

    __slots__ = ("calls", "thread")

    def __init__(self) -> None:
        self.calls: SimpleQueue[_Call] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            del call
            with _lock:
                # The test loops tell a deadlock from a wait for a thread by this name.
                self.thread.name = "callboard idle"
                _idle.append(self)

    def _next(self) -> _Call | None:
        try:
            return self.calls.get(timeout=_IDLE_SECONDS)
        except Empty:
            with _lock:
                if self in _idle:
                    _idle.remove(self)
                    return None
        # Somebody has picked this thread a moment ago: the call is on its way.
        return self.calls.get()


def _submit(call: _Call) -> None:
    with _lock:
        thread = _idle.pop() if _idle else _Thread()
        thread.thread.name = "callboard role"
    thread.calls.put(call)


def _is_here(token: EventLoopToken) -> bool:
    native = token.native_token
    try:
        return current_token().native_token is native
    except Exception:  # noqa: BLE001 - no loop in this thread, in the words of whichever library looked
        running = getattr(native, "is_running", None)
        return running is not None and running() and _threads_of_loops.get(native) == threading.get_ident()


def _carry(token: EventLoopToken, fn: Callable[..., Any], args: tuple[Any, ...]) -> Returned | Raised:
    """Call on the loop's thread and wait; what the function raises must not meet the loop's own handling."""
    box: list[Returned | Raised] = []

    def carried() -> None:
        box.append(_outcome(fn, args))

    try:
        from_thread.run_sync(carried, token=token)
    except RuntimeError as gone:
        message = "the event loop of this run has ended; nothing can be sent to it from this thread"
        raise LoopGoneError(message) from gone
    return box[0]


def _outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> Returned | Raised:
    try:
        return Returned(fn(*args))
    except BaseException as error:  # noqa: BLE001 - the outcome is a value
        trace = error.__traceback__
        return Raised(error.with_traceback(trace and trace.tb_next))


def _forget_async_library(context: Context) -> None:
    """Let code in the thread see that no event loop runs there; the copied context says one does."""
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, None)


def _forget_threads() -> None:
    _idle.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads, and must not inherit the lock in the middle of something.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget_threads)
