"""The generations of one recorded node: what it was given in each, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.facts import (
    EmissionAccepted,
    EmissionRepeated,
    Fact,
    Failure,
    NodeDropped,
    NodeReopened,
)
from orchestrator.core.records import Record
from orchestrator.core.status import Status
from orchestrator.runtime.given import Given, given_to
from orchestrator.runtime.recorded import RecordedRun
from orchestrator.runtime.reliving import Outcome, recorded_outcome

__all__ = ["Generation", "generations"]

_PLAYED = frozenset({Status.COMPLETED, Status.FAILED})


@dataclass(frozen=True, slots=True)
class Generation:
    """One life of a node, between two openings.

    Attributes:
        number: from 1; ``retry`` opens the next. status: how it stood at the end of it.
        given: what it was given when it last started, None if it did not. value: JSON, where it gave one.
        error: why it failed. outcome: what came of it, where it ran and completed or failed.
        dropped: who had grown it was opened again, and it is no node of the run any more.
    """

    number: int
    status: Status
    given: Given | None
    value: bytes | None
    error: Failure | None
    outcome: Outcome | None
    dropped: bool = False


def generations(run: RecordedRun, records: Iterable[Record], name: str) -> list[Generation]:
    """Fold records into ``run`` and tell each generation of a node, in order; none if there is no such node.

    Raises:
        CorruptJournalError: a record is missing or was changed.
    """
    told = _Telling(run, name)
    for record in records:
        for fact in record.facts:
            told.before(fact)
        run.take(record)
    told.end()
    return told.found


class _Telling:
    """One pass over a run's facts, each looked at before its record is applied."""

    def __init__(self, run: RecordedRun, name: str) -> None:
        self.found: list[Generation] = []
        self._run, self._name = run, name
        #: attempts of earlier generations
        self._earlier = 0
        #: attempt -> numbers of what it emitted, in order
        self._said: dict[int, list[int]] = {}

    def before(self, fact: Fact) -> None:
        if getattr(fact, "node", None) != self._name:
            return
        if isinstance(fact, EmissionAccepted | EmissionRepeated):
            self._said.setdefault(fact.attempt, []).append(fact.number)
        elif isinstance(fact, NodeReopened | NodeDropped):
            gone = isinstance(fact, NodeDropped)
            attempts = self._tell(dropped=gone)
            # one that grows again under this name begins anew
            self._earlier = 0 if gone else attempts
            if gone:
                self._said = {}

    def end(self) -> None:
        if self._name in self._run.state.nodes:
            self._tell(dropped=False)

    def _tell(self, *, dropped: bool) -> int:
        """Add the generation that is over, and say how many attempts there were."""
        node = self._run.state.nodes[self._name]
        started = node.attempt > self._earlier
        outcome = None
        if started and node.status in _PLAYED:
            outcome = recorded_outcome(node, self._said.get(node.attempt, ()))
        given = given_to(self._run.state, node) if started else None
        self.found.append(
            Generation(node.generation, node.status, given, node.value, node.error, outcome, dropped)
        )
        return node.attempt
