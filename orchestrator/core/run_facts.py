"""Facts about the run as a whole."""

from __future__ import annotations

import msgspec

from orchestrator.core.fact_base import Fact
from orchestrator.core.spec import Definition, Plan

__all__ = [
    "BudgetRaised",
    "CancelRequested",
    "ControlApplied",
    "DrainRequested",
    "GraphPlanned",
    "RunEnded",
    "RunPaused",
    "RunResumed",
    "RunStarted",
    "RunSuspended",
    "RunUnpaused",
]


class RunStarted(Fact, frozen=True):
    """The run began. ``format`` is the version of the record's layout.

    The run of an included flow names its ``parent`` and the node there.
    A fork names its ``origin``, the number ``at`` of the last fact that they share, and the ``change``.
    """

    run: str
    name: str
    format: int = 1
    definition: Definition = Definition()
    origin: str = ""
    at: int = 0
    change: str = ""
    parent: str = ""
    parent_node: str = ""


class GraphPlanned(Fact, frozen=True):
    """The graph as it was written: enough to rebuild every planned node."""

    plan: Plan


class RunPaused(Fact, frozen=True):
    """Nothing new starts until RunUnpaused; what runs goes on."""


class RunUnpaused(Fact, frozen=True):
    """What waited at the pause gate goes on."""


class DrainRequested(Fact, frozen=True):
    """Nothing new starts; when what runs has finished the run is suspended."""

    reason: str = "drained"


class CancelRequested(Fact, frozen=True):
    """The run stops: what waits is settled now, what runs is being stopped."""

    reason: str
    detail: str = ""


class RunResumed(Fact, frozen=True):
    """The run goes on after it was suspended, killed, or ended with something to retry.

    ``previous`` is why it had stopped; ``epoch`` counts the processes that have driven it.
    """

    previous: str
    epoch: int = 0


class ControlApplied(Fact, frozen=True):
    """A request of another process was carried out or refused; it counts once."""

    control: int
    refused: str = ""
    detail: str = ""


class BudgetRaised(Fact, frozen=True):
    """A named budget has a higher limit from here on."""

    name: str
    limit: float


class RunSuspended(Fact, frozen=True):
    """The run stopped with unsettled nodes and can go on.

    ``waiters`` says for each unsettled node what it waits for.
    """

    reason: str
    waiters: dict[str, str] = msgspec.field(default_factory=dict)
    detail: str = ""


class RunEnded(Fact, frozen=True):
    """Every node has settled. The last fact of a run."""

    reason: str
    detail: str = ""
