"""Ctrl-C and SIGTERM: once asks, twice insists, a third time ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

from anyio import TASK_STATUS_IGNORED, Event, create_task_group, move_on_after, open_signal_receiver, sleep
from anyio.abc import TaskStatus

from orchestrator.cli.edge import close_streams, note
from orchestrator.cli.exits import INTERRUPTED
from orchestrator.runtime.run import Run

__all__ = ["Stopper", "end_process", "end_process_after"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
#: The third signal ends the process whatever it does.
_LAST: Final = 3
#: Seconds that a loop has to hear of an interruption.
_HEARING: Final = 2.0
_BLOCKED: Final = "error: a role blocks the event loop and hears nothing; the process ends without it"


class Stopper:
    """Turns signals into what a run can do: finish what runs, then give it back.

    Attributes:
        run: the run, as soon as there is one.
        insisted: the run was interrupted. left: what ignored that has been left behind.
    """

    def __init__(self, grace: float, patience: float, tell: Callable[[str], None]) -> None:
        """Make one.

        Args:
            grace: seconds between draining and interrupting.
            patience: seconds that a role has to end after an interruption.
            tell: shows a line to the person.
        """
        self.run: Run | None = None
        self.insisted, self.left = Event(), Event()
        self._grace, self._patience, self._tell = grace, patience, tell
        self._count = 0
        self._last_word: threading.Timer | None = None

    async def listen(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Serve signals until cancelled."""
        with open_signal_receiver(*_SIGNALS) as signals:
            # The loop is woken by number, not by this handler: it also works while a role blocks the loop.
            for number in _SIGNALS:
                signal.signal(number, self._counted)
            task_status.started()
            async with create_task_group() as group:
                drained = False
                async for _ in signals:
                    if drained:
                        group.start_soon(self._interrupt, "interrupting")
                    elif self.run is not None:
                        drained = True
                        group.start_soon(self._drain, self.run)

    def _counted(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == _LAST - 1:
            self._last_word = end_process_after(self._patience + _HEARING, INTERRUPTED, _BLOCKED)
        if self._count >= _LAST:
            end_process(INTERRUPTED, "ending the process at once")

    async def _drain(self, run: Run) -> None:
        running = sum(state == "running" for state in run.states().values())
        self._tell(
            f"draining: {running} running {'node' if running == 1 else 'nodes'} may finish within "
            f"{self._grace:g} s; once more interrupts"
        )
        run.drain()
        with move_on_after(self._grace):
            await self.insisted.wait()
        await self._interrupt(f"interrupting: {self._grace:g} s are over")

    async def _interrupt(self, why: str) -> None:
        if self._last_word is not None:
            self._last_word.cancel()  # the loop hears: it need not be ended from outside
        run = self.run
        if run is None or self.insisted.is_set():
            return
        self.insisted.set()
        self._tell(why)
        run.interrupt()
        await sleep(self._patience + _HEARING / 2)
        run.abandon()
        self.left.set()


def end_process_after(seconds: float, code: int, words: str = "") -> threading.Timer:
    """End the process with a code if it is still there then: something that ignores everything holds it.

    Call it only when nothing is left to be written but what the streams hold.
    """
    timer = threading.Timer(seconds, end_process, (code, words))
    timer.daemon = True
    timer.start()
    return timer


def end_process(code: int, words: str = "") -> NoReturn:
    """End the process at once, whatever holds it; what the streams hold is written."""
    with suppress(Exception):
        if words:
            note(words)
        close_streams()
    os._exit(code)
