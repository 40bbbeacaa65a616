"""Drives the coroutine of a role's body step by step, each step inside the node's own context.

A worker uses it like this::

    with CancelScope() as scope, CancelScope() as shutter:      # once per worker, not per attempt
        first = start(coro, context)                     # no await: most of a body that never suspends
        if isinstance(first, Suspended):
            outcome = await resume(first, scope=scope, grace=5.0, shutter=shutter)
        else:
            outcome = first

Neither function raises what the body raises: the outcome is a value, and a worker does this with it.

* `Returned`, `Raised`: settle the attempt. A cancellation may have arrived at the same instant or been
  swallowed once: whoever needs to know looks at ``scope.cancel_called`` (or at its own mark), never at
  the outcome alone.
* `Raised` with ``stray``: the body raised the event loop's cancellation although nobody cancelled it from
  outside (``asyncio.current_task().cancel()`` does that). It is a failure of the body. The host task may
  carry a request for cancellation of its own now, so the worker returns from its task, normally, and is
  replaced.
* `Cancelled`: ``scope``, or a scope around it, is cancelled, and stays so. Settle without an await, or in
  a shielded scope; then leave ``scope`` and return. Re-raising ``outcome.error`` is allowed and is never
  needed: both event loops keep their books when a scope is left, not when the exception passes.

What is delivered after a cancellation from outside:

1. The first cancellation goes straight into the body.
2. A body that neither ends nor shields itself is not interrupted again for 50 ms, then for 100 ms, and so
   on up to 1 s: a swallowed cancellation does not spin the loop, and a short clean-up may wait for
   something. A clean-up in a shielded scope or in the exit of a task group is not disturbed at all. Time
   is the event loop's monotonic clock, so virtual clocks work.
3. ``grace`` seconds after the first delivery `GraceOverError` is thrown into the body instead, what it waits
   for is given up, and the outcome is ``Cancelled(ignored=True)``. A body that survives even that is left
   behind suspended and never runs again. Whatever a body gives after its grace is not a result.

Cancellations that the body makes itself (``move_on_after`` and task groups inside it, ``asyncio.timeout``)
are not touched: they arrive when and as often as they would without us.

What cannot be freed, and keeps its worker for as long as it lasts:

* a body that shields itself for ever, or whose wait cannot be interrupted (a thread, on trio);
* a body that leaves a task group, of its own or of a library, whose tasks swallow the cancellation. The
  group's tasks do not run under this driver: they are not throttled either, nor is a task that the body
  made with ``asyncio.create_task`` and waits for;
* a body that swallows everything, `GraceOverError` included, inside an ``async with`` block. It is asked
  again once a second. (Of a body that is left inside ``with`` blocks, those are closed in its stead: a
  scope that stayed open would take the worker's place in the stack of scopes.)
* a body that never awaits: it stops the loop itself.

A body that waits inside a scope of its own that is cancelled hides a cancellation of the scopes around
``scope`` (and it would spin in any anyio program). Whoever notices that the host is being cancelled cancels
``scope`` as well: that is always seen.
"""

import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from math import inf
from typing import Any, Final, TypeAlias

import msgspec
from anyio import CancelScope, current_effective_deadline, current_time, get_cancelled_exc_class, sleep

from orchestrator.runtime.abandon import abandon, open_blocks
from orchestrator.runtime.raised import only_cancellation, trimmed

__all__ = [
    "Cancelled",
    "GraceOverError",
    "Outcome",
    "Raised",
    "Returned",
    "Suspended",
    "drive",
    "resume",
    "start",
]

# Seconds between two deliveries of the same cancellation: the first pause, doubled up to the longest.
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0

# A body may yield to the loop this often between two deliveries before it is slowed down to one step per
# _SLOW_STEP: anyio's own `checkpoint_if_cancelled` spins until the cancellation arrives.
_FREE_YIELDS: Final = 32
_SLOW_STEP: Final = 0.01

# How often a body is thrown out, in turns with `GraceOverError` and the cancellation, before it is left.
_EXPULSIONS: Final = 6


class GraceOverError(BaseException):
    """Thrown into a body that has outlived its grace: clean up without waiting, and end.

    GeneratorExit would not do: Python closes what the body awaits then, and what that wants from the loop
    while it is closed is lost.
    """


class Returned(msgspec.Struct, frozen=True, gc=False):
    """The body returned.

    Attributes:
        value: what it returned, as it is.
    """

    value: Any


class Raised(msgspec.Struct, frozen=True):
    """The body failed: with any BaseException, SystemExit, KeyboardInterrupt and GeneratorExit included.

    Attributes:
        error: the exception; its traceback begins at the body.
        stray: it is the event loop's cancellation, and nobody cancelled the body from outside. The worker
            must return from its task and be replaced.
    """

    error: BaseException
    stray: bool = False


class Cancelled(msgspec.Struct, frozen=True):
    """The body was cancelled from outside and ended, or outlived its grace.

    Attributes:
        ignored: the body went on for longer than the grace (fact CancelIgnored).
        error: what the body raised at its end: the event loop's cancellation if it obeyed, None if it was
            left or returned after its grace.
    """

    ignored: bool
    error: BaseException | None = None


class Suspended(msgspec.Struct, frozen=True):
    """A body that awaits something: hand it to `resume` before the task awaits anything else.

    Attributes:
        coro: the body.
        context: the node's context.
        trap: what the body wants from the event loop; private to the event loop.
    """

    coro: Coroutine[Any, Any, Any]
    context: Context
    trap: Any


Outcome: TypeAlias = Returned | Raised | Cancelled


def start(coro: Coroutine[Any, Any, Any], context: Context) -> Returned | Raised | Suspended:
    """Run a body to its end or to its first suspension, without an await of our own.

    Args:
        coro: a coroutine that has not started.
        context: the node's own copy; nobody else may be inside it.

    Returns:
        `Returned` or `Raised` if the body has ended, `Suspended` if it awaits something.
    """
    try:
        trap = context.run(coro.send, None)
    except StopIteration as stop:
        return Returned(stop.value)
    except BaseException as error:  # noqa: BLE001 - the outcome is a value
        return Raised(trimmed(error), only_cancellation(error))
    return Suspended(coro, context, trap)


async def drive(
    coro: Coroutine[Any, Any, Any],
    context: Context,
    *,
    scope: CancelScope,
    grace: float,
    shutter: CancelScope | None = None,
) -> Outcome:
    """Run a body to its end: `start`, then `resume` if it suspends.

    Args:
        coro: a coroutine that has not started.
        context: the node's own copy; nobody else may be inside it.
        scope: the scope that the caller cancels: the worker's, or one for this attempt.
        grace: seconds from the first delivery of a cancellation to giving the body up.
        shutter: a scope inside it, the innermost around this call, that nobody cancels; see `resume`.
    """
    first = start(coro, context)
    if isinstance(first, Suspended):
        return await resume(first, scope=scope, grace=grace, shutter=shutter)
    return first


@types.coroutine
def resume(
    suspended: Suspended, *, scope: CancelScope, grace: float, shutter: CancelScope | None = None
) -> Generator[Any, Any, Outcome]:
    """Run a suspended body to its end, or to the end of its grace.

    Args:
        suspended: what `start` returned in this very task.
        scope: the scope that the caller cancels: the worker's, or one for this attempt.
        grace: seconds from the first delivery of a cancellation to giving the body up; may be infinite.
        shutter: a scope inside it, the innermost around this call, that nobody cancels; ``scope`` if None.
            Its shield is up while the body waits between two deliveries. If it is another scope than
            the cancelled one, the body's own timeouts keep their time during a clean-up that is not
            shielded (trio's ``sleep`` is one); else they may be late, up to the next delivery.

    Returns:
        The outcome; nothing that the body raises comes out.
    """
    coro, context, trap = suspended.coro, suspended.context, suspended.trap
    shutter = shutter or scope
    step: Callable[[Any], Any]
    unclear = False
    while True:
        if unclear:
            # A scope of the body is cancelled, and hid whether one around it is; ask again without it.
            if _from_outside(scope, shutter):
                return (yield from _Farewell(coro, context, shutter, grace).run(trap))
            unclear = current_effective_deadline() == -inf
        step = coro.send
        try:
            argument = yield trap
        except GeneratorExit:
            context.run(coro.close)
            raise
        except BaseException as thrown:  # noqa: BLE001 - it belongs to the body
            step, argument = coro.throw, thrown
        if argument is not None and _is_cancellation(argument):
            if _from_outside(scope, shutter):
                farewell = _Farewell(coro, context, shutter, grace)
                farewell.advance(step, argument)
                return farewell.outcome or (yield from farewell.run(farewell.trap))
            unclear = True
        try:
            trap = context.run(step, argument)
        except StopIteration as stop:
            return Returned(stop.value)
        except BaseException as error:  # noqa: BLE001 - the outcome is a value
            return _failure(error)


class _Farewell:
    """The rest of a body's life, from the first cancellation that came from outside."""

    def __init__(
        self, coro: Coroutine[Any, Any, Any], context: Context, shutter: CancelScope, grace: float
    ) -> None:
        self.coro = coro
        self.context = context
        self.shutter = shutter
        self.shield_before = shutter.shield
        self.next_at = current_time() + FIRST_PAUSE
        self.pause = FIRST_PAUSE
        self.give_up = current_time() + grace
        self.expulsions = 0
        self.yields = 0
        self.trap: Any = None
        self.outcome: Outcome | None = None

    def run(self, trap: object) -> Generator[Any, Any, Outcome]:
        """Stay with the body, which has had its first cancellation, until it is over."""
        self.trap = trap
        while self.outcome is None:
            if current_effective_deadline() != -inf:
                # The body has shielded itself, and times itself.
                if current_time() >= self.give_up:
                    yield from self._slow_down()
                self.advance(*(yield from self._wait(None)))
            elif current_time() < self.give_up:
                yield from self._bear()
            else:
                yield from self._expel()
        return self.outcome

    def advance(self, step: Callable[[Any], Any], argument: object) -> None:
        """Let the body do one step."""
        try:
            self.trap = self.context.run(step, argument)
        except StopIteration as stop:
            self._end(Returned(stop.value))
        except BaseException as error:  # noqa: BLE001 - the outcome is a value
            self.shutter.shield = self.shield_before
            self._end(_failure(error))
        self.shutter.shield = self.shield_before

    def _end(self, outcome: Outcome) -> None:
        if self.expulsions or current_time() > self.give_up:
            error = None if isinstance(outcome, Returned) else outcome.error
            outcome = Cancelled(ignored=True, error=error)
        self.outcome = outcome

    def _wait(self, window: CancelScope | None) -> Generator[Any, Any, tuple[Callable[[Any], Any], Any]]:
        """Pass the body's trap to the loop, inside the window if there is one; give what came back.

        The window is open only while the body is suspended: it must not get between the body's own scopes.
        The shutter is lifted before the body's step, because its scopes must let our cancellation pass; it
        stays for one step if a scope of the body woke it: that scope must recognise its own cancellation.
        """
        if window is not None:
            self.shutter.shield = True
            # What is cancelled even so (a scope of the body, or the shutter itself) is kept off as well.
            window.shield = current_effective_deadline() == -inf
            window.__enter__()
        try:
            back = self.coro.send, (yield self.trap)
        except GeneratorExit:
            self.context.run(self.coro.close)
            raise
        except BaseException as thrown:  # noqa: BLE001 - it belongs to the body
            back = self.coro.throw, thrown
        if window is not None:
            window.__exit__(None, None, None)
            if window.cancel_called or not _is_cancellation(back[1]):
                self.shutter.shield = self.shield_before
        return back

    def _bear(self) -> Generator[Any, Any, None]:
        """Let the body wait for something until the next delivery is due, or its grace is over."""
        due = min(self.next_at, self.give_up)
        yield from self._slow_down()
        window = CancelScope(deadline=due)
        step, argument = yield from self._wait(window)
        if window.cancel_called and _is_cancellation(argument):
            self.yields = 0
            now = current_time()
            if now >= self.give_up:
                step, argument = self.coro.throw, GraceOverError()
                self.expulsions += 1
            else:
                self.pause = min(self.pause * 2, LONGEST_PAUSE)
                self.next_at = now + self.pause
        self.advance(step, argument)

    def _slow_down(self) -> Generator[Any, Any, None]:
        """Delay a body that only yields again and again; nobody else can wake it, so it may be late."""
        if self.trap is not None and not isinstance(self.trap, type):
            return
        self.yields += 1
        if self.yields > _FREE_YIELDS:
            with CancelScope(shield=True):  # noqa: ASYNC100 - it awaits, in generator form
                yield from sleep(_SLOW_STEP).__await__()

    def _expel(self) -> Generator[Any, Any, None]:
        """Give up what the body waits for and throw it out; leave it if it survives."""
        self.expulsions += 1
        stubborn = self.expulsions > _EXPULSIONS
        exits = open_blocks(self.coro) if stubborn else None
        due = current_time() + LONGEST_PAUSE if stubborn and exits is None else -inf
        step, argument = yield from self._wait(CancelScope(deadline=due))
        if exits is not None:
            abandon(self.coro, self.context, exits, GraceOverError())
            self._end(Cancelled(ignored=True))
            return
        if self.expulsions % 2 and _is_cancellation(argument):
            # In turns: an `__aexit__` on its way out needs the cancellation, not another exception.
            step, argument = self.coro.throw, GraceOverError()
        self.advance(step, argument)


def _is_cancellation(argument: object) -> bool:
    """Tell a cancellation in what the loop sends: thrown (asyncio) or boxed in an outcome (trio)."""
    error = argument if isinstance(argument, BaseException) else getattr(argument, "error", None)
    return error is not None and isinstance(error, get_cancelled_exc_class())


def _from_outside(scope: CancelScope, shutter: CancelScope) -> bool:
    """Tell a cancellation of the scope, or of one around it, from one that the body made itself."""
    if scope.cancel_called:
        return True
    if shutter.shield or current_effective_deadline() != -inf:
        return False
    shutter.shield = True
    try:
        return current_effective_deadline() != -inf
    finally:
        shutter.shield = False


def _failure(error: BaseException) -> Outcome:
    """Judge what a body raised, when its own scopes are gone and only those around it are left."""
    if not only_cancellation(error):
        return Raised(trimmed(error))
    if current_effective_deadline() == -inf:
        return Cancelled(ignored=False, error=trimmed(error))
    return Raised(trimmed(error), stray=True)
