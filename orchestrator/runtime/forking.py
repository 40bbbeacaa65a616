"""A fork: a new run that shares a history up to a record, with a change, and goes on from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from orchestrator.core.commands import Known, Start
from orchestrator.core.facts import Fact, RunStarted
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record
from orchestrator.core.state import RunState
from orchestrator.core.status import Status
from orchestrator.core.supersteps.commands import Open
from orchestrator.errors import JournalError, OperationError
from orchestrator.journal import Journal
from orchestrator.runtime.streams import SETTLING
from orchestrator.runtime.values import settle

__all__ = ["change_of", "copy_history", "cut", "fold", "in_rounds", "outcomes_of"]


T = TypeVar("T")


def fold(records: Iterable[Record]) -> RunState:
    """What was true after the last of these records."""
    machine = GraphMachine()
    for record in records:
        machine.replay(record)
    return machine.state


def cut(records: Sequence[Record], at: str | int | None, named: Iterable[str]) -> list[Record]:
    """The records that a fork shares with its origin.

    Args:
        records: the whole origin. at: number of the last fact that is shared, or a node: everything before
            the record in which it settled; None is before the first of ``named`` settled, else everything.

    Raises:
        OperationError: the origin has no such fact or node.
    """
    if isinstance(at, int):
        shared = [record for record in records if record.last <= at]
        if not shared:
            message = f"no record ends at fact {at} or before; the first ends at {records[0].last}"
            raise OperationError(message)
        return shared
    nodes = {at} if at is not None else set(named)
    for index, record in enumerate(records):
        if any(type(fact) in SETTLING and getattr(fact, "node", None) in nodes for fact in record.facts):
            return list(records[:index])
    if at is not None:
        message = f"{at!r} has not settled in that run; give a node that has, or the number of a fact"
        raise OperationError(message)
    return list(records)


def change_of(values: Mapping[str, Any], answers: Mapping[str, str]) -> str:
    """What a fork changes, in words for its first record."""
    parts = [f"{node} is given a value" for node in values]
    return ", ".join([*parts, *(f"{gate} is answered {verdict}" for gate, verdict in answers.items())])


def in_rounds(origin: RunState, named: Mapping[str, T]) -> dict[str, T]:
    """What is said of nodes, by their names in that run: a bare one means the latest round."""
    return {origin.in_round(name): said for name, said in named.items()}


def copy_history(
    records: Sequence[Record],
    log: Journal,
    run: str,
    origin: str,
    change: str,
    parent: tuple[str, str] = ("", ""),
) -> None:
    """Begin the log of ``run`` with ``records``; the first names where they come from and what changes.

    Args:
        parent: of the copy of a child run: the run that calls it, and the node there.

    Raises:
        JournalError: the log did not take them.
    """
    first = records[0]
    command = first.command
    if isinstance(command, Start | Open):
        command = msgspec.structs.replace(command, run=run)
    at = records[-1].last
    facts: list[Fact] = [
        msgspec.structs.replace(
            fact, run=run, origin=origin, at=at, change=change, parent=parent[0], parent_node=parent[1]
        )
        if isinstance(fact, RunStarted)
        else fact
        for fact in first.facts
    ]
    begun = msgspec.structs.replace(first, command=command, facts=facts)
    faults: list[BaseException] = []

    def done(error: BaseException | None = None) -> None:
        if error is not None:
            faults.append(error)

    log.submit([begun, *records[1:]], done)
    log.flush()
    if faults:
        message = f"the fork of {origin} could not be begun: {faults[0]}"
        raise JournalError(message) from faults[0]


def outcomes_of(
    origin: RunState, values: Mapping[str, Any], answers: Mapping[str, str], by: str, because: str
) -> tuple[tuple[Known, ...], list[bytes]]:
    """What a fork settles by itself, as the core takes it, with the JSON that it refers to.

    Args:
        origin: the whole origin: a gate that is answered keeps the value that it had there.
        values: node -> value. answers: gate -> verdict. by, because: who answers, and why.

    Raises:
        OperationError: no such node.
    """
    known: list[Known] = []
    raw: list[bytes] = []
    for name in (*values, *answers):
        if name not in origin.nodes:
            message = f"run {origin.run} has no node {name!r}; there are {', '.join(origin.nodes)}"
            raise OperationError(message)
    for name, value in values.items():
        raw.append(settle(value, name)[0])
        known.append(Known(name, Status.COMPLETED, len(raw) - 1))
    for name, verdict in answers.items():
        raw.append(origin.nodes[name].value or b"null")
        known.append(
            Known(name, Status.COMPLETED, len(raw) - 1, verdict=str(verdict), by=by, because=because)
        )
    return tuple(known), raw
