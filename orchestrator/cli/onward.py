"""What ``resume``, ``retry`` and ``fork`` share: a question before, and how the run is driven."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from orchestrator.cli.asking import can_ask
from orchestrator.cli.driving import Begin, Job
from orchestrator.cli.edge import note, write
from orchestrator.cli.hooks import hook_of, on_ask
from orchestrator.cli.journals import Place
from orchestrator.cli.logs import configure_logs
from orchestrator.cli.options import Driving
from orchestrator.cli.telling import Teller, drive_and_tell

__all__ = ["Onward", "agreed"]

_YES: Final = frozenset({"", "y", "yes"})


@dataclass(frozen=True, slots=True)
class Onward:
    """A run that goes on.

    Attributes:
        driving: how it is shown. place: its journal. facts: how many are known already and not shown again.
        flow: the document that it began from. model: performs what a model does from here on.
    """

    driving: Driving
    place: Place
    facts: int
    flow: str
    model: str | None = None

    def drive(self, begin: Begin) -> int:
        """Drive it to its stop and tell it; returns the exit code.

        Raises:
            OrchestratorError: it cannot go on, or a bug of ours.
        """
        driving, place = self.driving, self.place
        ended = hook_of("--on-end", driving.on_end, place)
        asked = hook_of("--on-ask", driving.on_ask, place)
        configure_logs(debug=driving.debug)
        job = Job(
            begin,
            driving.grace,
            can_ask() and not driving.quiet,
            on_ask(asked),
            self.facts,
            journal=place.path,
            folder=place.folder,
            model=self.model,
        )
        return drive_and_tell(job, Teller(driving, place, "", ended, self.flow))


def agreed(line: str, driving: Driving, *, yes: bool) -> bool:
    """Say what will be done and, in a terminal, ask; False if nothing is to be done."""
    if not driving.quiet:
        note(line)
    if yes or not can_ask():
        return True
    write(sys.stderr, "go on? [Y/n] ")
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        note("")
        answer = ""
    if answer and answer.strip().lower() in _YES:
        return True
    note("nothing was done")
    return False
