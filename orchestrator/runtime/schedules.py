"""Other ways to run a document than by its graph: a schedule enters itself here, and sessions find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from orchestrator.errors import OperationError
from orchestrator.flows.flow import BoundFlow
from orchestrator.journal import Journal
from orchestrator.runtime.options import RunOptions
from orchestrator.runtime.recovery import Recovery

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine
    from orchestrator.runtime.session import Session

__all__ = ["SCHEDULES", "Schedule", "schedule"]


class Schedule(Protocol):
    """Makes the engine of a run of a document."""

    def begin(self, session: Session, bound: BoundFlow, options: RunOptions, source: str) -> Engine:
        """An engine for a new run.

        Raises:
            OperationError: it cannot run; nothing has run.
        """

    def go_on(
        self, session: Session, run: str, journal: Journal, options: RunOptions, going: Recovery
    ) -> Engine:
        """An engine that goes on with a run whose log the session owns.

        Raises:
            OperationError: it cannot go on. CorruptJournalError: what is recorded breaks a law.
        """


#: The word in a document -> its schedule. A floor above this one fills it when it is imported.
SCHEDULES: Final[dict[str, Schedule]] = {}


def schedule(name: str) -> Schedule:
    """The schedule of a name.

    Raises:
        OperationError: nothing has entered one.
    """
    found = SCHEDULES.get(name)
    if found is None:
        raise OperationError(
            f"schedule: {name} is run by orchestrator.{name}; take Session from orchestrator, which knows it"
        )
    return found
