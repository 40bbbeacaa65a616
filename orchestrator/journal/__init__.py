"""The durable log and its reading side. Here: the seam, and the journal that lives in memory."""

from orchestrator.journal.memory import MemoryJournal
from orchestrator.journal.seam import Done, Journal

__all__ = ["Done", "Journal", "MemoryJournal"]
