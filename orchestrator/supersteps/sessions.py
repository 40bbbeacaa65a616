"""Sessions that run stepped documents as well: importing this enters the schedule that they look for."""

from orchestrator.runtime.schedules import SCHEDULES
from orchestrator.runtime.session import Session
from orchestrator.runtime.sync import run_sync
from orchestrator.supersteps.documents import Supersteps

__all__ = ["Session", "run_sync"]

SCHEDULES["supersteps"] = Supersteps()
