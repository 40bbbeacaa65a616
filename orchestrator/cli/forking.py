"""``callboard fork``: a new run that shares a history, with one change."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from emissions import VerdictValue
from orchestrator.cli.controlling import who
from orchestrator.cli.exits import INTERRUPTED
from orchestrator.cli.journals import find, reading
from orchestrator.cli.onward import Onward, agreed
from orchestrator.cli.opening import UsageError, any_value, pairs
from orchestrator.cli.options import ForkOptions
from orchestrator.flows.names import suggestion
from orchestrator.runtime.forking import change_of, cut, in_rounds
from orchestrator.runtime.forking import fold as folded
from orchestrator.runtime.recovery import outlook
from orchestrator.runtime.run import Run
from orchestrator.runtime.session import Session

__all__ = ["fork"]


@dataclass(frozen=True, slots=True)
class _Change:
    """What is changed: where the runs part, values by node, verdicts by gate."""

    at: str | int | None
    values: dict[str, Any]
    answers: dict[str, str]


def fork(options: ForkOptions) -> int:
    """Begin the new run and drive it; returns the exit code of its reason.

    Raises:
        UsageError, OperationError: it cannot be forked in this way. JournalError: see ``reading``.
    """
    change = _change(options)
    with reading(options.driving.journal) as (reader, place):
        origin = find(reader, options.run)
        records = list(reader.records(origin))
    if not records:
        raise UsageError(f"run {origin} was killed before it began: there is nothing to share")
    whole = folded(records)
    if whole.steps is not None:
        raise UsageError(
            f"run {origin} ran in steps; where its graph is compiled in code: app.fork(thread, at=CHECKPOINT)"
        )
    change = _Change(
        whole.in_round(change.at) if isinstance(change.at, str) else change.at,
        in_rounds(whole, change.values),
        in_rounds(whole, change.answers),
    )
    for name in (*change.values, *change.answers):
        if name not in whole.nodes:
            raise UsageError(f"run {origin} has no node {name!r}{suggestion(name, whole.nodes)}")
    shared = cut(records, change.at, (*change.values, *change.answers))
    if not shared:
        raise UsageError(f"run {origin} has no history before that; start it again instead")
    state = folded(shared)
    said = change_of(change.values, change.answers)
    after = f"fork of {origin} after #{state.facts}{f', {said}' if said else ''}"
    line = f"{after}: {outlook(state, given=(*change.values, *change.answers))}"
    if not agreed(line, options.driving, yes=options.yes):
        return INTERRUPTED

    def begin(session: Session) -> Awaitable[Run]:
        return session.fork(
            origin,
            at=change.at,
            values=change.values,
            answers=change.answers,
            by=who(),
            because=options.because,
            new_definition=options.new_definition,
        )

    return Onward(options.driving, place, state.facts, whole.definition.source).drive(begin)


def _change(options: ForkOptions) -> _Change:
    """What a person asked for, checked as far as it can be without the run.

    Raises:
        UsageError: it says nothing, or contradicts itself.
    """
    values = {
        node: any_value(text, f"--value {node}", strict=True)
        for node, text in pairs(options.values, "--value").items()
    }
    at = int(options.at) if options.at is not None and options.at.isdecimal() else options.at
    if at is None and not values:
        raise UsageError("say where the runs part (--at NODE or --at SEQ), or what is changed (--value)")
    if options.answer is None:
        return _Change(at, values, {})
    verdict = options.answer.upper()
    if not isinstance(at, str):
        raise UsageError("--answer is the verdict of a gate; name the gate: --at GATE")
    if verdict not in tuple(VerdictValue):
        raise UsageError(f"{options.answer!r} is no verdict; write one of {', '.join(VerdictValue)}")
    return _Change(at, values, {at: verdict})
