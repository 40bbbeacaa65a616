"""Threads of our own: outcomes, abandonment, the bridge back to the loop.

HANG 40, CANCEL 46, STATE 91, bad-inputs 12. Real threads, so real loops; nothing waits for real time.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

import anyio
import pytest
from anyio import get_cancelled_exc_class
from anyio.lowlevel import checkpoint, current_token

from orchestrator.runtime.drive import Raised, Returned
from orchestrator.runtime.threads import (
    LoopGoneError,
    call_on_loop,
    loop_token,
    run_in_thread,
    say_on_loop,
)

pytestmark = pytest.mark.anyio

WHERE = ContextVar("WHERE", default="outside")
BASE_ERRORS = [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]
by_type = pytest.mark.parametrize("error", BASE_ERRORS, ids=lambda error: type(error).__name__)


def raising(error: BaseException) -> Callable[[], None]:
    """A function that raises."""

    def fn() -> None:
        raise error

    return fn


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop and the threads run until something is so."""
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - a thread cannot set an event of the loop here
            await anyio.sleep(0.001)


class TestOutcomes:
    """What the function gives reaches the caller."""

    async def test_a_result(self) -> None:
        """The value comes back; the function ran on a daemon thread of ours."""
        thread = await run_in_thread(threading.current_thread, copy_context())
        assert thread.daemon
        assert thread.name.startswith("callboard")
        assert thread is not threading.current_thread()

    @by_type
    async def test_every_error(self, error: BaseException) -> None:
        """bad-inputs 12: raises, raises BaseException, calls sys.exit; the traceback ends in the function."""
        with pytest.raises(type(error)) as caught:
            await run_in_thread(raising(error), copy_context())
        assert caught.value is error
        assert caught.traceback[-1].name == "fn"

    async def test_the_context_is_the_given_one(self) -> None:
        """STATE 91: the thread sees the submitting side's values; what it sets stays in its own copy."""
        WHERE.set("submitter")

        def fn() -> str:
            before = WHERE.get()
            WHERE.set("thread")
            return before

        context = copy_context()
        assert await run_in_thread(fn, context) == "submitter"
        assert context[WHERE] == "thread"
        assert WHERE.get() == "submitter"

    async def test_threads_are_reused(self) -> None:
        """One after the other: a few threads at most."""
        threads = {await run_in_thread(threading.get_ident, copy_context()) for _ in range(50)}
        assert len(threads) < 10

    async def test_many_at_once(self) -> None:
        """No limit of ours: the pool is not a second concurrency limit."""
        barrier = threading.Barrier(20)

        async def one() -> None:
            await run_in_thread(lambda: barrier.wait(10), copy_context())

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)

    async def test_a_loop_of_its_own(self) -> None:
        """The copied context does not tell the thread's code that a loop runs there."""

        async def inner() -> str:
            await checkpoint()
            return "inner"

        assert await run_in_thread(lambda: anyio.run(inner), copy_context()) == "inner"


class TestAbandonment:
    """A thread cannot be stopped; its caller need not wait for it."""

    @pytest.mark.parametrize("error", [None, *BASE_ERRORS], ids=lambda error: type(error).__name__)
    async def test_a_cancelled_caller_leaves_at_once(self, error: BaseException | None) -> None:
        """CANCEL 46: the late outcome goes to `late`, marked as such by going there."""
        release, told = threading.Event(), list[Returned | Raised]()

        def fn() -> str:
            release.wait(10)
            if error is not None:
                raise error
            return "late"

        with anyio.move_on_after(0.001) as scope:
            await run_in_thread(fn, copy_context(), late=told.append)
        assert scope.cancelled_caught
        assert not told
        release.set()
        await until(lambda: bool(told))
        assert told == [Returned("late") if error is None else Raised(error)]

    async def test_a_late_outcome_that_nobody_wants(self) -> None:
        """Without `late` it is dropped."""
        release, over = threading.Event(), threading.Event()

        def fn() -> None:
            release.wait(10)
            over.set()
            message = "nobody hears this"
            raise ValueError(message)

        with anyio.move_on_after(0.001):
            await run_in_thread(fn, copy_context())
        release.set()
        await until(over.is_set)

    async def test_cancelled_while_the_outcome_is_on_its_way(self) -> None:
        """Whoever is first, the outcome goes to exactly one place."""
        token = loop_token()

        async def once() -> int:
            told, got = list[Returned | Raised](), list[str]()

            def fn() -> str:
                call_on_loop(token, scope.cancel)
                return "value"

            with anyio.CancelScope() as scope:
                got.append(await run_in_thread(fn, copy_context(), late=told.append))
            await until(lambda: bool(told or got))
            return len(told) + len(got)

        assert [await once() for _ in range(50)] == [1] * 50


def test_the_loop_ends_first(
    backend_name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that outlives its loop ends without a word, whatever it gives."""
    hooked: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    release, threads = threading.Event(), list[threading.Thread]()
    gone: list[BaseException] = []

    def fn(token: Any, error: BaseException | None) -> None:
        threads.append(threading.current_thread())
        release.wait(10)
        try:
            call_on_loop(token, print, "never")
        except LoopGoneError as caught:
            gone.append(caught)
        if error is not None:
            raise error

    async def main() -> None:
        token = loop_token()
        errors = (None, *BASE_ERRORS)
        async with anyio.create_task_group() as group:
            for error in errors:
                group.start_soon(run_in_thread, lambda error=error: fn(token, error), copy_context())
            with anyio.fail_after(10):
                while len(threads) < len(errors):
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    anyio.run(main, backend=backend_name)
    release.set()
    for thread in threads:
        while thread.name == "callboard role":
            thread.join(0.001)
    assert len(gone) == len(threads) == 5
    assert not hooked
    assert capfd.readouterr() == ("", "")


def test_the_process_is_not_held(backend_name: str) -> None:
    """A plain role that never returns does not keep the interpreter alive, and ends in silence."""
    script = (
        "import anyio, threading\n"
        "from contextvars import copy_context\n"
        "from orchestrator.runtime.threads import run_in_thread\n"
        "async def main():\n"
        "    with anyio.move_on_after(0.01):\n"
        "        await run_in_thread(threading.Event().wait, copy_context())\n"
        f"anyio.run(main, backend={backend_name!r})\n"
        "print('over')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


class TestBridge:
    """`call_on_loop`, from a thread and from the loop itself."""

    async def test_a_result_from_the_loops_thread(self) -> None:
        """The function runs where the loop runs, and can use it."""
        token, here = loop_token(), threading.get_ident()
        event = anyio.Event()

        def on_loop(number: int) -> tuple[int, int]:
            event.set()
            anyio.current_time()
            return threading.get_ident(), number

        assert await run_in_thread(lambda: call_on_loop(token, on_loop, 7), copy_context()) == (here, 7)
        await event.wait()

    @by_type
    async def test_every_error(self, error: BaseException) -> None:
        """HANG 40: the bridge forwards BaseExceptions promptly, and the loop survives them."""
        token = loop_token()
        with pytest.raises(type(error)) as caught:
            await run_in_thread(lambda: call_on_loop(token, raising(error)), copy_context())
        assert caught.value is error
        await checkpoint()

    async def test_a_cancellation(self) -> None:
        """HANG 40: cancelled inside: the thread gets the cancellation, promptly."""
        token = loop_token()
        cancelled: list[BaseException] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await checkpoint()
            except get_cancelled_exc_class() as error:
                cancelled.append(error)
                raise

        def fn() -> bool:
            try:
                call_on_loop(token, raising(cancelled[0]))
            except BaseException as error:
                return error is cancelled[0]
            return False

        assert await run_in_thread(fn, copy_context())
        await checkpoint()

    @pytest.mark.parametrize("make", [loop_token, current_token])
    async def test_on_the_loops_own_thread(self, make: Callable[[], Any]) -> None:
        """No deadlock: it is called directly."""
        assert call_on_loop(make(), threading.get_ident) == threading.get_ident()
        with pytest.raises(ValueError, match="x"):
            call_on_loop(make(), raising(ValueError("x")))

    async def test_say(self) -> None:
        """`say_on_loop` from a thread: heard."""
        token, event = loop_token(), anyio.Event()
        await run_in_thread(lambda: say_on_loop(token, event.set), copy_context())
        assert event.is_set()


def test_the_loop_is_gone(backend_name: str) -> None:
    """A clear error, also on the thread on which the loop once ran."""

    async def main() -> Any:
        return loop_token()

    token = anyio.run(main, backend=backend_name)
    with pytest.raises(LoopGoneError, match="event loop of this run has ended"):
        call_on_loop(token, print)
    say_on_loop(token, print)


def test_from_a_callback_of_a_loop_that_anyio_did_not_start() -> None:
    """A signal handler or another callback of asyncio's is on the loop's thread as well."""
    import asyncio

    got: list[int] = []

    async def main() -> None:
        token = loop_token()
        asyncio.get_running_loop().call_soon(
            lambda: got.append(call_on_loop(token, threading.get_ident)), context=None
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert got == [threading.get_ident()]


@pytest.fixture(params=["asyncio", "trio"])
def backend_name(request: pytest.FixtureRequest) -> str:
    """For tests that run a loop themselves."""
    return str(request.param)
