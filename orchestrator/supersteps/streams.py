"""What happens while a thread runs, as a cursor over its log: nothing is buffered, a reader may be slow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Literal, Self, get_args

import anyio
import msgspec
from anyio import CancelScope

from orchestrator.core import facts as f
from orchestrator.core.commands import Cancel
from orchestrator.core.records import Record
from orchestrator.core.supersteps.machine import SuperstepMachine
from orchestrator.core.supersteps.writes import written
from orchestrator.errors import OperationError
from orchestrator.runtime.envelopes import envelopes_of
from orchestrator.supersteps.driving import Drive, Driver
from orchestrator.supersteps.engine import StepEngine
from orchestrator.supersteps.looking import asked, values_of
from orchestrator.supersteps.results import Interrupt, StepResult

__all__ = ["INTERRUPT", "Mode", "StepStream"]

Mode = Literal["updates", "values", "tasks", "events"]
#: The key under which interrupts stand in ``updates`` and ``values``.
INTERRUPT = "__interrupt__"
_PAGE = 64


class StepStream:
    """An async context manager that runs the thread, and an async iterator over what happens."""

    def __init__(self, driver: Driver, given: Any, drive: Drive, mode: Mode | Sequence[Mode]) -> None:
        self._driver, self._given, self._drive = driver, given, drive
        self._single = isinstance(mode, str)
        self._modes: tuple[str, ...] = (mode,) if isinstance(mode, str) else tuple(mode)
        for one in self._modes:
            if one not in get_args(Mode):
                raise OperationError(f"stream mode {one!r}; there are {', '.join(get_args(Mode))}")
        self._stack = AsyncExitStack()
        self._pending: Iterator[Any] = iter(())
        self._position = 0
        self._nodes: dict[str, str] = {}
        self._engine: StepEngine | None = None
        self._machine = SuperstepMachine()

    @property
    def result(self) -> StepResult:
        """What the run came to, when the stream has ended.

        Raises:
            OperationError: it has not. JournalError, InternalError: the run halted.
        """
        if self._engine is None or not self._engine.closed:
            raise OperationError("the run goes on; read the stream to its end")
        return self._driver.result(self._engine)

    async def __aenter__(self) -> Self:
        """Begin to run."""
        async with AsyncExitStack() as stack:
            engine = await stack.enter_async_context(self._driver.begun(self._given, self._drive))
            group = await stack.enter_async_context(anyio.create_task_group())
            self._engine = engine
            if "values" in self._modes:
                for record in engine.kernel.journal.read(0):
                    self._machine.replay(record)
            self._position = len(engine.kernel.journal)
            group.start_soon(engine.run, name="callboard thread")
            stack.push_async_callback(self._left)
            self._stack = stack.pop_all()
        return self

    async def _left(self) -> None:
        """A reader that leaves early suspends the run, and waits until it has stopped."""
        engine = self._engine
        assert engine is not None
        with CancelScope(shield=True):
            if not engine.closed:
                engine.tell(Cancel(suspend="interrupted", reason="the reader left"))
            while await engine.grown(len(engine.kernel.journal)):
                pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Stop the run if it goes on."""
        return await self._stack.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Any]:
        """Items in the order of the log; ends with the run."""
        return self

    async def __anext__(self) -> Any:
        """The next item."""
        engine = self._engine
        if engine is None:
            raise OperationError("enter the stream first: async with graph.stream(...) as stream")
        while True:
            for item in self._pending:
                return item
            if not await engine.grown(self._position):
                raise StopAsyncIteration
            page = engine.kernel.journal.read(self._position, self._position + _PAGE)
            self._position += len(page)
            self._pending = (item for record in page for item in self._items(record))

    def _items(self, record: Record) -> Iterator[Any]:
        for mode in self._modes:
            for item in getattr(self, f"_{mode}")(record):
                yield item if self._single else (mode, item)

    def _updates(self, record: Record) -> Iterator[Any]:
        """Node -> its writes, one item for each of its Commands' writes to a key that comes twice."""
        for fact in record.facts:
            if isinstance(fact, f.NodeCompleted):
                value = None if fact.value is None else bytes(record.values[fact.value])
                update: dict[str, Any] = {}
                for one in written(value):
                    new = msgspec.json.decode(one.value)
                    update[one.key] = new
                yield {fact.node.partition("@")[0]: update}
            elif isinstance(fact, f.QuestionAsked):
                yield {INTERRUPT: [_interrupt(fact)]}

    def _values(self, record: Record) -> Iterator[Any]:
        self._machine.replay(record)
        for fact in record.facts:
            if isinstance(fact, f.CheckpointSaved):
                yield values_of(self._driver.blueprint, self._machine.state, preview=False)
            elif isinstance(fact, f.QuestionAsked):
                yield {INTERRUPT: [_interrupt(fact)]}

    def _tasks(self, record: Record) -> Iterator[Any]:
        for fact in record.facts:
            if isinstance(fact, f.NodeStarted | f.NodeCompleted | f.NodeFailed | f.NodeRetryScheduled):
                word = type(fact).__name__.removeprefix("Node").lower()
                yield {
                    "task": fact.node,
                    "node": fact.node.partition("@")[0],
                    "attempt": fact.attempt,
                    "is": word,
                }

    def _events(self, record: Record) -> Iterator[Any]:
        assert self._engine is not None
        yield from envelopes_of(self._engine, record)


def _interrupt(fact: f.QuestionAsked) -> Interrupt:
    node = fact.node.partition("@")[0]
    return Interrupt(f"{fact.node}:{fact.key}", asked(fact.question), fact.node, node, fact.key)
