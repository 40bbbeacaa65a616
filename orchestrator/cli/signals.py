"""Ctrl-C and SIGTERM: once asks, twice insists, a third time ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

from anyio import TASK_STATUS_IGNORED, create_task_group, open_signal_receiver, sleep
from anyio.abc import TaskStatus

from orchestrator.cli.edge import close_streams
from orchestrator.cli.exits import INTERRUPTED
from orchestrator.runtime.run import Run

__all__ = ["Stopper", "end_process_after"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
#: The third signal ends the process whatever it does.
_LAST: Final = 3


class Stopper:
    """Turns signals into what a run can do: finish what runs, then give it back.

    Attributes:
        run: the run, as soon as there is one.
        patience: seconds after an interruption in which a role that ignores it is left behind.
    """

    def __init__(self, grace: float, patience: float, tell: Callable[[str], None]) -> None:
        """``grace``: seconds between draining and interrupting. ``tell``: shows a line to the person."""
        self.run: Run | None = None
        self.patience = patience
        self._grace, self._tell = grace, tell
        self._count = 0
        self._last_word: threading.Timer | None = None

    def stand_down(self) -> None:
        """The loop heard: it need not be ended from outside any more."""
        if self._last_word is not None:
            self._last_word.cancel()

    async def listen(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Serve signals until cancelled."""
        with open_signal_receiver(*_SIGNALS) as signals:
            # The loop is woken by number, not by this handler: it also works while a role blocks the loop.
            for number in _SIGNALS:
                signal.signal(number, self._counted)
            task_status.started()
            async with create_task_group() as group:
                first = True
                async for _ in signals:
                    if first:
                        group.start_soon(self._drain)
                        first = False
                    else:
                        self._interrupt("interrupting")

    def _counted(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == _LAST - 1:
            self._last_word = end_process_after(self._grace_of_loop, INTERRUPTED)
        if self._count >= _LAST:
            os._exit(INTERRUPTED)

    @property
    def _grace_of_loop(self) -> float:
        """How long a loop that a role blocks may take to hear an interruption."""
        return self.patience + 2.0

    async def _drain(self) -> None:
        if self.run is None:
            return
        running = sum(state == "running" for state in self.run.states().values())
        self._tell(
            f"draining: {running} running {'node' if running == 1 else 'nodes'} may finish within "
            f"{self._grace:g} s; once more interrupts"
        )
        self.run.drain()
        await sleep(self._grace)
        self._interrupt(f"interrupting: {self._grace:g} s are over")

    def _interrupt(self, why: str) -> None:
        if self.run is not None and self.run.result is None:
            self._tell(why)
            self.run.interrupt()


def end_process_after(seconds: float, code: int) -> threading.Timer:
    """End the process with a code if it is still there then: something that ignores everything holds it.

    Call it only when nothing is left to be written but what the streams hold.
    """

    def end() -> None:
        with suppress(Exception):
            close_streams()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer
