"""How many bodies run at once, counted over a run and the runs of the flows that it includes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from anyio import Event

__all__ = ["Slots"]


class Slots:
    """A counter of a family of runs; first come, first served.

    The core counts the nodes of each run; this counts what really runs (kernel.md 8: concurrency is of
    run and child runs together). A node that waits for its child run holds none, or the family could starve.
    """

    __slots__ = ("_limit", "_taken", "_waiting")

    def __init__(self, limit: Callable[[], int]) -> None:
        """``limit`` says how many there are; it may grow."""
        self._limit = limit
        self._taken = 0
        self._waiting: deque[Event] = deque()

    async def take(self) -> None:
        """Wait for a slot."""
        if not self._waiting and self._taken < self._limit():
            self._taken += 1
            return
        event = Event()
        self._waiting.append(event)
        try:
            await event.wait()
        except BaseException:
            if event.is_set():
                self.give()
            else:
                self._waiting.remove(event)
            raise

    def give(self) -> None:
        """Give a slot back; it goes to who has waited longest."""
        self._taken -= 1
        while self._waiting and self._taken < self._limit():
            self._taken += 1
            self._waiting.popleft().set()
