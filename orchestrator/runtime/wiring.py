"""What a run takes from its session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from emissions import Emission
from orchestrator.journal import Journal
from orchestrator.runtime.branching import Branches
from orchestrator.runtime.bus import Bus

__all__ = ["DEFAULT_GRACE", "Wiring"]

#: Seconds between telling a role to stop and leaving it behind.
DEFAULT_GRACE: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The session's parts, as one run uses them.

    Attributes:
        journal: keeps the run's records. bus: the session's notice lane.
        branches: the session's branches as this run allocates them.
        handlers: emission type -> function. on_settle: called as a node is about to settle.
        folder: where nodes have their folders. grace: see DEFAULT_GRACE. seed: of the backoff's jitter.
        clock: monotonic nanoseconds. waits_for_answers: somebody answers questions while the run is live.
    """

    journal: Journal
    bus: Bus
    branches: Branches
    handlers: Mapping[type[Emission], Callable[..., Any]]
    on_settle: Callable[..., Any] | None
    folder: Path
    grace: float
    seed: int | None
    clock: Callable[[], int]
    waits_for_answers: bool
