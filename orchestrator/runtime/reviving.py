"""Reviving a run from its log: fold its records, find its functions, be ready to go on."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchestrator.core.laws import check
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record
from orchestrator.core.resuming import EVERY_FAILED, can_reopen, reopened_by
from orchestrator.core.state import RunState
from orchestrator.core.status import RunReason, Status
from orchestrator.errors import CorruptJournalError, OperationError
from orchestrator.journal.runlog import RunLog
from orchestrator.journal.seam import Journal
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.planning import Prepared
from orchestrator.runtime.recovery import Recovery
from orchestrator.runtime.wiring import Wiring

__all__ = ["refuse", "refuse_thread", "revive"]

#: Records that are read at once: so few that they stay in the processor's cache until they are folded.
_PAGE = 200


def revive(run_id: str, wiring: Wiring, recovery: Recovery, find: Callable[[RunState], Prepared]) -> Engine:
    """An engine that goes on with a run.

    Args:
        wiring: with the run's log. recovery: how it goes on.
        find: gives what drives a run with this state.

    Raises:
        OperationError: the run has nothing to go on with, or a function is missing.
        CorruptJournalError: what is recorded breaks a law.
    """
    log = wiring.journal
    with _uncollected():
        machine, last = _folded(log)
        state = machine.state
        broken = check(state, folded=True)
    if last is None or not state.run:
        message = f"run {run_id} has no first record: it was killed before it began; start it again"
        raise OperationError(message)
    if broken:
        message = (
            f"run {run_id}: what is recorded breaks a law: {broken[0]}; look at it with callboard doctor"
        )
        raise CorruptJournalError(message)
    refuse(state, recovery.reopen)
    engine = Engine(run_id, find(state), wiring, state.definition, machine)
    engine.kernel.recovered(last)
    if isinstance(log, RunLog):
        rows = log.pending_controls(max(state.controls, default=0))
        recovery = dataclasses.replace(recovery, rows=rows)
    engine.recovery = recovery
    return engine


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the cyclic collector: what is folded lives as long as its run, and holds no cycle."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _folded(log: Journal) -> tuple[GraphMachine, Record | None]:
    machine, last = GraphMachine(), None
    for start in range(0, len(log), _PAGE):
        for record in log.read(start, start + _PAGE):
            machine.replay(record)
            last = record
    return machine, last


def refuse_thread(state: RunState) -> None:
    """Refuse a stepped run: only who compiled its graph knows its functions.

    Raises:
        OperationError: it is one; says where it goes on.
    """
    if state.steps is not None and not state.definition.source:
        message = (
            f"run {state.run} is a thread of a stepped graph; go on where that is compiled: invoke(None)"
        )
        raise OperationError(message)


def refuse(state: RunState, reopen: tuple[str, ...]) -> None:
    """Say why a run cannot go on in this way, if it cannot.

    Args:
        reopen: nodes that are to run again, as ``Recovery.reopen``; empty to resume.

    Raises:
        OperationError: it has ended, or there is nothing to retry.
    """
    if not state.run:
        message = "the run has no first record: it was killed before it began; start it again"
        raise OperationError(message)
    refuse_thread(state)
    if state.ended and not reopen:
        hint = f"; what failed runs again: callboard retry {state.run}" if state.ended == "failed" else ""
        message = f"run {state.run} has ended ({state.ended}); nothing of it is left to resume{hint}"
        raise OperationError(message)
    if reopen and RunReason.CANCELLED in {state.cancelling, state.ended}:
        message = f"run {state.run} was cancelled, for good; go on from a part: callboard fork {state.run}"
        raise OperationError(message)
    for name in reopen:
        if name == EVERY_FAILED:
            continue
        node = state.nodes.get(state.in_round(name))
        if node is None:
            message = f"run {state.run} has no node {name!r}; there are {', '.join(state.nodes)}"
            raise OperationError(message)
        if node.status is not Status.FAILED and node.judgement != "undecided":
            message = f"{name} is {node.status.value}; only a failed node or an undecided gate is run again"
            raise OperationError(message)
        if not can_reopen(state, node):
            message = (
                f"{name} cannot run again: it rejected, its round is over, or a node that accepts its "
                f"failure is under way"
            )
            raise OperationError(message)
    if reopen and not reopened_by(state, reopen):
        message = f"run {state.run} has no failed node and no undecided gate; there is nothing to retry"
        raise OperationError(message)
