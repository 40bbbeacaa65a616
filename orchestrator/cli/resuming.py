"""``callboard resume`` and ``retry``: what they will do, a question, and then the run goes on."""

from __future__ import annotations

import math
from collections.abc import Awaitable

from orchestrator.cli.asking import can_ask
from orchestrator.cli.controlling import ask_owner
from orchestrator.cli.edge import say
from orchestrator.cli.exits import INTERRUPTED
from orchestrator.cli.journals import Place, reading, recorded
from orchestrator.cli.onward import Onward, agreed
from orchestrator.cli.opening import UsageError, pairs
from orchestrator.cli.options import GoOnOptions
from orchestrator.core.resuming import EVERY_FAILED
from orchestrator.core.spec import Budget
from orchestrator.core.state import RunState
from orchestrator.journal.reading import JournalReader
from orchestrator.runtime.recorded import LIVE, RecordedRun
from orchestrator.runtime.recovery import outlook
from orchestrator.runtime.reviving import refuse
from orchestrator.runtime.run import Run
from orchestrator.runtime.session import Session

__all__ = ["go_on"]

_NOT_NUMBERS = frozenset({"assignees"})


def go_on(options: GoOnOptions) -> int:
    """Go on with a run; returns the exit code of its reason.

    Raises:
        UsageError, OperationError: it cannot go on in this way. JournalError: it cannot be read or owned.
    """
    budget = _limits(options)
    with reading(options.driving.journal) as (reader, place):
        run = recorded(reader, options.run)
        if run.standing == LIVE:
            return _tell_owner(reader, place, run, options, budget)
        reopen = _reopened(options)
        refuse(run.state, reopen)
        _check_budget(run.state, budget)
        line = f"run {run.run_id} ({run.standing}): {outlook(run.state, reopen)}"
        onward = Onward(options.driving, place, run.state.facts, run.state.definition.source, options.model)
    if not agreed(line, options.driving, yes=options.yes):
        return INTERRUPTED
    asks = can_ask() and not options.driving.quiet

    def begin(session: Session) -> Awaitable[Run]:
        changed = options.new_definition
        if options.nodes is None:
            return session.resume(run.run_id, budget=budget, new_definition=changed, waits_for_answers=asks)
        return session.retry(run.run_id, options.nodes or None, budget=budget, new_definition=changed)

    return onward.drive(begin)


def _reopened(options: GoOnOptions) -> tuple[str, ...]:
    return () if options.nodes is None else options.nodes or (EVERY_FAILED,)


def _tell_owner(
    reader: JournalReader, place: Place, run: RecordedRun, options: GoOnOptions, budget: dict[str, float]
) -> int:
    """A live run goes on by itself: its owner is told to let a pause go and to raise what is asked."""
    if options.nodes is not None or not (run.state.paused or budget):
        watch = place.typed(f"callboard watch {run.run_id}")
        raise UsageError(f"run {run.run_id} is live, another process drives it; follow it: {watch}")
    _check_budget(run.state, budget)
    for name, limit in budget.items():
        say(ask_owner(reader, place, run, "budget", {"name": name, "limit": limit}))
    if run.state.paused:
        say(ask_owner(reader, place, run, "resume", {}))
    return 0


def _limits(options: GoOnOptions) -> dict[str, float]:
    """``K=V`` texts as limits by name.

    Raises:
        UsageError: there is no such limit, or it is no finite number.
    """
    names = [name for name in Budget.__struct_fields__ if name not in _NOT_NUMBERS]
    found: dict[str, float] = {}
    for name, text in pairs(options.budget, "--budget").items():
        if name not in names:
            raise UsageError(f"there is no budget {name!r}; there are {', '.join(names)}")
        try:
            limit = float(text)
        except ValueError:
            limit = math.nan
        if not math.isfinite(limit):
            raise UsageError(f"--budget {name}={text}: give a number")
        found[name] = int(limit) if limit.is_integer() else limit
    return found


def _check_budget(state: RunState, budget: dict[str, float]) -> None:
    for name, limit in budget.items():
        present = getattr(state.budget, name)
        if present is None:
            raise UsageError(f"the run has no limit on {name}; there is nothing to raise")
        if limit <= present:
            raise UsageError(f"{name} is {present:g} in this run; a budget can only be raised")
