"""Requests of other processes while a run is live: rows of the control table, applied in order, each once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from anyio import sleep

from orchestrator.core.commands import Controlled
from orchestrator.errors import JournalError
from orchestrator.journal.runlog import RunLog
from orchestrator.runtime.requests import requests_from

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["apply_pending", "listen"]

#: Seconds between two looks; a look costs a counter unless somebody wrote to the file.
_PAUSE: Final = 0.05
_log = logging.getLogger("callboard.run")


async def listen(engine: Engine, log: RunLog) -> None:
    """Apply what others ask of the run until it is over; what comes too late waits for the next resume."""
    failed = False
    while not engine.closed:
        try:
            apply_pending(engine, log)
            failed = False
        except JournalError as error:
            if not failed:
                _log.warning("run %s cannot look for requests now: %s", engine.run_id, error)
            failed = True
        await sleep(_PAUSE)


def apply_pending(engine: Engine, log: RunLog) -> None:
    """Submit every request that the run has not applied.

    Raises:
        JournalError: the control table cannot be read.
    """
    for row in log.pending_controls(max(engine.state.controls, default=0)):
        if engine.closed:
            return
        values: list[bytes] = []
        (request,) = requests_from((row,), values)
        engine.tell(Controlled(request), values)
