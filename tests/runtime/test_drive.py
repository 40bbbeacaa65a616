"""`drive`: bodies step by step in their own context, cancelled with patience and an end to it.

CANCEL 43, 44, 50, HANG 39, TIME 102, STATE 91, bad-inputs 12 and 13. All under virtual clocks.
"""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import Any

import anyio
import pytest
from anyio import CancelScope, current_time, get_cancelled_exc_class, sleep, sleep_forever
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from orchestrator.runtime.drive import (
    Cancelled,
    GraceOverError,
    Outcome,
    Raised,
    Returned,
    Suspended,
    drive,
    resume,
    start,
)
from orchestrator.testing.loops import VIRTUAL_BACKENDS, Backend, run_seeded, virtual_clock

pytestmark = pytest.mark.anyio

Body = Callable[[], Coroutine[Any, Any, Any]]
GRACE = 1.0
WHERE = ContextVar("WHERE", default="outside")


@pytest.fixture(params=list(VIRTUAL_BACKENDS))
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Both backends, no timer waited for."""
    return virtual_clock(request.param)


@pytest.fixture(params=[True, False], ids=["shutter", "scope only"])
def shuttered(request: pytest.FixtureRequest) -> bool:
    """With a scope that nobody cancels inside the worker's, and without."""
    return bool(request.param)


class Worker:
    """A worker as the engine has it: one scope, one attempt; it ends when it was cancelled."""

    def __init__(self, body: Body, *, grace: float = GRACE, shuttered: bool = True) -> None:
        self.body = body
        self.grace = grace
        self.shuttered = shuttered
        self.scope = CancelScope()
        self.outcome: Outcome | None = None
        self.ended_at = 0.0

    async def __call__(self) -> None:
        with self.scope, CancelScope() as inner:
            self.outcome = await drive(
                self.body(),
                copy_context(),
                scope=self.scope,
                grace=self.grace,
                shutter=inner if self.shuttered else None,
            )
            self.ended_at = current_time()


async def cancelled(
    body: Body, *, after: float = 10.0, shuttered: bool = True, grace: float = GRACE
) -> Worker:
    """Run a body, cancel its worker, and check that the task group is none the worse for it."""
    worker = Worker(body, shuttered=shuttered, grace=grace)
    begun = current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(worker)
        await sleep(after)
        worker.scope.cancel()
        worker.ended_at = -1.0
    worker.ended_at = current_time() - begun - after
    assert not group.cancel_scope.cancel_called
    await checkpoint()
    return worker


class TestUncancelled:
    """Bodies that nobody cancels."""

    async def test_a_body_that_never_suspends_needs_no_await(self) -> None:
        """`start` alone runs it to its end."""

        async def body() -> int:
            return 7

        assert start(body(), copy_context()) == Returned(7)

    async def test_suspensions_pass_through(self) -> None:
        """Timers, events and results of the loop reach the body as if it were awaited."""
        event = anyio.Event()

        async def body() -> tuple[float, str]:
            begun = current_time()
            await sleep(2)
            async with anyio.create_task_group() as group:
                group.start_soon(sleep, 3)
            await event.wait()
            return current_time() - begun, "done"

        async with anyio.create_task_group() as group:
            worker = Worker(body)
            group.start_soon(worker)
            await sleep(20)
            event.set()
        assert worker.outcome == Returned((20.0, "done"))

    @pytest.mark.parametrize(
        "error",
        [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopAsyncIteration()],
        ids=lambda error: type(error).__name__,
    )
    @pytest.mark.parametrize("late", [False, True])
    async def test_every_error_is_an_outcome(self, error: BaseException, *, late: bool) -> None:
        """bad-inputs 12: the role raises, raises BaseException, calls sys.exit."""

        async def body() -> None:
            if late:
                await sleep(1)
            raise error

        with CancelScope() as scope:
            outcome = await drive(body(), copy_context(), scope=scope, grace=GRACE)
        assert outcome == Raised(error)
        assert error.__traceback__ is not None
        assert error.__traceback__.tb_frame.f_code.co_name == "body"

    async def test_each_body_has_a_context_of_its_own(self) -> None:
        """STATE 91: what a body sets it keeps over its suspensions, and nobody else sees it."""
        seen: list[str] = []

        def body(name: str) -> Body:
            async def run() -> None:
                WHERE.set(name)
                await sleep(1)
                seen.append(WHERE.get())
                async with anyio.create_task_group() as group:
                    group.start_soon(child)

            return run

        async def child() -> None:
            seen.append(WHERE.get())

        async with anyio.create_task_group() as group:
            group.start_soon(Worker(body("a")))
            group.start_soon(Worker(body("b")))
        assert sorted(seen) == ["a", "a", "b", "b"]
        assert WHERE.get() == "outside"

    async def test_own_timeouts_are_exact_and_unlimited(self) -> None:
        """A body that polls with `move_on_after(0)` a thousand times is neither slowed nor given up."""

        async def body() -> float:
            begun = current_time()
            for _ in range(1000):
                with anyio.move_on_after(0):
                    await sleep(5)
            with anyio.move_on_after(7):
                await sleep_forever()
            return current_time() - begun

        worker = Worker(body, grace=0.1)
        await worker()
        assert worker.outcome == Returned(7.0)

    async def test_a_cancellation_of_its_own_making_is_a_failure(self) -> None:
        """HANG 39: a cancellation that nobody ordered fails the body; the worker must be replaced."""

        async def body() -> None:
            caught: BaseException | None = None
            with CancelScope() as inner:
                inner.cancel()
                try:
                    await checkpoint()
                except get_cancelled_exc_class() as error:
                    caught = error
                    raise
            await sleep(1)
            assert caught is not None
            raise caught

        worker = Worker(body)
        await worker()
        assert isinstance(worker.outcome, Raised)
        assert worker.outcome.stray
        assert isinstance(worker.outcome.error, get_cancelled_exc_class())
        await checkpoint()

    async def test_a_closed_driver_closes_the_body(self) -> None:
        """A driver that is thrown away lets the body clean up."""
        closed: list[bool] = []

        async def body() -> None:
            try:
                await sleep(1)
            finally:
                closed.append(True)

        with CancelScope() as scope:
            first = start(body(), copy_context())
            assert isinstance(first, Suspended)
            steps = drive_on(first, scope)
            steps.send(None)
            steps.close()
            await checkpoint()
        assert closed == [True]


async def drive_on(suspended: Suspended, scope: CancelScope) -> Outcome:
    """`resume` as a coroutine."""
    return await resume(suspended, scope=scope, grace=GRACE)


class TestObedient:
    """Bodies that end when they are told to; none of their clean-ups is broken."""

    async def test_the_first_cancellation_is_delivered_at_once(self, *, shuttered: bool) -> None:
        """CANCEL 44: and no timer is left behind."""
        worker = await cancelled(sleep_forever, shuttered=shuttered)
        assert isinstance(worker.outcome, Cancelled)
        assert not worker.outcome.ignored
        assert isinstance(worker.outcome.error, get_cancelled_exc_class())
        assert worker.ended_at == 0

    async def test_cancelled_from_further_outside(self, *, shuttered: bool) -> None:
        """The scope around the worker's scope counts as outside as well."""
        worker = Worker(sleep_forever, shuttered=shuttered)
        with anyio.move_on_after(3) as host:
            await worker()
        assert host.cancelled_caught or worker.outcome is not None
        assert isinstance(worker.outcome, Cancelled)
        assert not worker.outcome.ignored

    async def test_the_worker_may_raise_the_cancellation_again(self, *, shuttered: bool) -> None:
        """Returning and re-raising leave the scopes in the same state."""

        async def work(scope: CancelScope) -> None:
            with scope, CancelScope() as inner:
                shutter = inner if shuttered else None
                first = start(sleep_forever(), copy_context())
                assert isinstance(first, Suspended)
                outcome = await resume(first, scope=scope, grace=GRACE, shutter=shutter)
                assert isinstance(outcome, Cancelled)
                assert outcome.error is not None
                raise outcome.error
            await checkpoint()
            done.append(scope.cancelled_caught)

        done: list[bool] = []
        scope = CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(work, scope)
            await sleep(1)
            scope.cancel()
        assert done == [True]

    async def test_clean_up_that_waits(self) -> None:
        """A `finally` that waits for a moment is given the moment, without a shield."""
        cleaned: list[float] = []

        async def body() -> None:
            try:
                await sleep_forever()
            finally:
                await sleep(0.03)
                cleaned.append(current_time())

        worker = await cancelled(body)
        assert len(cleaned) == 1
        assert isinstance(worker.outcome, Cancelled)
        assert not worker.outcome.ignored
        assert worker.ended_at == pytest.approx(0.03)

    async def test_shielded_clean_up(self, *, shuttered: bool) -> None:
        """A shielded clean-up with a timeout of its own runs undisturbed and on time."""
        log: list[str] = []

        async def body() -> None:
            try:
                await sleep_forever()
            finally:
                with anyio.move_on_after(0.7, shield=True) as own:
                    await sleep(0.4)
                    log.append("first half")
                    await sleep_forever()
                log.append("timed out" if own.cancelled_caught else "?")

        worker = await cancelled(body, shuttered=shuttered)
        assert log == ["first half", "timed out"]
        assert isinstance(worker.outcome, Cancelled)
        assert not worker.outcome.ignored
        assert worker.ended_at == pytest.approx(0.7)

    async def test_task_group_whose_children_need_a_moment(self, *, shuttered: bool) -> None:
        """The exit of a task group waits for its children and lets the cancellation through."""
        log: list[str] = []

        async def child() -> None:
            try:
                await sleep_forever()
            finally:
                with CancelScope(shield=True):
                    await sleep(0.6)
                    log.append("child")

        async def body() -> None:
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(child)
                    group.start_soon(child)
                    await sleep_forever()
            finally:
                log.append("body")

        worker = await cancelled(body, shuttered=shuttered)
        assert log == ["child", "child", "body"]
        assert isinstance(worker.outcome, Cancelled)
        assert not worker.outcome.ignored
        assert worker.ended_at == pytest.approx(0.6)

    async def test_a_body_cancelled_in_the_exit_of_its_task_group(self, *, shuttered: bool) -> None:
        """The body already waits for its children when the cancellation arrives."""

        async def body() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(sleep_forever)

        worker = await cancelled(body, shuttered=shuttered)
        assert isinstance(worker.outcome, Cancelled)
        assert worker.ended_at == pytest.approx(0)

    async def test_an_error_during_clean_up_is_the_outcome(self, *, shuttered: bool) -> None:
        """The worker sees the error and decides; it knows that it cancelled (CANCEL 49, TIME 102)."""

        async def body() -> None:
            try:
                await sleep_forever()
            finally:
                message = "clean-up"
                raise ValueError(message)

        worker = await cancelled(body, shuttered=shuttered)
        assert isinstance(worker.outcome, Raised)
        assert not worker.outcome.stray
        assert worker.scope.cancel_called

    async def test_a_result_at_the_moment_of_the_cancellation(self, *, shuttered: bool) -> None:
        """CANCEL 43: the awaited work completes as the cancellation arrives; the scope remembers."""

        async def body() -> str:
            with suppress(get_cancelled_exc_class()):
                await sleep_forever()
            return "finished anyway"

        worker = await cancelled(body, shuttered=shuttered)
        assert worker.outcome == Returned("finished anyway")
        assert worker.scope.cancel_called


async def swallow_cancellations(log: list[float], pause: Callable[[], Awaitable[object]]) -> None:
    """Never ends by a cancellation."""
    while True:
        try:
            await pause()
        except get_cancelled_exc_class():
            log.append(current_time())


async def swallow_everything(log: list[float], pause: Callable[[], Awaitable[object]]) -> None:
    """Never ends at all."""
    while True:
        try:
            await pause()
        except BaseException:
            log.append(current_time())


@contextmanager
def nested() -> Any:
    """A `with` block of a library with a scope inside."""
    with anyio.fail_after(3600):
        yield


class TestIgnorant:
    """CANCEL 50, bad-inputs 13: bodies that do not want to end."""

    async def test_deliveries_are_rare_and_the_grace_ends_them(self, *, shuttered: bool) -> None:
        """At 0, 50, 150, 350 and 750 ms; then the body is closed."""
        log: list[float] = []
        worker = await cancelled(lambda: swallow_cancellations(log, sleep_forever), shuttered=shuttered)
        assert isinstance(worker.outcome, Cancelled)
        assert worker.outcome.ignored
        assert [round(moment - log[0], 3) for moment in log] == [0, 0.05, 0.15, 0.35, 0.75]
        assert worker.ended_at == pytest.approx(GRACE)

    async def test_the_pause_grows_to_a_second(self, *, shuttered: bool) -> None:
        """A long grace costs one delivery a second."""
        log: list[float] = []
        body = lambda: swallow_cancellations(log, sleep_forever)
        worker = await cancelled(body, shuttered=shuttered, grace=20)
        assert 20 < len(log) < 30
        assert worker.ended_at == pytest.approx(20)

    @pytest.mark.parametrize("swallow", [swallow_cancellations, swallow_everything])
    @pytest.mark.parametrize(
        "pause",
        [
            lambda: sleep(3600),
            lambda: sleep(0.3),
            lambda: anyio.Event().wait(),
            checkpoint,
            checkpoint_if_cancelled,
        ],
        ids=["sleep long", "sleep short", "event", "checkpoint", "if cancelled"],
    )
    async def test_whatever_it_waits_for(
        self,
        swallow: Callable[[list[float], Callable[[], Awaitable[object]]], Coroutine[Any, Any, None]],
        pause: Callable[[], Awaitable[object]],
        *,
        shuttered: bool,
    ) -> None:
        """The loop is not spun, other tasks go on, and the worker's task group ends on time."""
        log: list[float] = []
        steps = 0

        async def counted() -> None:
            nonlocal steps
            steps += 1
            if pause is checkpoint_if_cancelled:
                await checkpoint()
            await pause()

        async def tick() -> None:
            while True:
                await sleep(0.1)
                ticks.append(current_time())

        ticks: list[float] = []
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            worker = Worker(lambda: swallow(log, counted), shuttered=shuttered)
            group.start_soon(worker)
            for _ in range(20):
                await checkpoint()
            steps = 0
            worker.scope.cancel()
            begun = current_time()
            while worker.outcome is None:  # noqa: ASYNC110 - the pace is the point
                await sleep(0.01)
            elapsed = current_time() - begun
            group.cancel_scope.cancel()
        assert isinstance(worker.outcome, Cancelled)
        assert worker.outcome.ignored
        assert elapsed < GRACE + 0.4
        assert len(log) < 30
        assert steps < 500
        assert len(ticks) >= 9

    @pytest.mark.parametrize("block", [CancelScope, nested, lambda: anyio.move_on_after(3600)])
    async def test_inside_blocks_of_its_own(self, block: Callable[[], Any], *, shuttered: bool) -> None:
        """A body that survives everything is left; the scopes it was inside of do not stay in the way."""
        log: list[float] = []

        async def body() -> None:
            with block(), block():
                await swallow_everything(log, lambda: sleep(3600))

        worker = await cancelled(body, shuttered=shuttered)
        assert worker.outcome == Cancelled(ignored=True)
        assert worker.ended_at == pytest.approx(GRACE)

    async def test_inside_a_task_group_whose_tasks_obey(self, *, shuttered: bool) -> None:
        """The body's own task group ends in order."""
        log: list[float] = []
        children: list[bool] = []

        async def child() -> None:
            try:
                await sleep_forever()
            finally:
                children.append(True)

        async def body() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(child)
                await swallow_cancellations(log, sleep_forever)

        worker = await cancelled(body, shuttered=shuttered)
        assert isinstance(worker.outcome, Cancelled)
        assert worker.outcome.ignored
        assert children == [True]
        assert worker.ended_at == pytest.approx(GRACE)

    async def test_waits_in_every_finally(self, *, shuttered: bool) -> None:
        """Clean-ups that wait, nested, cannot stretch the grace."""

        async def body() -> None:
            try:
                await swallow_cancellations([], sleep_forever)
            finally:
                try:
                    await sleep(3600)
                finally:
                    await sleep(3600)

        worker = await cancelled(body, shuttered=shuttered)
        assert isinstance(worker.outcome, Cancelled)
        assert worker.outcome.ignored
        assert worker.ended_at == pytest.approx(GRACE)

    async def test_async_with_blocks_keep_it_until_it_gives_in(self, *, shuttered: bool) -> None:
        """What cannot be left is asked again once a second; here it gives in at the fifteenth time."""
        log: list[float] = []

        async def body() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(sleep_forever)
                while len(log) < 15:
                    try:
                        await sleep_forever()
                    except BaseException:
                        log.append(current_time())
                group.cancel_scope.cancel()

        worker = await cancelled(body, shuttered=shuttered)
        assert isinstance(worker.outcome, Cancelled)
        assert worker.outcome.ignored
        assert GRACE + 1 < worker.ended_at < GRACE + 10

    async def test_a_shield_outlasts_the_grace(self, *, shuttered: bool) -> None:
        """TIME 102: a shielded clean-up is waited for, and reported as late."""

        async def body() -> str:
            try:
                await sleep_forever()
            finally:
                with CancelScope(shield=True):
                    await sleep(5 * GRACE)
            return "never"

        worker = await cancelled(body, shuttered=shuttered)
        assert isinstance(worker.outcome, Cancelled)
        assert worker.outcome.ignored
        assert worker.ended_at == pytest.approx(5 * GRACE)

    async def test_no_result_after_the_grace(self, *, shuttered: bool) -> None:
        """What a body returns when it is thrown out is not a result."""

        async def body() -> str:
            with suppress(GraceOverError):
                await swallow_cancellations([], sleep_forever)
            return "too late"

        worker = await cancelled(body, shuttered=shuttered)
        assert worker.outcome == Cancelled(ignored=True)

    async def test_without_grace(self, *, shuttered: bool) -> None:
        """Grace 0: one delivery, then out."""
        log: list[float] = []
        body = lambda: swallow_cancellations(log, sleep_forever)
        worker = await cancelled(body, shuttered=shuttered, grace=0)
        assert len(log) <= 2
        assert worker.ended_at == pytest.approx(0)

    async def test_it_had_cancelled_itself_before(self, *, shuttered: bool) -> None:
        """A body that spins inside a scope of its own is recognised by the worker's scope."""
        log: list[float] = []

        async def body() -> None:
            with CancelScope() as own:
                own.cancel()
                await swallow_cancellations(log, sleep_forever)

        worker = Worker(body, shuttered=shuttered)
        async with anyio.create_task_group() as group:
            group.start_soon(worker)
            for _ in range(50):
                await checkpoint()
            worker.scope.cancel()
            spun = len(log)
        assert isinstance(worker.outcome, Cancelled)
        assert worker.outcome.ignored
        assert len(log) - spun < 30

    async def test_the_host_is_cancelled(self, *, shuttered: bool) -> None:
        """A cancellation from around the worker is throttled in the same way."""
        log: list[float] = []
        worker = Worker(lambda: swallow_everything(log, lambda: sleep(0.3)), shuttered=shuttered)
        begun = current_time()
        with anyio.move_on_after(2):
            async with anyio.create_task_group() as group:
                group.start_soon(worker)
        assert worker.outcome == Cancelled(ignored=True)
        assert len(log) < 30
        assert current_time() - begun == pytest.approx(2 + GRACE)


class TestUnderAnySchedule:
    """Bodies of every temper in one task group, cancelled at odd moments, under seeded schedules."""

    @pytest.mark.parametrize("backend", list(VIRTUAL_BACKENDS))
    def test_the_scopes_are_sound_whatever_happens(self, backend: Backend) -> None:
        """Every worker ends in time with an outcome, and nothing but outcomes comes out."""
        for seed in range(60):
            outcomes, elapsed = run_seeded(menagerie, seed, seed=seed, backend=backend)
            assert len(outcomes) == 8
            assert all(isinstance(outcome, Returned | Raised | Cancelled) for outcome in outcomes)
            assert elapsed < 4


async def menagerie(seed: int) -> tuple[list[Outcome | None], float]:
    """One of each, cancelled one after the other, then all from outside."""
    log: list[float] = []

    async def grouped() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(sleep, 0.4)
            await swallow_cancellations(log, lambda: sleep(0.07))

    async def tidy() -> None:
        try:
            await sleep(60)
        finally:
            with anyio.move_on_after(0.2, shield=True):
                await sleep(60)

    async def short() -> str:
        await sleep(0.5)
        return "done"

    bodies: list[Body] = [
        sleep_forever,
        tidy,
        short,
        grouped,
        lambda: swallow_cancellations(log, sleep_forever),
        lambda: swallow_cancellations(log, checkpoint),
        lambda: swallow_everything(log, lambda: sleep(0.2)),
        lambda: swallow_everything(log, checkpoint_if_cancelled_or_not),
    ]
    workers = [Worker(body, shuttered=(seed + number) % 2 == 0) for number, body in enumerate(bodies)]
    async with anyio.create_task_group() as group:
        for worker in workers:
            group.start_soon(worker)
        for number, worker in enumerate(workers):
            if (seed >> number) % 2:
                for _ in range(number):
                    await checkpoint()
                worker.scope.cancel()
        for _ in range(40):
            await checkpoint()
        # As the engine does: the host notices that it is cancelled, and cancels its workers.
        group.cancel_scope.cancel()
        with CancelScope(shield=True):
            for _ in range(seed % 5):
                await checkpoint()
            for worker in workers:
                worker.scope.cancel()
    return [worker.outcome for worker in workers], current_time()


async def checkpoint_if_cancelled_or_not() -> None:
    """Yield, and spin for the cancellation where anyio does."""
    await checkpoint()
    await checkpoint_if_cancelled()
