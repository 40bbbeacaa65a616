"""A record: one command with the facts that were decided for it. One record is one row of the journal.

``first`` is the number of its first fact; facts are numbered over the whole run, and that number is
the ``seq`` of envelopes. Runs of NodeReady are stored as one NodesReady and unfolded on reading, so
that a fan of 10,000 nodes is not 10,000 objects on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Union

import msgspec

from orchestrator.core.commands import COMMANDS, Command
from orchestrator.core.facts import FACTS, Fact, NodeReady

__all__ = ["NodesReady", "Record", "decode_record", "encode_record"]


class NodesReady(Fact, frozen=True):
    """Several NodeReady facts in a row, none of which handles a failure."""

    nodes: tuple[str, ...]


if TYPE_CHECKING:
    _AnyCommand = Command
    _AnyFact = Fact
else:
    # the closed unions by which a decoder knows every kind; built from the tables
    _AnyCommand = Union[COMMANDS]  # noqa: UP007 (built from the table)
    _AnyFact = Union[(*FACTS, NodesReady)]


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
    command: _AnyCommand
    facts: list[_AnyFact]
    values: list[msgspec.Raw] = []
    cause: int = 0
    wall: int = 0

    @property
    def last(self) -> int:
        """Number of its last fact."""
        return self.first + len(self.facts) - 1


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
#: Shorter records are written as they are: a fold saves nothing there and costs a look at every fact.
_FOLD_FROM = 8


def _folded(facts: Sequence[Fact]) -> list[Fact]:
    out: list[Fact] = []
    run: list[NodeReady] = []
    for fact in facts:
        if type(fact) is NodeReady and not fact.handles:
            run.append(fact)
            continue
        _flush(run, out)
        out.append(fact)
    _flush(run, out)
    return out


def _flush(run: list[NodeReady], out: list[Fact]) -> None:
    if len(run) < _FOLD_FROM:
        out.extend(run)
    else:
        out.append(NodesReady(tuple(fact.node for fact in run)))
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
    facts, values = record.facts, record.values
    if NodesReady in map(type, facts):
        facts[:] = _unfolded(facts)
    for position, value in enumerate(values):
        # a Raw that was read keeps the whole record alive: take a copy
        values[position] = value.copy()
    return record


def _unfolded(facts: Sequence[Fact]) -> list[Fact]:
    out: list[Fact] = []
    for fact in facts:
        if type(fact) is NodesReady:
            out.extend(NodeReady(name) for name in fact.nodes)
        else:
            out.append(fact)
    return out
