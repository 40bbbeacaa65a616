"""Drives one run for a command: signals, questions, the view, and an end that comes whatever happens."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from anyio import CancelScope, create_task_group, current_time, move_on_after, sleep
from anyio.lowlevel import checkpoint

from orchestrator.cli.asking import ask_on_terminal
from orchestrator.cli.edge import note
from orchestrator.cli.exits import exit_code
from orchestrator.cli.signals import Stopper, end_process, end_process_after
from orchestrator.cli.views import View
from orchestrator.errors import InternalError
from orchestrator.journal.files import Fsync
from orchestrator.runtime.envelopes import Envelope
from orchestrator.runtime.results import RunResult
from orchestrator.runtime.run import Run
from orchestrator.runtime.wiring import DEFAULT_GRACE
from orchestrator.supersteps.sessions import Session
from roles import Role

__all__ = ["Begin", "Finish", "Job", "drive"]

#: Starts a run in a session, or goes on with one.
Begin = Callable[[Session], Awaitable[Run]]
#: What tells the result: it has returned when everything is written.
Finish = Callable[[RunResult, float], Awaitable[None]]

#: Seconds beyond the roles' own grace before a run that is closed is left with those who still hold it.
_HELD: Final = 1.0
#: Seconds that commands for questions get to end after the run has stopped.
_ASKING: Final = 10.0
#: Seconds that the session gets to end when everything has been said.
_LEAVING: Final = 2.0


@dataclass(frozen=True, slots=True)
class Job:
    """What is to run.

    Attributes:
        begin: starts the run in a session, or goes on with one.
        grace: seconds between the first signal and the interruption.
        answers: somebody sits at the terminal and is asked. asked: called with each question's envelope.
        after: seq of the last fact that is not new. roles, operations: of the session.
        journal: where the run is kept; None is memory. fsync: how. folder: where runs have their folders.
        model: performs every role that a model performs.
    """

    begin: Begin
    grace: float
    answers: bool = False
    asked: Callable[[Envelope], Awaitable[None]] | None = None
    after: int = 0
    roles: tuple[Role, ...] = ()
    operations: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    journal: Path | None = None
    fsync: Fsync = "always"
    folder: str | Path | None = None
    model: str | None = None

    def session(self) -> Session:
        """A session for it.

        Raises:
            JournalError: the journal cannot be opened or made.
        """
        made = Session(
            self.roles,
            journal=self.journal,
            fsync=self.fsync,
            grace=min(self.grace, DEFAULT_GRACE),
            folder=self.folder,
            model=self.model,
        )
        for name, fn in self.operations.items():
            made.register_operation(name, fn)
        return made


async def drive(job: Job, view: View, finish: Finish) -> None:
    """Run a job to its end, tell the result, and leave.

    A role that ignores every way of being stopped cannot keep the command: once the run is closed and
    ``finish`` has told the result, the process ends without it.

    Raises:
        OrchestratorError: it cannot run, or a bug of ours.
    """
    began = time.monotonic()
    patience = min(job.grace, DEFAULT_GRACE)
    stopper = Stopper(job.grace, patience, view.tell)
    async with job.session() as session, create_task_group() as listeners:
        await listeners.start(stopper.listen)
        async with session.tap(view.said, kinds=("NodeProgress",)):
            run = await job.begin(session)
            stopper.run = run
            if job.answers:
                listeners.start_soon(ask_on_terminal, run, view)
            async with create_task_group() as hooks:
                if job.asked is not None:
                    hooks.start_soon(_tell_questions, run, job.after, job.asked)
                async with create_task_group() as watching:
                    watching.start_soon(_leave_if_held, run, stopper, patience, watching.cancel_scope)
                    await view.follow(run)
                    watching.cancel_scope.cancel()
                hooks.cancel_scope.deadline = current_time() + _ASKING
        result = await _tell(run, finish, began)
        leaving = end_process_after(_LEAVING, exit_code(result.reason))
        listeners.cancel_scope.cancel()
    leaving.cancel()


async def _tell_questions(run: Run, after: int, tell: Callable[[Envelope], Awaitable[None]]) -> None:
    """Hand on every question as it comes, one after the other."""
    async with run.events(after, ("QuestionAsked",)) as events:
        async for envelope in events:
            await tell(envelope)


async def _leave_if_held(run: Run, stopper: Stopper, patience: float, scope: CancelScope) -> None:
    """Stop following a run that is closed when somebody holds it for too long."""
    while run.engine.finished is None:
        await checkpoint()
    await run.engine.finished.wait()
    with move_on_after(patience):
        await stopper.left.wait()
    await sleep(_HELD)
    scope.cancel()


async def _tell(run: Run, finish: Finish, began: float) -> RunResult:
    result = run.decided()
    if result is None:
        raise InternalError(f"run {run.id} was closed without a result")
    await finish(result, time.monotonic() - began)
    fault = run.engine.kernel.fault
    if run.result is None:
        note("some roles ignore that the run is over; the process ends without them")
        end_process(exit_code(fault if isinstance(fault, InternalError) else result.reason))
    if isinstance(fault, InternalError):
        raise fault
    return result
