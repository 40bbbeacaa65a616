"""The test loops: virtual time, seeded schedules, deadlocks."""

import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest
from anyio.lowlevel import checkpoint

from orchestrator.testing.deadlock import DeadlockError
from orchestrator.testing.loops import VIRTUAL_BACKENDS, Backend, run_seeded, run_virtual, virtual_clock

BACKENDS: list[Backend] = ["asyncio", "trio"]
both = pytest.mark.parametrize("backend", BACKENDS)


async def racers() -> tuple[int, ...]:
    """Four tasks of three steps each; the order of the steps is the schedule."""
    steps: list[int] = []

    async def racer(number: int) -> None:
        for _ in range(3):
            steps.append(number)
            await checkpoint()

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(racer, number)
    return tuple(steps)


async def cancelled_racers() -> tuple[int, ...]:
    """Cancelled together, from a set of tasks in anyio: still the seed alone makes the order."""
    ended: list[int] = []

    async def racer(number: int) -> None:
        try:
            await anyio.sleep(60)
        finally:
            ended.append(number)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(racer, number)
        await anyio.sleep(1)
        group.cancel_scope.cancel()
    return tuple(ended)


@both
def test_no_timer_is_waited_for(backend: Backend) -> None:
    """A year of sleep passes at once, and the clock says so."""

    async def year() -> float:
        with anyio.move_on_after(3600 * 24 * 365):
            await anyio.sleep_forever()
        return anyio.current_time()

    begun = time.monotonic()
    assert run_virtual(year, backend=backend) == 3600 * 24 * 365
    assert time.monotonic() - begun < 5


@both
def test_timers_fire_in_order_of_time(backend: Backend) -> None:
    """The clock stops at each timer on its way."""

    async def main() -> list[float]:
        woken: list[float] = []

        async def sleeper(pause: float) -> None:
            await anyio.sleep(pause)
            woken.append(anyio.current_time())

        async with anyio.create_task_group() as group:
            for pause in (3.0, 1.0, 2.0):
                group.start_soon(sleeper, pause)
        return woken

    assert run_virtual(main, backend=backend) == [1.0, 2.0, 3.0]


@both
@pytest.mark.parametrize("main", [racers, cancelled_racers])
def test_one_seed_is_one_schedule(main: Callable[[], Awaitable[object]], backend: Backend) -> None:
    """The same seed twice: the same interleaving. Other seeds: many others."""
    first = [run_seeded(main, seed=seed, backend=backend) for seed in range(40)]
    litter = [object() for _ in range(1000)]
    second = [run_seeded(main, seed=seed, backend=backend) for seed in range(40)]
    assert first == second
    assert litter
    assert len(set(first)) > 30


@both
def test_one_seed_is_one_schedule_in_another_process(backend: Backend) -> None:
    """Neither addresses nor the hash seed are part of the schedule (law 9)."""
    script = (
        "import anyio\n"
        "from orchestrator.testing.loops import run_seeded\n"
        "async def main():\n"
        "    ended = []\n"
        "    async def racer(number):\n"
        "        try: await anyio.sleep(60)\n"
        "        finally: ended.append(number)\n"
        "    async with anyio.create_task_group() as group:\n"
        "        for number in range(8): group.start_soon(racer, number)\n"
        "        await anyio.sleep(1)\n"
        "        group.cancel_scope.cancel()\n"
        "    return tuple(ended)\n"
        f"print([run_seeded(main, seed=seed, backend={backend!r}) for seed in range(10)])\n"
    )
    here = [run_seeded(cancelled_racers, seed=seed, backend=backend) for seed in range(10)]
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(here)


@both
def test_a_seeded_schedule_reaches_what_a_fair_one_does_not(backend: Backend) -> None:
    """A lost update that needs an unusual order is found within a few seeds."""

    late = 4 if backend == "asyncio" else 1

    async def main() -> int:
        value = 0

        async def add(pauses: int) -> None:
            nonlocal value
            for _ in range(pauses):
                await checkpoint()
            read = value
            await checkpoint()
            value = read + 1

        async with anyio.create_task_group() as group:
            group.start_soon(add, 0)
            group.start_soon(add, late)
        return value

    assert {run_seeded(main, seed=seed, backend=backend) for seed in range(200)} == {1, 2}


@both
def test_the_order_of_plain_callbacks_is_kept(backend: Backend) -> None:
    """Items of a stream arrive in the order in which they were sent, under any seed."""

    async def main() -> list[int]:
        send, receive = anyio.create_memory_object_stream[int](3)
        got: list[int] = []

        async def reader() -> None:
            async with receive:
                got.extend([item async for item in receive])

        async with anyio.create_task_group() as group:
            group.start_soon(reader)
            async with send:
                for item in range(20):
                    await send.send(item)
        return got

    for seed in range(100):
        assert run_seeded(main, seed=seed, backend=backend) == list(range(20))


@both
@pytest.mark.parametrize("seeded", [False, True])
def test_a_deadlock_is_an_error_that_names_the_waiters(backend: Backend, *, seeded: bool) -> None:
    """Nothing ready and no timer: DeadlockError, also out of a task group, not a hang."""

    async def never(event: anyio.Event) -> None:
        await event.wait()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(never, anyio.Event(), name="the lonely one")
            group.start_soon(anyio.sleep_forever)

    run = partial(run_seeded, seed=1) if seeded else run_virtual
    with pytest.raises(DeadlockError, match=r"the lonely one: waits in .*never \(test_loops.py") as caught:
        run(main, backend=backend)
    assert len(caught.value.waiters) == 3


@both
def test_a_deadlock_in_the_main_task(backend: Backend) -> None:
    """The error is raised where the main task waits; its clean-up runs."""
    cleaned: list[bool] = []

    async def main() -> None:
        try:
            await anyio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(DeadlockError):
        run_virtual(main, backend=backend)
    assert cleaned == [True]


@both
def test_threads_are_waited_for_when_no_timer_is_left(backend: Backend) -> None:
    """A thread that will wake the loop is no deadlock."""

    async def main() -> str:
        return await anyio.to_thread.run_sync(slow)

    def slow() -> str:
        time.sleep(0.02)
        return "done"

    assert run_virtual(main, backend=backend) == "done"


@both
def test_patience_lets_a_thread_win_over_a_timer(backend: Backend) -> None:
    """With some real seconds of patience the clock does not jump while a thread works."""
    gate = threading.Event()

    async def main() -> bool:
        with anyio.move_on_after(1.0) as scope:
            await anyio.to_thread.run_sync(gate.wait)
        return scope.cancelled_caught

    threading.Timer(0.02, gate.set).start()
    assert run_virtual(main, backend=backend, patience=2.0) is False


@both
def test_errors_come_through(backend: Backend) -> None:
    """What the function raises is raised."""

    async def main() -> None:
        await checkpoint()
        message = "no"
        raise ValueError(message)

    with pytest.raises(ValueError, match="no"):
        run_virtual(main, backend=backend)
    with pytest.raises(ValueError, match="no"):
        run_seeded(main, seed=3, backend=backend)


@both
def test_a_loop_is_cheap(backend: Backend) -> None:
    """12 scenarios x 500 seeds must be affordable: to begin and end one costs what an ordinary loop costs."""

    async def main() -> None:
        await checkpoint()

    def cost(run: Callable[[], object]) -> float:
        def once() -> float:
            begun = time.process_time()
            for _ in range(20):
                run()
            return time.process_time() - begun

        return min(once() for _ in range(5))

    seeded = cost(lambda: run_seeded(main, seed=1, backend=backend))
    assert seeded < 10 * cost(lambda: anyio.run(main, backend=backend))


def test_trio_is_left_as_it_was() -> None:
    """The scheduler's random state and switch are put back after a seeded run."""
    from trio._core import _run

    before = _run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate()
    run_seeded(racers, seed=5, backend="trio")
    assert before == (_run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r.getstate())


class TestUnderThePlugin:
    """anyio's pytest plugin runs tests under the virtual clock."""

    @pytest.fixture(params=list(VIRTUAL_BACKENDS))
    def anyio_backend(self, request: pytest.FixtureRequest) -> object:
        """A fresh clock for each test."""
        return virtual_clock(request.param)

    async def test_a_day_passes(self) -> None:
        """A long sleep costs nothing."""
        begun = anyio.current_time()
        await anyio.sleep(86_400)
        assert anyio.current_time() == begun + 86_400

    async def test_a_deadlock_fails_the_test(self) -> None:
        """The error is raised where the test waits."""
        if anyio.get_cancelled_exc_class().__module__.startswith("trio"):
            with pytest.raises(DeadlockError):
                await anyio.Event().wait()


class TestSharedOptions:
    """The ready-made parameters."""

    @pytest.fixture(params=VIRTUAL_BACKENDS.values(), ids=list(VIRTUAL_BACKENDS))
    def anyio_backend(self, request: pytest.FixtureRequest) -> object:
        """One clock for all."""
        return request.param

    @pytest.mark.parametrize("turn", [1, 2])
    async def test_they_serve_more_than_once(self, turn: int) -> None:
        """The same options work for one test after another."""
        await anyio.sleep(3600 * turn)
