"""The graph machine: ``handle(command) -> decision``. It decides; it never waits, reads a clock or acts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from emissions import Refused
from orchestrator.core import commands as c
from orchestrator.core import control, including
from orchestrator.core.apply import APPLY
from orchestrator.core.closing import conclude
from orchestrator.core.decisions import Decision, Why
from orchestrator.core.facts import ControlApplied, GraphPlanned, RunStarted
from orchestrator.core.frames import Recorded
from orchestrator.core.outcomes import finish
from orchestrator.core.proposals import take_note
from orchestrator.core.records import Record
from orchestrator.core.restoring import known_nodes
from orchestrator.core.resuming import resume
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status
from orchestrator.core.supersteps.commands import GoOn, Open, Request
from orchestrator.core.table import settle

__all__ = ["HANDLERS", "GraphMachine", "control_in"]


def _start(decision: Decision, command: c.Start) -> None:
    state = decision.state
    decision.fact(
        RunStarted(
            command.run,
            command.plan.name,
            definition=command.definition,
            parent=command.parent,
            parent_node=command.parent_node,
        )
    )
    decision.fact(GraphPlanned(command.plan))
    state.waits_for_answers = command.waits_for_answers
    for note in command.steers:
        take_note(decision, note.text, note.time, None)
    known_nodes(decision, command.known, command.predicates)
    for node in state.nodes.values():
        if node.status is Status.WAITING and node.pending == 0:
            decision.due(node)


def _resume(decision: Decision, command: c.Resume) -> None:
    resume(decision, command)
    for request in command.controls:
        control_in(decision, request)


def _controlled(decision: Decision, command: c.Controlled) -> None:
    control_in(decision, command.request)


def control_in(decision: Decision, request: c.ControlIn | Request) -> None:
    """A request of another process: the same command, the same rule, and a fact that it was applied."""
    if request.fault:
        decision.fact(ControlApplied(request.control, "invalid", request.fault))
        return
    before = len(decision.receipts)
    inner = _read_command(request.command)
    HANDLERS[type(inner)](decision, inner)
    refused = [receipt for receipt in decision.receipts[before:] if isinstance(receipt, Refused)]
    reason, detail = (refused[0].reason, refused[0].detail) if refused else ("", "")
    if request.control:
        # the owner's own answers come without a row
        decision.fact(ControlApplied(request.control, reason, detail))
    # what it led to comes before what the next request is judged by
    settle(decision)


#: What other processes may ask for (engine.md 26).
_read_command = msgspec.json.Decoder(
    c.Pause | c.Unpause | c.Drain | c.Cancel | c.Steer | c.Answer | c.Inject | c.RaiseBudget
).decode

#: Any: the table pairs each command with the function that takes it.
HANDLERS: Mapping[type[c.Command], Callable[[Decision, Any], None]] = {
    c.Start: _start,
    c.Resume: _resume,
    c.Controlled: _controlled,
    c.Finish: finish,
    c.Emit: control.emit,
    c.AttemptStopped: control.attempt_stopped,
    c.Elapsed: control.elapsed,
    c.Cancel: control.cancel_node_or_run,
    c.Pause: control.pause,
    c.Unpause: control.unpause,
    c.Drain: control.drain,
    c.RaiseBudget: control.raise_budget,
    c.Steer: control.steer,
    c.TakeSteers: control.take_steers,
    c.Inject: control.inject_node,
    c.Ask: control.ask,
    c.Answer: control.answer,
    c.Memoise: control.memoise,
    c.BranchMade: control.branch_made,
    c.BranchJoined: control.branch_joined,
    c.ChildStarted: including.child_started,
    c.ChildHeld: including.child_held,
    c.ChildEnded: including.child_ended,
}


#: Commands that say whether somebody answers questions while the run is live.
_TOLD = frozenset({c.Start, c.Resume, Open, GoOn})


class GraphMachine:
    """A run that starts a node when its predecessors have settled.

    Attributes:
        state: what is true now. Read it; only the machine changes it.
    """

    __slots__ = ("_queue", "state")

    def __init__(self) -> None:
        """Begin with an empty run; the first command is Start."""
        self.state = RunState()
        self._queue: deque[tuple[NodeState, Status | None, Why]] = deque()

    def handle(self, command: c.Command, at: int, values: Sequence[bytes] = ()) -> Decision:
        """Decide one command; the facts are applied when this returns.

        Args:
            at: nanoseconds of the run's active time, never below the last command's.
            values: the JSON to which the command refers by position.

        Raises:
            InternalError: a rule asked for what the table does not allow; the run must halt.
        """
        state = self.state
        state.at = at
        decision = Decision(state, command, at, values, self._queue)
        if type(command) is c.Resume or not (state.ended or state.suspended):
            HANDLERS[type(command)](decision, command)
            settle(decision)
            if not state.running or state.live == 0:
                conclude(decision)
        else:
            control.too_late(decision, command)
        return decision

    def replay(self, record: Record) -> None:
        """Apply a recorded command's facts; nothing is decided again."""
        state, command, at = self.state, record.command, record.at
        state.at = at
        if type(command) in _TOLD:
            state.waits_for_answers = command.waits_for_answers  # type: ignore[attr-defined]
        frame = Recorded(at, [bytes(value) for value in record.values])
        for fact in record.facts:
            state.facts += 1
            APPLY[type(fact)](state, fact, frame)
