"""``callboard run``: a flow from its document to its exit code."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import msgspec

from orchestrator.agents.backends import priced
from orchestrator.cli.asking import can_ask
from orchestrator.cli.driving import Job
from orchestrator.cli.edge import note
from orchestrator.cli.exits import INTERRUPTED, USAGE
from orchestrator.cli.hooks import hook_of, on_ask
from orchestrator.cli.journals import place_of, prepare, reading, recorded
from orchestrator.cli.logs import configure_logs
from orchestrator.cli.onward import agreed
from orchestrator.cli.opening import arguments, errors_of, open_flow
from orchestrator.cli.options import RunOptions
from orchestrator.cli.telling import Teller, drive_and_tell
from orchestrator.flows.flow import Flow
from orchestrator.flows.problems import NO_MODEL, Severity
from orchestrator.journal.files import Fsync
from orchestrator.runtime.options import RunOptions as Begun
from orchestrator.runtime.recorded import RecordedRun
from orchestrator.runtime.run import Run
from orchestrator.runtime.session import Session

__all__ = ["run"]


def run(options: RunOptions) -> int:
    """Run a flow and return the exit code of its reason.

    Raises:
        OrchestratorError: it cannot run, or a bug of ours. OSError: a file cannot be read.
    """
    driving = options.driving
    flow = open_flow(options.flow)
    errors = errors_of(flow)
    if errors:
        note("\n".join(errors))
        return USAGE
    values = arguments(options.args, options.args_file)
    budget = flow.bind(values).budget
    if options.concurrency is not None:
        budget = msgspec.structs.replace(budget, concurrency=options.concurrency)
    place = place_of(driving.journal)
    ended, asked = (
        hook_of("--on-end", driving.on_end, place),
        hook_of("--on-ask", driving.on_ask, place),
    )
    _warn(flow, options)
    configure_logs(debug=driving.debug)
    if place is not None:
        prepare(place)
    asks = can_ask() and not driving.quiet
    earlier = _earlier(options)
    begun = Begun(
        args=values,
        budget=budget,
        waits_for_answers=asks,
        reuse=None if earlier is None else earlier.run_id,
    )

    def begin(session: Session) -> Awaitable[Run]:
        return session.begin(flow, begun)

    job = Job(
        begin,
        driving.grace,
        asks,
        on_ask(asked),
        journal=None if place is None else place.path,
        fsync=cast("Fsync", options.fsync),
        folder=None if place is None else place.folder,
        model=options.model,
    )
    if earlier is not None:
        # the machine itself says what follows, in memory, before anything runs
        reused, left = job.session().forecast(flow, begun)
        line = f"run {earlier.run_id} ({earlier.standing}): reuses {reused:,}, will run {left:,}"
        if not agreed(line, driving, yes=options.yes):
            return INTERRUPTED
    return drive_and_tell(job, Teller(driving, place, options.command, ended, str(flow.path)))


def _warn(flow: Flow, options: RunOptions) -> None:
    """Say what may be meant otherwise; that no model is named is none where one is given."""
    if options.driving.quiet:
        return
    warnings = [
        str(problem)
        for problem in flow.check(priced=priced)
        if problem.severity is Severity.WARNING and (options.model is None or problem.code != NO_MODEL)
    ]
    if warnings:
        note("\n".join(warnings))


def _earlier(options: RunOptions) -> RecordedRun | None:
    """The run whose outcomes are taken.

    Raises:
        UsageError: there is no such run, or no journal.
    """
    if options.reuse is None:
        return None
    with reading(options.driving.journal) as (reader, _):
        return recorded(reader, options.reuse)
