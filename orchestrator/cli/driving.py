"""Drives one run for a command: signals, questions, the view, and an end that comes whatever happens."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from anyio import CancelScope, create_task_group, move_on_after, sleep
from anyio.lowlevel import checkpoint

from orchestrator.cli.asking import ask_on_terminal
from orchestrator.cli.edge import note
from orchestrator.cli.exits import exit_code
from orchestrator.cli.signals import Stopper, end_process, end_process_after
from orchestrator.cli.views import View
from orchestrator.errors import InternalError
from orchestrator.runtime.results import RunResult
from orchestrator.runtime.run import Run
from orchestrator.runtime.session import Session
from orchestrator.runtime.sources import Runnable
from orchestrator.runtime.wiring import DEFAULT_GRACE
from roles import Role

__all__ = ["Finish", "Job", "drive"]

#: What tells the result: it has returned when everything is written.
Finish = Callable[[RunResult, float], Awaitable[None]]

#: Seconds beyond the roles' own grace before a run that is closed is left with those who still hold it.
_HELD: Final = 1.0
#: Seconds that the session gets to end when everything has been said.
_LEAVING: Final = 2.0


@dataclass(frozen=True, slots=True)
class Job:
    """What is to run.

    Attributes:
        what: a flow or a graph. grace: seconds between the first signal and the interruption.
        options: further arguments of ``Session.start``. roles: roles of the session.
        operations: verbs of the session.
    """

    what: Runnable
    grace: float
    options: Mapping[str, Any] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()
    operations: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def session(self) -> Session:
        """A session for it."""
        made = Session(self.roles, grace=min(self.grace, DEFAULT_GRACE))
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
            run = await session.start(job.what, **job.options)
            stopper.run = run
            if job.options.get("waits_for_answers"):
                listeners.start_soon(ask_on_terminal, run, view)
            async with create_task_group() as watching:
                watching.start_soon(_leave_if_held, run, stopper, patience, watching.cancel_scope)
                await view.follow(run)
                watching.cancel_scope.cancel()
        result = await _tell(run, finish, began)
        leaving = end_process_after(_LEAVING, exit_code(result.reason))
        listeners.cancel_scope.cancel()
    leaving.cancel()


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
