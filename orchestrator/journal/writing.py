"""The thread that appends while the loop goes on; its answers come back through the caller's ``post``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from orchestrator.core.records import Record
from orchestrator.journal.seam import Done

__all__ = ["Append", "Post", "Writer"]

#: Appends a batch; gives what went wrong, or None.
Append = Callable[[Sequence[Record]], BaseException | None]
#: Has a function called on the loop's thread soon; may be called from any thread.
Post = Callable[[Callable[[], None]], object]


class Writer:
    """One daemon thread and two queues. All methods are for the loop's thread."""

    __slots__ = ("_answers", "_append", "_jobs", "_open", "_post", "_thread")

    def __init__(self, append: Append, post: Post) -> None:
        """Start the thread."""
        self._append = append
        self._post = post
        self._jobs: SimpleQueue[tuple[Sequence[Record], Done] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[BaseException | None, Done]] = SimpleQueue()
        self._open = 0
        self._thread = threading.Thread(target=self._work, name="callboard-journal", daemon=True)
        self._thread.start()

    def submit(self, batch: Sequence[Record], done: Done) -> None:
        """Hand a batch over."""
        self._open += 1
        self._jobs.put((batch, done))

    def flush(self) -> None:
        """Answer everything that was handed over, and what the answers hand over."""
        while self._open:
            self._answer(*self._answers.get())

    def close(self) -> None:
        """Finish what was handed over and end the thread."""
        self.flush()
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch, done = job
            self._answers.put((self._append(batch), done))
            # a loop that is closed takes no more calls: whoever closes it calls flush
            with suppress(RuntimeError):
                self._post(self._deliver)

    def _deliver(self) -> None:
        with suppress(Empty):
            while True:
                self._answer(*self._answers.get_nowait())

    def _answer(self, error: BaseException | None, done: Done) -> None:
        self._open -= 1
        done(error)
