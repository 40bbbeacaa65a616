"""Streams are cursors over the run's log: nothing is buffered, a slow reader costs nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

import msgspec

from orchestrator.core import facts as f
from orchestrator.core.records import Record
from orchestrator.core.status import Status
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.envelopes import Envelope, envelopes_of
from orchestrator.runtime.results import FlowEvent
from roles import NodeError

__all__ = ["SETTLING", "EventStream", "SettlementStream"]

T = TypeVar("T")
_PAGE = 256
SETTLING: dict[type[f.Fact], Status] = {
    f.NodeCompleted: Status.COMPLETED,
    f.NodeFailed: Status.FAILED,
    f.NodeSkipped: Status.SKIPPED,
    f.NodeVetoed: Status.VETOED,
    f.NodeCancelled: Status.CANCELLED,
    f.NodeEscalated: Status.ESCALATED,
}


class _Cursor(Generic[T]):
    """Walks the log as it grows. No async generator: trio warns of one that a reader leaves unfinished."""

    __slots__ = ("_engine", "_pending", "_position", "_read")

    def __init__(self, engine: Engine, read: Callable[[Record], Iterable[T]]) -> None:
        """``read`` gives what a record holds for this reader."""
        self._engine, self._read = engine, read
        self._position = 0
        self._pending: Iterator[T] = iter(())

    def __aiter__(self) -> _Cursor[T]:
        return self

    async def __anext__(self) -> T:
        while True:
            for item in self._pending:
                return item
            position = self._position
            if not await self._engine.grown(position):
                raise StopAsyncIteration
            page = self._engine.kernel.journal.read(position, position + _PAGE)
            self._position += len(page)
            self._pending = (item for record in page for item in self._read(record))


class EventStream:
    """Every fact of a run as an Envelope, from ``after`` on. Leaving it detaches; the run goes on."""

    def __init__(self, engine: Engine, after: int = 0, kinds: frozenset[str] | None = None) -> None:
        """``after``: seq of the last fact that is not wanted. ``kinds``: only these; None is all."""
        self._engine = engine
        self._after = after
        self._kinds = kinds

    async def __aenter__(self) -> Self:
        """The stream itself."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Nothing is held."""

    def __aiter__(self) -> AsyncIterator[Envelope]:
        """Envelopes in order; ends with the run."""
        return _Cursor(self._engine, self._envelopes)

    def _envelopes(self, record: Record) -> Iterator[Envelope]:
        if record.last <= self._after:
            return
        for envelope in envelopes_of(self._engine, record, self._kinds):
            if envelope.seq is not None and envelope.seq > self._after:
                yield envelope


class SettlementStream:
    """A FlowEvent per settlement, in order."""

    def __init__(self, engine: Engine) -> None:
        """Made by ``Session.flow_stream``."""
        self._engine = engine

    def __aiter__(self) -> AsyncIterator[FlowEvent]:
        """Settlements in order; ends with the run."""
        return _Cursor(self._engine, self._settlements)

    def _settlements(self, record: Record) -> Iterator[FlowEvent]:
        for number, fact in enumerate(record.facts):
            status = SETTLING.get(type(fact))
            if status is not None:
                yield self._event(fact, record, status, record.first + number)

    def _event(self, fact: Any, record: Record, status: Status, seq: int) -> FlowEvent:
        node = self._engine.state.nodes[fact.node]
        result: Any = None
        if isinstance(fact, f.NodeFailed):
            result = NodeError(fact.error.type, fact.error.message, fact.error.attempt)
        elif isinstance(fact, f.NodeCompleted | f.NodeEscalated) and fact.value is not None:
            result = msgspec.json.decode(record.values[fact.value])
        planned = node.copies or node.op.name
        grown = node.parent is not None or planned not in self._engine.planned
        return FlowEvent(fact.node, fact.node, status, result, grown, seq)
