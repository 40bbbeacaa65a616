"""How a run that is driven here is shown and told: for ``run``, ``resume`` and ``retry`` alike."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import TextIO

import anyio

from orchestrator.cli.driving import Job, drive
from orchestrator.cli.edge import clean_json, is_terminal, note, own_stdout
from orchestrator.cli.exits import IO_FAULT, exit_code
from orchestrator.cli.hooks import Hook
from orchestrator.cli.journals import Place
from orchestrator.cli.live import LiveView
from orchestrator.cli.options import Driving
from orchestrator.cli.outlet import Outlet, outlet
from orchestrator.cli.summary import Told, headline, result_json, summary
from orchestrator.cli.views import JsonView, PlainView, QuietView, View, plain_line
from orchestrator.runtime.results import RunResult

__all__ = ["Teller", "drive_and_tell"]


@dataclass(frozen=True, slots=True)
class Teller:
    """What somebody wants to see of a run, and what is to be called when it has stopped.

    Attributes:
        driving: how it is shown. place: its journal, or None. command: to run it again without one.
        on_end: called with the result. flow: what it began from, for ``on_end``.
    """

    driving: Driving
    place: Place | None
    command: str = ""
    on_end: Hook | None = None
    flow: str = ""

    def told(self, seconds: float) -> Told:
        """How the result is told."""
        return Told(seconds, self.place, self.command)

    def view(self, out: Outlet, after: int) -> View:
        """What shows it where there is no terminal."""
        if self.driving.json:
            return JsonView(out, after)
        if self.driving.quiet:
            return QuietView()
        return PlainView(out, after, () if self.place is None else (plain_line("journal", self.place.shown),))

    def lines(self, result: RunResult, seconds: float) -> list[str] | list[bytes]:
        """What it came to."""
        told = self.told(seconds)
        if self.driving.json:
            return [clean_json(result_json(result, told))]
        return [headline(result, seconds)] if self.driving.quiet else summary(result, told)


def drive_and_tell(job: Job, teller: Teller) -> int:
    """Drive a run to its stop and tell it; returns its exit code.

    Raises:
        OrchestratorError: it cannot run, or a bug of ours.
    """
    driving = teller.driving
    if is_terminal(sys.stdout) and not (driving.json or driving.quiet or os.environ.get("CI")):
        return anyio.run(partial(_drive, job, teller, LiveView()))
    with own_stdout() as stream:
        return anyio.run(partial(_drive, job, teller, None, stream))


async def _drive(job: Job, teller: Teller, view: View | None, stream: TextIO | None = None) -> int:
    code = 0
    async with outlet(stream or sys.stdout) as out:

        async def finish(result: RunResult, seconds: float) -> None:
            nonlocal code
            code = exit_code(result.reason)
            for line in teller.lines(result, seconds):
                await out.put(line)
            if teller.driving.json and not teller.driving.quiet:
                note(headline(result, seconds))
            await out.drained()
            if out.fault is not None:
                note(f"error: stdout: {out.fault.strerror}; what was written is not complete")
                code = IO_FAULT
            if teller.on_end is not None:
                more = {
                    "CALLBOARD_RUN": result.run,
                    "CALLBOARD_FLOW": teller.flow,
                    "CALLBOARD_REASON": str(result.reason),
                    "CALLBOARD_EXIT": str(exit_code(result.reason)),
                }
                await teller.on_end.call(result_json(result, teller.told(seconds)), more)

        await drive(job, view or teller.view(out, job.after), finish)
    return code
