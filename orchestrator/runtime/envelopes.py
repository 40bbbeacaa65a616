"""The one envelope: taps, ``--json``, the watch, server-sent events and the journal's reader use it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import msgspec

from orchestrator.core.facts import Fact
from orchestrator.core.records import Record

__all__ = ["DETAIL_LIMIT", "FIELDS", "VERSION", "Envelope", "FactEnvelope", "Source", "envelopes_of"]

#: Version of the envelope. Within one version fields are added, never changed.
VERSION: Final = 1
#: A refusal's published detail is cut here; receipt and journal hold the whole.
DETAIL_LIMIT: Final = 500

_LIFTED = frozenset({"node", "attempt"})


class Envelope:
    """One event as everybody outside the kernel sees it. Read-only.

    Attributes:
        run: the run's id. seq: number of the fact in its run; None for progress, which is not journaled.
        kind: the fact's kind. node, attempt, role: whom it is about; stamped by the house, never read
            from a payload. cause: seq of the fact that led to it; None if it came from outside.
        at: wall time, ISO 8601 in UTC, for display only. data: the other fields of the fact as JSON data.
        v: version of this layout.
    """

    __slots__ = ("at", "attempt", "cause", "data", "kind", "node", "role", "run", "seq")

    v = VERSION

    def __init__(
        self,
        run: str,
        seq: int | None,
        kind: str,
        *,
        node: str | None = None,
        attempt: int | None = None,
        role: str | None = None,
        cause: int | None = None,
        at: str = "",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """An envelope whose parts are at hand; facts get :class:`FactEnvelope`."""
        self.run, self.seq, self.kind, self.node, self.attempt = run, seq, kind, node, attempt
        self.role, self.cause, self.at, self.data = role, cause, at, data or {}

    def __repr__(self) -> str:
        """Number, kind and node."""
        return f"<{self.kind} {self.seq} {self.node or self.run}>"

    def __eq__(self, other: object) -> bool:
        """Equal in every field: the same fact, however it was read."""
        return isinstance(other, Envelope) and self.mapping() == other.mapping()

    def __hash__(self) -> int:
        """By run, number and kind."""
        return hash((self.run, self.seq, self.kind))

    def mapping(self) -> dict[str, Any]:
        """The envelope as JSON data."""
        return {name: getattr(self, name) for name in FIELDS}

    def json(self) -> bytes:
        """The envelope as one line of JSON."""
        return msgspec.json.encode(self.mapping())


#: The fields of an envelope in the order in which they are written.
FIELDS: Final = ("v", "run", "seq", "kind", "node", "attempt", "role", "cause", "at", "data")


class Source(Protocol):
    """Whose records they are: a run."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    def role_of_node(self, node: str) -> str | None:
        """A node's role."""


class FactEnvelope(Envelope):
    """The envelope of one durable fact. Its parts are made when they are read: most taps read few."""

    __slots__ = ("_number", "_record", "_source")

    def __init__(self, source: Source, record: Record, number: int) -> None:
        """``number`` is the fact's position in its record."""
        self._source = source
        self._record = record
        self._number = number

    @property
    def run(self) -> str:  # type: ignore[override]
        """The run's id."""
        return self._source.run_id

    @property
    def seq(self) -> int | None:  # type: ignore[override]
        """Number of the fact."""
        return self._record.first + self._number

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The fact's kind."""
        return type(self._record.facts[self._number]).__name__

    @property
    def node(self) -> str | None:  # type: ignore[override]
        """The node that it is about."""
        return getattr(self._record.facts[self._number], "node", None)

    @property
    def attempt(self) -> int | None:  # type: ignore[override]
        """The attempt that it is about."""
        return getattr(self._record.facts[self._number], "attempt", None)

    @property
    def role(self) -> str | None:  # type: ignore[override]
        """The role of the node."""
        node = self.node
        return None if node is None else self._source.role_of_node(node)

    @property
    def cause(self) -> int | None:  # type: ignore[override]
        """Seq of the fact that led to it."""
        return self._record.first if self._number else (self._record.cause or None)

    @property
    def at(self) -> str:  # type: ignore[override]
        """Wall time, for display."""
        return datetime.fromtimestamp(self._record.wall / 1e9, UTC).isoformat(timespec="milliseconds")

    @property
    def data(self) -> Mapping[str, Any]:  # type: ignore[override]
        """The other fields of the fact."""
        return _data(self._record.facts[self._number], self._record)


def envelopes_of(source: Source, record: Record, kinds: frozenset[str] | None = None) -> list[Envelope]:
    """A record's facts as envelopes.

    Args:
        source: the run. record: its record. kinds: only these; None is all.
    """
    if kinds is None:
        return [FactEnvelope(source, record, number) for number in range(len(record.facts))]
    return [
        FactEnvelope(source, record, number)
        for number, fact in enumerate(record.facts)
        if type(fact).__name__ in kinds
    ]


def _data(fact: Fact, record: Record) -> dict[str, Any]:
    data: dict[str, Any] = {}
    positions = fact.positions
    for name in fact.__struct_fields__:
        if name in _LIFTED:
            continue
        value = getattr(fact, name)
        if name in positions:
            value = None if value is None else msgspec.json.decode(record.values[value])
        elif name == "detail" and isinstance(value, str):
            value = value[:DETAIL_LIMIT]
        elif type(value) not in (str, int, bool, float, type(None)):
            value = msgspec.json.decode(msgspec.json.encode(value))
        data[name] = value
    return data
