"""Event loops for tests: virtual time, and schedules that are bad on purpose, by seed.

Under a virtual clock no timer is ever waited for: when no task is ready, the clock jumps to the next timer.
A seeded loop has a virtual clock too and runs what is ready in an order, and with delays, that it draws from
``random.Random(seed)``: each seed is one legal schedule, always the same one. On both a run that can never
go on raises `DeadlockError`, with the tasks that wait.

``run_virtual`` and ``run_seeded`` run one async function. For tests that anyio's pytest plugin runs::

    @pytest.fixture(params=VIRTUAL_BACKENDS.values(), ids=list(VIRTUAL_BACKENDS))
    def anyio_backend(request): return request.param

Threads and sockets live in real time. A loop with ``patience=0`` does not wait for them while it has timers:
give it some real seconds of patience if the test has both. With no timer left, a loop that threads or sockets
might still wake waits for `OUTSIDE_PATIENCE` real seconds before it calls that a deadlock.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from math import inf, ulp
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

import anyio

from orchestrator.testing.deadlock import DeadlockError, threads_at_work, waiter

_trio_loop: ModuleType | None
try:
    from orchestrator.testing import _trio_loop as _found

    _trio_loop = _found
except ImportError:  # pragma: no cover - trio is an optional dependency
    _trio_loop = None

T = TypeVar("T")
Args = TypeVarTuple("Args")

Backend: TypeAlias = Literal["asyncio", "trio"]

# Real seconds that a loop without timers waits for threads and sockets before it says "deadlock".
OUTSIDE_PATIENCE: Final = 5.0

# How often a step of the seeded loop holds some of the ready callbacks back.
_HOLD_BACK: Final = 0.5

# The share of lazy tasks where the seed makes some, and for how many turns of the loop they sleep at most.
_LAZY_TASKS: Final = 0.25
_LONGEST_NAP: Final = 32


def run_virtual(
    async_fn: Callable[[*Args], Awaitable[T]],
    *args: *Args,
    backend: Backend = "asyncio",
    patience: float = 0.0,
) -> T:
    """Run an async function under a virtual clock that starts at 0.

    Args:
        async_fn: what to run, with ``args``.
        args: its positional arguments.
        backend: the event loop's library.
        patience: real seconds to wait for threads and sockets before the clock jumps.

    Raises:
        DeadlockError: everything waits and nothing can wake it.
        ModuleNotFoundError: the backend is trio and trio is not installed.
    """
    return _run(async_fn, args, virtual_clock(backend, patience=patience))


def run_seeded(
    async_fn: Callable[[*Args], Awaitable[T]], *args: *Args, seed: int, backend: Backend = "asyncio"
) -> T:
    """Run an async function under a virtual clock, in the order of steps that the seed draws.

    On asyncio a step of a task may be run before or after any other ready callback, or held back for some
    turns of the loop; callbacks that are not steps of tasks keep their order among themselves, as asyncio
    promises it. On trio the library's own random scheduler is seeded: every ready task takes one step in each
    turn of the loop, in an order that the seed draws.

    Args:
        async_fn: what to run, with ``args``.
        args: its positional arguments.
        seed: the name of the schedule.
        backend: the event loop's library.

    Raises:
        DeadlockError: everything waits and nothing can wake it.
        ModuleNotFoundError: the backend is trio and trio is not installed.
    """
    return _run(async_fn, args, seeded_loop(seed, backend))


def virtual_clock(backend: Backend = "asyncio", *, patience: float = 0.0) -> tuple[str, dict[str, Any]]:
    """Give anyio's name and options of a backend under a fresh virtual clock.

    The pair is what anyio's pytest plugin takes as ``anyio_backend``.

    Args:
        backend: the event loop's library.
        patience: real seconds to wait for threads and sockets before the clock jumps.
    """
    if backend == "asyncio":
        return "asyncio", {"loop_factory": partial(VirtualLoop, patience)}
    return "trio", _trio().virtual_options(patience, OUTSIDE_PATIENCE)


def seeded_loop(seed: int, backend: Backend = "asyncio") -> tuple[str, dict[str, Any]]:
    """Give anyio's name and options of a backend under a virtual clock and a seeded schedule."""
    if backend == "asyncio":
        return "asyncio", {"loop_factory": partial(SeededLoop, seed)}
    return "trio", _trio().seeded_options(seed, OUTSIDE_PATIENCE)


def _trio() -> Any:
    if _trio_loop is None:  # pragma: no cover - trio is an optional dependency
        message = "this test asks for trio, which is not installed: pip install trio"
        raise ModuleNotFoundError(message)
    return _trio_loop


def _run(
    async_fn: Callable[[*Args], Awaitable[T]], args: tuple[*Args], backend: tuple[str, dict[str, Any]]
) -> T:
    name, options = backend
    try:
        return anyio.run(async_fn, *args, backend=name, backend_options=options)
    except BaseExceptionGroup as group:
        found = group
        while isinstance(found, BaseExceptionGroup):
            deadlocks = found.subgroup(DeadlockError)
            if deadlocks is None:
                raise
            found = deadlocks.exceptions[0]  # type: ignore[assignment]
        raise found from None


class _Jumping(selectors.DefaultSelector):
    """A selector that asks the loop to jump in time instead of waiting."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> "list[tuple[selectors.SelectorKey, int]]":
        if timeout is not None and timeout <= 0:
            return super().select(0)
        events = super().select(self.loop.patience)
        if events or self.loop.has_ready():
            return events
        if self.loop.jump():
            return events
        if len(self.get_map()) > 1 or threads_at_work():
            events = super().select(OUTSIDE_PATIENCE)
        if not events and not self.loop.has_ready():
            raise DeadlockError(self.loop.waiters())
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose clock starts at 0 and jumps to the next timer when nothing is ready.

    Args:
        patience: real seconds to wait for threads and sockets before the clock jumps.
    """

    _clock_resolution: float
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, patience: float = 0.0) -> None:
        """Make a loop at time 0."""
        self.patience = patience
        self._now = 0.0
        selector = _Jumping()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = ulp(0.0)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def has_ready(self) -> bool:
        """Whether a callback is ready to run; threads may add one at any moment."""
        return bool(self._ready)

    def jump(self) -> bool:
        """Set the clock to the next timer; tell whether there is one (that of ``sleep(inf)`` is none)."""
        if not self._scheduled or self._scheduled[0].when() == inf:
            return False
        self._now = max(self._now, self._scheduled[0].when())
        # A timer is due if it is earlier than now plus this: exactly at its time, not a nanosecond before.
        self._clock_resolution = ulp(self._now)
        return True

    def waiters(self) -> list[str]:
        """Describe the tasks that wait, in order of their names."""
        return sorted(waiter(task.get_name(), task.get_coro()) for task in asyncio.all_tasks(self))


class SeededLoop(VirtualLoop):
    """A virtual asyncio loop that reorders and delays the steps of tasks as its seed draws it.

    A task never has two steps ready, so any order of the steps is legal. All other callbacks stay in order.
    Every other seed also makes some tasks lazy: while anything else is ready, they are not run, for up to
    `_LONGEST_NAP` turns of the loop.

    Args:
        seed: the name of the schedule.
        patience: real seconds to wait for threads and sockets before the clock jumps.
    """

    def __init__(self, seed: int, patience: float = 0.0) -> None:
        """Make a loop at time 0."""
        super().__init__(patience)
        self._draw = random.Random(seed)  # noqa: S311 - a schedule is no secret
        self._laziness = self._draw.choice((0.0, _LAZY_TASKS))
        self._ages = count()
        self._tasks: WeakKeyDictionary[asyncio.Task[Any], tuple[int, bool]] = WeakKeyDictionary()
        self._nap = 0

    def _known(self, task: asyncio.Task[Any]) -> tuple[int, bool]:
        """A task's age and whether it is lazy, drawn when it is first seen."""
        if task not in self._tasks:
            self._tasks[task] = next(self._ages), self._draw.random() < self._laziness
        return self._tasks[task]

    def _run_once(self) -> None:
        held: list[asyncio.Handle] = []
        if len(self._ready) == 1:
            # One that was always alone so far gets its age now, not beside others in an order of addresses.
            task = getattr(self._ready[0]._callback, "__self__", None)  # type: ignore[attr-defined]  # noqa: SLF001
            if isinstance(task, asyncio.Task):
                self._known(task)
        if len(self._ready) > 1:
            # Threads append meanwhile: take what is there and no more.
            handles, held = self._drawn([self._ready.popleft() for _ in range(len(self._ready))])
            self._ready.extendleft(reversed(handles))
        super()._run_once()  # type: ignore[misc]
        self._ready.extendleft(reversed(held))

    def _drawn(self, handles: list[asyncio.Handle]) -> tuple[list[asyncio.Handle], list[asyncio.Handle]]:
        """Draw what runs in this turn, in which order, and what is held back."""
        awake, lazy, others = self._sorted(handles)
        held: list[asyncio.Handle] = []
        if lazy and (awake or others) and self._nap > 0:
            self._nap -= 1
            held = lazy
        else:
            self._nap = self._draw.randint(1, _LONGEST_NAP)
            awake += lazy
        self._draw.shuffle(awake)
        sources = [True] * len(awake) + [False] * len(others)
        self._draw.shuffle(sources)
        mixed = [awake.pop() if is_step else others.popleft() for is_step in sources]
        if self._draw.random() < _HOLD_BACK:
            cut = self._draw.randint(1, len(mixed))
            mixed, held = mixed[:cut], mixed[cut:] + held
        return mixed, held

    def _sorted(
        self, handles: list[asyncio.Handle]
    ) -> tuple[list[asyncio.Handle], list[asyncio.Handle], deque[asyncio.Handle]]:
        """Part the steps of tasks that are awake and lazy, by age of the task, from all other callbacks."""
        steps: list[tuple[int, bool, asyncio.Handle]] = []
        others: deque[asyncio.Handle] = deque()
        for handle in handles:
            task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]  # noqa: SLF001
            if not isinstance(task, asyncio.Task):
                others.append(handle)
                continue
            steps.append((*self._known(task), handle))
        # The order in which tasks became ready may hang on addresses: anyio cancels a set of tasks.
        steps.sort(key=lambda step: step[0])
        awake = [handle for _, lazy, handle in steps if not lazy]
        return awake, [handle for _, lazy, handle in steps if lazy], others


# What anyio's pytest plugin takes as `anyio_backend`, by name. The clock of the trio entry is shared by the
# tests that use it and goes on from one to the next; `virtual_clock` gives a fresh one.
VIRTUAL_BACKENDS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "asyncio": virtual_clock("asyncio"),
    **({} if _trio_loop is None else {"trio": virtual_clock("trio")}),
}
