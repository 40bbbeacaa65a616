"""A value that is seen in the next step only."""

from __future__ import annotations

from orchestrator.supersteps.channels.last_value import LastValue

__all__ = ["Ephemeral"]


class Ephemeral(LastValue):
    """Like LastValue, but a boundary at which nobody writes empties it."""

    kind = "ephemeral"
    volatile = True
