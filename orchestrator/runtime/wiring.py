"""What a run takes from its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from emissions import Emission
from orchestrator.agents.providers import Providers
from orchestrator.agents.toolbox import Toolbox
from orchestrator.journal import Journal
from orchestrator.runtime.branching import Branches
from orchestrator.runtime.bus import Bus
from orchestrator.runtime.slots import Slots

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine
    from orchestrator.runtime.turns import RoleTurn

__all__ = ["DEFAULT_GRACE", "HELD", "Child", "Family", "Followed", "Include", "Wiring"]

#: Seconds between telling a role to stop and leaving it behind.
DEFAULT_GRACE: Final = 5.0


#: What a body gives whose child run was suspended: the attempt was given back.
HELD: Final = object()


@dataclass(frozen=True, slots=True)
class Child:
    """What the run of an included flow has of the run that includes it.

    Attributes:
        run: its own id. parent: the run that includes it. node: the node there.
        slots: how many bodies may run at once, counted over the whole family.
    """

    run: str
    parent: str
    node: str
    slots: Slots


#: Runs the flow that a node includes and gives its outputs.
Include = Callable[["Engine", "RoleTurn"], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """The session's parts, as one run uses them.

    Attributes:
        journal: keeps the run's records. bus: the session's notice lane.
        branches: the session's branches as this run allocates them.
        handlers: emission type -> function. on_settle: called as a node is about to settle.
        folder: where nodes have their folders. grace: see DEFAULT_GRACE. seed: of the backoff's jitter.
        clock: monotonic nanoseconds. waits_for_answers: somebody answers questions while the run is live.
        tools: what roles may name. include: drives included flows.
        child: of the run of an included flow. new_definition: see resume.
        providers: what the session knows of the providers that it calls. model: performs what a model does.
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
    tools: Toolbox
    include: Include | None = None
    child: Child | None = None
    new_definition: bool = False
    providers: Providers = field(default_factory=Providers)
    model: str | None = None


class Followed(Protocol):
    """A live child run: what is done to its parent is done to it."""

    def pause(self) -> Any:
        """Start no more of its nodes."""

    def resume(self) -> Any:
        """Go on after a pause."""

    def drain(self) -> Any:
        """Finish what runs, and stop."""


class Family:
    """What a run has to do with the run that includes it and with those that it includes.

    Attributes:
        include: drives included flows. parent, node: the run that includes it, and the node there; or empty.
        new_definition: see ``Session.resume``. children: live runs of included flows, by node.
        slots: counts bodies over the whole family; None where there is none.
    """

    def __init__(self, wiring: Wiring, limit: Callable[[], int] | None) -> None:
        """``limit`` says how many slots there are for a run that includes flows; else None."""
        child = wiring.child
        self.include, self.new_definition = wiring.include, wiring.new_definition
        self.parent, self.node = ("", "") if child is None else (child.parent, child.node)
        self.children: dict[str, Followed] = {}
        self.slots: Slots | None = None
        if child is not None:
            self.slots = child.slots
        elif limit is not None:
            self.slots = Slots(limit)
