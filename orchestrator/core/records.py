"""A record: one command with the facts that were decided for it. One record is one row of the journal.

``first`` is the number of its first fact; facts are numbered over the whole run, and that number is
the ``seq`` of envelopes. Runs of NodeReady are stored as one NodesReady and unfolded on reading, so
that a fan of 10,000 nodes is not 10,000 objects on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import msgspec

from orchestrator.core.commands import COMMANDS
from orchestrator.core.facts import FACTS, Fact, NodeReady

__all__ = ["Record", "decode_record", "encode_record"]


class NodesReady(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=True):
    """Several NodeReady facts in a row, none of which handles a failure."""

    nodes: tuple[str, ...]


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One command and its facts.

    Attributes:
        seq: number of the record in its run, from 1.
        first: number of its first fact, from 1.
        at: nanoseconds of active time (engine.md 28).
        command: what was asked. facts: what was decided. values: the JSON they refer to by position.
        cause: number of the fact that led to the command; 0 if it came from outside.
        wall: nanoseconds since 1970, for display only.
    """

    seq: int
    first: int
    at: int
    command: Union[COMMANDS]  # type: ignore[valid-type]  # noqa: UP007 (built from the table)
    facts: list[Union[(*FACTS, NodesReady)]]  # type: ignore[valid-type]  # noqa: UP007
    values: list[msgspec.Raw] = []
    cause: int = 0
    wall: int = 0

    @property
    def last(self) -> int:
        """Number of its last fact."""
        return self.first + len(self.facts) - 1


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_FOLD_FROM = 4


def _folded(facts: Sequence[Fact]) -> list[object]:
    out: list[object] = []
    run: list[Fact] = []
    for fact in facts:
        if type(fact) is NodeReady and not fact.handles:
            run.append(fact)
            continue
        _flush(run, out)
        out.append(fact)
    _flush(run, out)
    return out


def _flush(run: list[Fact], out: list[object]) -> None:
    if len(run) < _FOLD_FROM:
        out.extend(run)
    else:
        out.append(NodesReady(tuple(fact.node for fact in run)))  # type: ignore[attr-defined]
    run.clear()


def encode_record(record: Record) -> bytes:
    """The record as JSON bytes, keys in a fixed order."""
    if len(record.facts) > _FOLD_FROM:
        record = msgspec.structs.replace(record, facts=_folded(record.facts))
    return _encoder.encode(record)


def decode_record(data: bytes) -> Record:
    """Read what :func:`encode_record` wrote.

    Raises:
        msgspec.ValidationError: an unknown fact or command, or a wrong layout.
    """
    record = _decoder.decode(data)
    facts: list[Fact] = []
    for fact in record.facts:
        if type(fact) is NodesReady:
            facts.extend(NodeReady(name) for name in fact.nodes)
        else:
            facts.append(fact)
    # a Raw that was read keeps the whole record alive: take a copy
    values = [value.copy() for value in record.values]
    return msgspec.structs.replace(record, facts=facts, values=values)
