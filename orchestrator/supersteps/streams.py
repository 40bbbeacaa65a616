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
from orchestrator.core.supersteps.facts import TaskCached
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

    def __init__(
        self,
        driver: Driver,
        given: Any,
        drive: Drive,
        mode: Mode | Sequence[Mode],
        *,
        subgraphs: bool = False,
    ) -> None:
        self._driver, self._given, self._drive = driver, given, drive
        self._single = isinstance(mode, str)
        self._modes: tuple[str, ...] = (mode,) if isinstance(mode, str) else tuple(mode)
        for one in self._modes:
            if one not in get_args(Mode):
                raise OperationError(f"stream mode {one!r}; there are {', '.join(get_args(Mode))}")
        self._stack = AsyncExitStack()
        self._pending: Iterator[Any] = iter(())
        self._subgraphs = subgraphs
        self._engine: StepEngine | None = None
        #: of the thread, and of every child that was seen
        self._readers: list[_Reader] = []

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
            if self._subgraphs:
                engine.seen = []
            self._readers.append(_Reader(engine, self._modes))
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
            self._pending = self._read(engine)
            for item in self._pending:
                return item
            if not await self._more(engine):
                raise StopAsyncIteration

    def _read(self, engine: StepEngine) -> Iterator[Any]:
        """What is there and was not read."""
        self._find(engine)
        for reader, mode, item in self._told(self._readers[0]):
            found = item if self._single else (mode, item)
            yield (reader.namespace, found) if self._subgraphs else found

    def _find(self, engine: StepEngine) -> None:
        for child in engine.seen or ():
            self._readers.append(_Reader(child, self._modes, child=True))
        if engine.seen:
            engine.seen.clear()

    def _told(self, reader: _Reader) -> Iterator[tuple[_Reader, str, Any]]:
        """What a run and those below it say; what a child said comes before what its task comes to."""
        for record in reader.page():
            for fact in record.facts:
                if isinstance(fact, f.ChildRunEnded | f.ChildRunHeld):
                    yield from self._below(reader, fact.node)
            for mode, item in reader.items(record):
                yield reader, mode, item
        if not reader.behind:
            yield from self._below(reader, None)

    def _below(self, above: _Reader, task: str | None) -> Iterator[tuple[_Reader, str, Any]]:
        """What the children of a run say, all of them or one task's, which has stopped."""
        assert self._engine is not None
        self._find(self._engine)
        for reader in [one for one in self._readers if one.under(above, task)]:
            while reader.behind:
                yield from self._told(reader)
            if task is not None or reader.over:
                self._readers.remove(reader)

    async def _more(self, engine: StepEngine) -> bool:
        """Wait until some log has grown; False if none ever will."""
        while not engine.seen and not any(reader.behind for reader in self._readers):
            if not await engine.stirred():
                return bool(engine.seen) or any(reader.behind for reader in self._readers)
        return True


class _Reader:
    """A cursor over the log of one run of the tree."""

    def __init__(self, engine: StepEngine, modes: Sequence[str], *, child: bool = False) -> None:
        self._engine, self._modes = engine, modes
        self._machine = SuperstepMachine()
        self.namespace: tuple[str, ...] = ()
        above: StepEngine | None = engine
        while above is not None and above.above is not None:
            self.namespace = (above.family.node, *self.namespace)
            above = above.above
        journal = engine.kernel.journal
        # a child that goes on is read from where it stood when it was called
        self._position = engine.began_at if child else len(journal)
        if "values" in modes:
            for record in journal.read(0, self._position):
                self._machine.replay(record)

    @property
    def over(self) -> bool:
        """True for a child that has stopped."""
        return self._engine.above is not None and self._engine.closed

    @property
    def behind(self) -> bool:
        """True if the log holds more than was read."""
        return self._count > self._position

    @property
    def _count(self) -> int:
        """Records of this call: a child that remembers goes on in the same log with the next one."""
        engine = self._engine
        return engine.kernel.submitted if engine.closed else len(engine.kernel.journal)

    def under(self, above: _Reader, task: str | None) -> bool:
        """True for a child that ``above`` called, by this task if one is given."""
        engine = self._engine
        return engine.above is above._engine and task in {None, engine.family.node}

    def page(self) -> Sequence[Record]:
        """Records that were not read."""
        stop = min(self._count, self._position + _PAGE)
        page = self._engine.kernel.journal.read(self._position, stop) if self.behind else ()
        self._position += len(page)
        return page

    def items(self, record: Record) -> Iterator[tuple[str, Any]]:
        """What a record says, in each mode."""
        for mode in self._modes:
            for item in getattr(self, f"_{mode}")(record):
                yield mode, item

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
                yield values_of(self._engine.blueprint, self._machine.state, preview=False)
            elif isinstance(fact, f.QuestionAsked):
                yield {INTERRUPT: [_interrupt(fact)]}

    def _tasks(self, record: Record) -> Iterator[Any]:
        cached = {fact.node for fact in record.facts if isinstance(fact, TaskCached)}
        for fact in record.facts:
            if isinstance(fact, f.NodeStarted | f.NodeCompleted | f.NodeFailed | f.NodeRetryScheduled):
                word = type(fact).__name__.removeprefix("Node").lower()
                if word == "completed" and fact.node in cached:
                    word = "cached"
                yield {
                    "task": fact.node,
                    "node": fact.node.partition("@")[0],
                    "attempt": fact.attempt,
                    "is": word,
                }

    def _events(self, record: Record) -> Iterator[Any]:
        yield from envelopes_of(self._engine, record)


def _interrupt(fact: f.QuestionAsked) -> Interrupt:
    node = fact.node.partition("@")[0]
    return Interrupt(f"{fact.node}:{fact.key}", asked(fact.question), fact.node, node, fact.key)
