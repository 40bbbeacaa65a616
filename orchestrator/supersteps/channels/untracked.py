"""A value that is never recorded: it lives in this process, and is empty after a restart."""

from __future__ import annotations

from orchestrator.supersteps.channels.last_value import LastValue

__all__ = ["Untracked"]


class Untracked(LastValue):
    """Like LastValue, but neither checkpoints nor records of tasks hold it."""

    kind = "untracked"
    tracked = False
