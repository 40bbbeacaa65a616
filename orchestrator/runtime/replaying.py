"""Deciding a recorded run again: the same commands must lead to the same facts. No role runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from orchestrator.core.facts import Fact, RunStarted
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record
from orchestrator.core.supersteps.commands import Open
from orchestrator.core.supersteps.machine import SuperstepMachine

__all__ = ["Divergence", "replay"]

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place at which deciding again gives something else.

    Attributes:
        record: number of the record. seq: number of the fact. command: what was decided, with its node.
        recorded, decided: the fact as it is recorded and as it is decided now; empty where there is none.
    """

    record: int
    seq: int
    command: str
    recorded: str
    decided: str

    def __str__(self) -> str:
        """One line."""
        return (
            f"record {self.record}, #{self.seq}, {self.command}: recorded {self.recorded or 'nothing'}, "
            f"decided again {self.decided or 'nothing'}"
        )


def replay(records: Iterable[Record]) -> tuple[int, Divergence | None]:
    """Decide every command again.

    Args:
        records: the whole of a run, from its first.

    Returns:
        How many records were decided again, and the first difference, or None.
    """
    machine: GraphMachine | None = None
    count = 0
    for record in records:
        if machine is None:
            # a thread of a stepped graph begins otherwise than a run of a graph
            machine = SuperstepMachine() if isinstance(record.command, Open) else GraphMachine()
        found = _differs(machine, record)
        if found is not None:
            return count, found
        count += 1
    return count, None


def _differs(machine: GraphMachine, record: Record) -> Divergence | None:
    try:
        decided = machine.handle(record.command, record.at, [bytes(value) for value in record.values]).facts
    except Exception as error:  # noqa: BLE001 (that it cannot be decided is the difference)
        decided = []
        return _divergence(record, 0, decided, f"{type(error).__name__}: {error}"[:_SHOWN])
    recorded = [_plain(fact) for fact in record.facts]
    if decided == recorded:
        return None
    pairs = zip(recorded, decided, strict=False)
    at = next((number for number, (old, new) in enumerate(pairs) if old != new), None)
    return _divergence(record, min(len(recorded), len(decided)) if at is None else at, decided)


def _plain(fact: Fact) -> Fact:
    """A fact as it is decided: where a fork comes from is written down when its history is copied."""
    if isinstance(fact, RunStarted) and fact.origin:
        return msgspec.structs.replace(fact, origin="", at=0, change="")
    return fact


def _divergence(record: Record, at: int, decided: Sequence[Fact], raised: str = "") -> Divergence:
    node = getattr(record.command, "node", None)
    command = type(record.command).__name__ + (f" of {node}" if node else "")
    return Divergence(
        record.seq,
        record.first + at,
        command,
        _shown(record.facts, at),
        raised or _shown(decided, at),
    )


def _shown(facts: Sequence[Fact], at: int) -> str:
    return msgspec.json.encode(facts[at]).decode()[:_SHOWN] if at < len(facts) else ""
