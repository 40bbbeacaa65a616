"""Timers of a run: one task that sleeps until the next one is due. No task per waiting node."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from anyio import CancelScope, Event, current_time

__all__ = ["Timers"]


class Timers:
    """Calls ``fire(timer, node, attempt, key)`` when a timer is due, on the loop's clock."""

    __slots__ = ("_added", "_fire", "_heap", "_number")

    def __init__(self, fire: Callable[[str, str | None, int, str], None]) -> None:
        """``fire`` is called on the loop's thread and must not wait."""
        self._heap: list[tuple[float, int, str, str | None, int, str]] = []
        self._fire = fire
        self._number = 0
        self._added: Event | None = None

    def add(self, seconds: float, timer: str, node: str | None, attempt: int, key: str = "") -> None:
        """Set a timer ``seconds`` from now."""
        self._number += 1
        entry = (current_time() + seconds, self._number, timer, node, attempt, key)
        heapq.heappush(self._heap, entry)
        if self._added is not None and self._heap[0] is entry:
            self._added.set()

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            self._added = Event()
            if not self._heap:
                await self._added.wait()
                continue
            with CancelScope(deadline=self._heap[0][0]):
                await self._added.wait()
            if self._added.is_set():
                continue
            while self._heap and self._heap[0][0] <= current_time():
                _, _, timer, node, attempt, key = heapq.heappop(self._heap)
                self._fire(timer, node, attempt, key)
