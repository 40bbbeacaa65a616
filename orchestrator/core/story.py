"""The story of one node: every fact about it, in order, with what led to it, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.core import facts as f
from orchestrator.core.records import Record
from orchestrator.core.spec import Edge

__all__ = ["story"]

#: A field longer than this is cut in a line; the record holds the whole.
_SHOWN = 120
_MILLISECOND = 1_000_000
#: Fields that the line shows in its own way.
_APART = frozenset({"node", "operation", "edges", "plan", "traceback"})


def story(records: Iterable[Record], node: str) -> list[str]:
    """One line for each fact about ``node``.

    Args:
        records: a run's records, in order. They may begin anywhere.
        node: the node's name.

    Returns:
        Lines such as ``#12 +40ms NodeStarted attempt=1 <- Finish of 'scan' (#9)``: the fact's number, the
        run's active time, what was decided, the command that led to it and the fact that led to that.
        A node that no fact names has no lines.
    """
    return [line for record in records for line in _lines(record, node)]


def _lines(record: Record, node: str) -> Iterator[str]:
    for number, fact in enumerate(record.facts, record.first):
        text = _about(fact, node, record.values)
        if text is not None:
            yield f"#{number} +{record.at // _MILLISECOND}ms {text} <- {_cause(record)}"


def _cause(record: Record) -> str:
    command = record.command
    of = getattr(command, "node", None)
    text = type(command).__name__ + (f" of {of!r}" if of else "")
    return text + (f" (#{record.cause})" if record.cause else "")


def _about(fact: f.Fact, node: str, values: Sequence[msgspec.Raw]) -> str | None:
    """What the fact says of the node, or None if it says nothing."""
    told = _TELLERS.get(type(fact))
    if told is not None:
        return told(fact, node)
    return _plain(fact, values) if getattr(fact, "node", None) == node else None


def _plain(fact: f.Fact, values: Sequence[msgspec.Raw] = ()) -> str:
    """The fact's kind and the fields that are set; what is a position in ``values`` as that value."""
    parts = [type(fact).__name__]
    for field in msgspec.structs.fields(fact):
        value = getattr(fact, field.name)
        if field.name in _APART or value == field.default:
            continue
        if field.name not in fact.positions:
            parts.append(f"{field.name}={_short(value)}")
        elif value < len(values):
            parts.append(f"{field.name}={_short(_begun(values[value]))}")
    return " ".join(parts)


def _begun(value: msgspec.Raw) -> str:
    """The beginning of a value's JSON, longer than what is shown of it."""
    return bytes(value)[: 4 * (_SHOWN + 1)].decode(errors="ignore")


def _short(value: object) -> str:
    if isinstance(value, f.Failure):
        value = f"{value.type}: {value.message}"
    text = str(value) if isinstance(value, str | int | float) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _edges(edges: Sequence[Edge], node: str) -> str:
    waits = [edge.source for edge in edges if edge.target == node]
    held = [edge.target for edge in edges if edge.source == node]
    text = f" waits for {', '.join(waits)}" if waits else ""
    return text + (f" holds back {', '.join(held)}" if held else "")


def _planned(fact: f.GraphPlanned, node: str) -> str | None:
    for operation in fact.plan.operations:
        if operation.name == node:
            return "GraphPlanned:" + (_edges(fact.plan.edges, node) or " a root")
    return None


def _added(fact: f.NodeAdded, node: str) -> str | None:
    edges = _edges(fact.edges, node)
    if fact.operation.name == node:
        return f"NodeAdded by {fact.parent or 'somebody outside'}, depth {fact.depth}:{edges or ' a root'}"
    if fact.parent == node:
        return f"NodeAdded: its child {fact.operation.name}" + (" takes its place" if fact.splice else "")
    return f"NodeAdded of {fact.operation.name}: it{edges}" if edges else None


def _ready(fact: f.NodeReady, node: str) -> str | None:
    if fact.node == node:
        return _plain(fact)
    return f"NodeReady of {fact.node} accepts its failure" if node in fact.handles else None


def _vetoed(fact: f.NodeVetoed, node: str) -> str | None:
    if fact.node == node:
        return _plain(fact)
    return f"NodeVetoed: {fact.node}, because this gate rejected" if node in fact.gates else None


def _round(fact: f.RoundStarted, node: str) -> str | None:
    if fact.node == node:
        names = ", ".join(one.operation.name for one in fact.nodes)
        return f"RoundStarted: it sent the work back ({fact.refusals} of {fact.allowed}): {names}"
    for one in fact.nodes:
        if one.operation.name == node:
            return f"RoundStarted by {fact.node}: takes up {one.previous}{_edges(fact.edges, node)}"
        if one.previous == node:
            return f"RoundStarted by {fact.node}: {one.operation.name} takes up its work"
    moved = [move.to or "nothing" for move in fact.moved if move.target == node]
    return f"RoundStarted by {fact.node}: it waits for {', '.join(dict.fromkeys(moved))}" if moved else None


def _suspended(fact: f.RunSuspended, node: str) -> str | None:
    waits = fact.waiters.get(node)
    return None if waits is None else f"RunSuspended ({fact.reason}): it waits for {waits}"


def _told_to_all(fact: f.CancelRequested | f.DrainRequested, _node: str) -> str:
    return _plain(fact)


#: Facts that tell of a node without being about it. Any: each teller takes its own kind of fact.
_TELLERS: Mapping[type[f.Fact], Callable[[Any, str], str | None]] = {
    f.GraphPlanned: _planned,
    f.NodeAdded: _added,
    f.NodeReady: _ready,
    f.NodeVetoed: _vetoed,
    f.RoundStarted: _round,
    f.RunSuspended: _suspended,
    f.CancelRequested: _told_to_all,
    f.DrainRequested: _told_to_all,
}
