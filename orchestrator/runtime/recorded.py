"""Runs as they are recorded: read by any process, folded to what they came to. Nothing runs here."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from orchestrator.core.context import Reducer
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record
from orchestrator.core.state import RunState
from orchestrator.core.status import RunReason
from orchestrator.journal.owning import owned
from orchestrator.journal.reading import JournalReader, RunInfo
from orchestrator.runtime.outputs import render_outputs
from orchestrator.runtime.projections import run_result
from orchestrator.runtime.results import RunResult

__all__ = ["LIVE", "RecordedRun", "read_run", "standing"]

#: What people see for a run that a process drives now.
LIVE: Final = "live"


class RecordedRun:
    """A run folded up to the last record that it was given; what envelopes and lines are told of.

    Attributes:
        run_id: the run's id. state: what is true. seq: number of the last record. wall: when it was decided,
            nanoseconds since 1970. live: a process drove it when it was read.
    """

    reducers: Mapping[str, Reducer] = {}
    log = logging.getLogger("callboard.run")

    def __init__(self, run_id: str, *, live: bool = False) -> None:
        """Begin empty."""
        self.run_id, self.live = run_id, live
        self.seq = self.wall = 0
        self._machine = GraphMachine()
        self._planned: frozenset[str] | None = None

    @property
    def state(self) -> RunState:
        """What is true after the last record."""
        return self._machine.state

    @property
    def planned(self) -> frozenset[str]:
        """Names of nodes that did not grow."""
        if self._planned is None or len(self._planned) != len(self.state.plan.operations):
            self._planned = frozenset(operation.name for operation in self.state.plan.operations)
        return self._planned

    def role_of_node(self, node: str) -> str | None:
        """The name of a node's role."""
        known = self.state.nodes.get(node)
        return None if known is None else known.op.role

    def take(self, record: Record) -> None:
        """Fold the next record."""
        self._machine.replay(record)
        self.seq, self.wall = record.seq, record.wall

    def take_all(self, records: Iterable[Record]) -> None:
        """Fold the next records."""
        for record in records:
            self.take(record)

    @property
    def standing(self) -> str:
        """``live``, or why it stopped; a run whose process died without a word was interrupted."""
        stopped = self.state.ended or self.state.suspended
        return LIVE if self.live and not stopped else stopped or str(RunReason.INTERRUPTED)

    @property
    def seconds(self) -> float:
        """How long it was driven."""
        return self.state.at / 1e9

    def result(self) -> RunResult:
        """What it came to so far."""
        outputs = render_outputs(self.state.definition.outputs, self)
        return run_result(self.state, outputs=outputs)


def standing(info: RunInfo) -> str:
    """The same word from a line of the list of runs."""
    if info.live and info.stopped is None:
        return LIVE
    return info.reason or str(RunReason.INTERRUPTED)


def read_run(reader: JournalReader, run: str) -> RecordedRun:
    """A recorded run.

    Args:
        run: its whole id.

    Raises:
        CorruptJournalError: a record is missing or was changed.
    """
    found = RecordedRun(run, live=owned(reader.path, run))
    found.take_all(reader.records(run))
    return found
