"""The trio half of the test loops. Importing it needs trio; `loops` is the front door."""

# ruff: noqa: SLF001 - trio offers its deterministic scheduler to test tools only, under private names

import time
from collections.abc import Iterator
from math import inf
from typing import Any, Final, NoReturn

import trio
from trio._core import _run
from trio.abc import Instrument
from trio.testing import MockClock

from orchestrator.testing.deadlock import DeadlockError, threads_at_work, waiter

_POLL: Final = 0.001


def virtual_options(patience: float, outside_patience: float) -> dict[str, Any]:
    """Give trio's options for a virtual clock that notices deadlocks.

    Args:
        patience: real seconds of idleness before the clock jumps.
        outside_patience: real seconds to wait for threads and sockets when there is no timer.
    """
    clock = MockClock(autojump_threshold=patience)
    # The class is final, and the run loop calls this very method when everything is idle.
    clock._autojump = _Idle(clock, outside_patience)  # type: ignore[method-assign]
    return {"clock": clock}


def seeded_options(seed: int, outside_patience: float) -> dict[str, Any]:
    """Give trio's options for a virtual clock and a schedule drawn from the seed."""
    return virtual_options(0.0, outside_patience) | {"instruments": [_Seeded(seed)]}


class _Idle:
    """Jumps to the next timer; without one, wakes the main task with a `DeadlockError`."""

    def __init__(self, clock: MockClock, outside_patience: float) -> None:
        self._clock = clock
        self._outside_patience = outside_patience
        self._idle_since: float | None = None

    def __call__(self) -> None:
        statistics = trio.lowlevel.current_statistics()
        pause = statistics.seconds_to_next_deadline
        if pause < inf:
            self._idle_since = None
            if pause > 0:
                self._clock.jump(pause)
        elif not self._may_be_woken(statistics.io_statistics):
            self._idle_since = None
            _break_off()

    def _may_be_woken(self, io: Any) -> bool:
        waits = getattr(io, "tasks_waiting_read", 0) + getattr(io, "tasks_waiting_write", 0)
        # One task of trio's own waits for its wake-up socket.
        # trio's pooled threads look idle for a moment while they are not; its limiter knows better.
        at_work = trio.to_thread.current_default_thread_limiter().borrowed_tokens > 0
        if waits <= 1 and not at_work and not threads_at_work():
            # A thread leaves its message before it goes idle: look for it after looking at the threads.
            return trio.lowlevel.current_statistics().run_sync_soon_queue_size > 0
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since >= self._outside_patience:
            return False
        time.sleep(_POLL)
        return True


class _Seeded(Instrument):
    """Seeds the scheduler for the length of one run, as trio's own tests do, and puts it back."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._before: tuple[bool, Any] = (False, None)

    def before_run(self) -> None:
        self._before = (_run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate())
        _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
        _run._r.seed(self._seed)

    def after_run(self) -> None:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = self._before[0]  # type: ignore[misc]
        _run._r.setstate(self._before[1])


def _break_off() -> None:
    error = DeadlockError(sorted(waiter(task.name, task.coro) for task in _tasks()))

    def raise_deadlock() -> NoReturn:
        raise error

    main = _run.GLOBAL_RUN_CONTEXT.runner.main_task
    if main is None or main._abort_func is None:
        # It waits for something that cannot be interrupted: nothing but the crash of the loop is left.
        raise_deadlock()
    main._attempt_abort(raise_deadlock)


def _tasks() -> Iterator[trio.lowlevel.Task]:
    main = _run.GLOBAL_RUN_CONTEXT.runner.main_task
    pending = [] if main is None else [main]
    while pending:
        task = pending.pop()
        yield task
        for nursery in task.child_nurseries:
            pending.extend(nursery.child_tasks)
