"""The one envelope: taps, ``--json``, the watch, server-sent events and the journal's reader use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from orchestrator.core.facts import Fact
from orchestrator.core.records import Record

__all__ = ["DETAIL_LIMIT", "VERSION", "Envelope", "envelopes_of"]

#: Version of the envelope. Within one version fields are added, never changed.
VERSION: Final = 1
#: A refusal's published detail is cut here; receipt and journal hold the whole.
DETAIL_LIMIT: Final = 500

_LIFTED = frozenset({"node", "attempt"})


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """One event as everybody outside the kernel sees it.

    Attributes:
        run: the run's id. seq: number of the fact in its run; None for progress, which is not journaled.
        kind: the fact's kind. node, attempt, role: whom it is about; stamped by the house, never read
            from a payload. cause: seq of the fact that led to it; None if it came from outside.
        at: wall time, ISO 8601 in UTC, for display only. data: the other fields of the fact as JSON data.
        v: version of this layout.
    """

    run: str
    seq: int | None
    kind: str
    node: str | None = None
    attempt: int | None = None
    role: str | None = None
    cause: int | None = None
    at: str = ""
    data: Mapping[str, Any] = {}
    v: int = VERSION

    def json(self) -> bytes:
        """The envelope as one line of JSON."""
        return msgspec.json.encode(self)


def envelopes_of(
    run: str,
    record: Record,
    role_of: Callable[[str], str | None],
    kinds: frozenset[str] | None = None,
) -> Iterator[Envelope]:
    """A record's facts as envelopes.

    Args:
        run: the run's id. role_of: node -> its role. kinds: only these; None is all.
    """
    at = datetime.fromtimestamp(record.wall / 1e9, UTC).isoformat(timespec="milliseconds")
    for number, fact in enumerate(record.facts):
        kind = type(fact).__name__
        if kinds is not None and kind not in kinds:
            continue
        node = getattr(fact, "node", None)
        yield Envelope(
            run,
            record.first + number,
            kind,
            node,
            getattr(fact, "attempt", None),
            None if node is None else role_of(node),
            (record.cause or None) if number == 0 else record.first,
            at,
            _data(fact, record),
        )


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
