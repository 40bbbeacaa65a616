"""The command that goes on from where a run stopped: one table for results, the command line and pages."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Final

from orchestrator.core.state import RunState
from orchestrator.core.status import RunReason

__all__ = ["next_command"]


def next_command(state: RunState, reason: RunReason) -> str:
    """The command that goes on; empty if nothing is left to do. Words in capitals are for people to fill in.

    Args:
        state: the run's. reason: why it stopped, which the state does not know of a journal that failed.
    """
    if state.steps is not None and reason in _OF_GRAPHS:
        # the step is behind the run, which neither a fork nor a node from outside changes
        return f"callboard run {shlex.quote(state.definition.source)}" if state.definition.source else ""
    make = _COMMANDS.get(reason)
    said = "" if make is None else make(state)
    return f"callboard {said}" if said else ""


def _plain(verb: str) -> Callable[[RunState], str]:
    return lambda state: f"{verb} {state.run}"


def _answer(state: RunState) -> str:
    for node in state.nodes.values():
        for question in (node.questions or {}).values():
            if question.answer is None:
                return f"answer {state.run} {shlex.quote(question.key)} VALUE"
    return f"answer {_held(state, RunReason.AWAITING_ANSWER)} KEY VALUE"


def _held(state: RunState, reason: RunReason) -> str:
    """The run of an included flow that was suspended for this reason; else the run itself."""
    return next((node.child_run for node in state.nodes.values() if node.held == reason), state.run)


def _decide(state: RunState) -> str:
    gates = (node.op.name for node in state.nodes.values() if node.judgement == "undecided")
    run = _held(state, RunReason.GATE_UNDECIDED)
    return f"answer {run} {next(gates, 'GATE')} VERDICT --because TEXT"


def _overrule(state: RunState) -> str:
    gate = next(iter(state.rejected), "GATE")
    return f"fork {state.run} --at {gate} --answer VERDICT --because TEXT"


def _raise(state: RunState) -> str:
    return f"resume {state.run} --budget {state.detail or 'NAME'}=VALUE"


#: Reasons whose command is for graphs: a run in steps takes a new input, or begins again.
_OF_GRAPHS: Final = frozenset(
    {RunReason.GATE_REJECTED, RunReason.REFUSALS_EXHAUSTED, RunReason.CANCELLED, RunReason.STUCK}
)

_COMMANDS: Final[Mapping[RunReason, Callable[[RunState], str]]] = {
    RunReason.FAILED: _plain("retry"),
    RunReason.GATE_REJECTED: _overrule,
    RunReason.REFUSALS_EXHAUSTED: _overrule,
    RunReason.CANCELLED: lambda state: f"fork {state.run} --at SEQ",
    RunReason.GATE_UNDECIDED: _decide,
    RunReason.AWAITING_ANSWER: _answer,
    RunReason.BUDGET_EXHAUSTED: _raise,
    RunReason.DEADLINE: lambda state: f"resume {state.run} --budget wall_clock=VALUE",
    RunReason.QUOTA: _plain("resume"),
    RunReason.DRAINED: _plain("resume"),
    RunReason.INTERRUPTED: _plain("resume"),
    RunReason.STUCK: lambda state: f"inject {state.run} ROLE --instruction TEXT",
    RunReason.NEEDS_RECOVERY: _plain("doctor"),
}
