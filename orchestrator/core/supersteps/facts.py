"""What the Pregel machine decided, beside the facts that every task shares with the nodes of a graph."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from orchestrator.core.fact_base import Fact, Failure
from orchestrator.core.spec import Budget
from orchestrator.core.supersteps.plan import StepPlan

__all__ = [
    "STEP_FACTS",
    "BreakpointReached",
    "CheckpointSaved",
    "Entry",
    "InputQueued",
    "Patch",
    "Route",
    "RouteSelected",
    "StateUpdated",
    "StepCompleted",
    "StepSettled",
    "StepStarted",
    "StepsPlanned",
    "TaskCached",
    "TaskSpawned",
    "TasksWithdrawn",
    "WriteRefused",
    "WriteResolved",
]


class _Part(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Base of what step facts are made of."""


class Patch(_Part, frozen=True):
    """How one channel changes.

    Attributes:
        value: position of the new JSON in the record's values; None empties the channel.
        append: the JSON is a list or text that goes behind the present one, which is not repeated.
        task: the JSON is what this task wrote to the key: it stands in that task's record, not here.
    """

    key: str
    value: int | None = None
    append: bool = False
    task: str = ""


class Route(_Part, frozen=True):
    """One place that a task leads to beside its static edges.

    Attributes:
        to: a node, or END. value: position of a Send's argument. key: the Send's key.
        send: a task of its own; a plain target that is reached twice is one task.
    """

    to: str
    value: int | None = None
    key: str | None = None
    send: bool = False


class Entry(_Part, frozen=True):
    """One task of the next step.

    Attributes:
        node: what runs. key: of its Send. send: it has an argument of its own.
        task, index: the argument is that of this task's route. value: or stands in the record's values.
        stays: it is the entry ``index`` of the frontier before.
        spawned: it is what ``task`` asked for as number ``index``, counted from 0.
    """

    node: str
    send: bool = False
    task: str = ""
    index: int = 0
    value: int | None = None
    key: str | None = None
    stays: bool = False
    spawned: bool = False


class StepsPlanned(Fact, frozen=True):
    """The stepped graph as it was compiled; again when a thread goes on with a new one.

    ``renamed``: node of the graph before -> what it is called in this one. ``budget``: from here on.
    """

    plan: StepPlan
    renamed: dict[str, str] = msgspec.field(default_factory=dict)
    budget: Budget | None = None


class StateUpdated(Fact, frozen=True):
    """Channels changed: by an ``input``, at the boundary of a ``step``, or by an operator's ``update``.

    ``queued``: the input is the first of those that waited.
    """

    source: str
    step: int
    patches: tuple[Patch, ...] = ()
    as_node: str = ""
    queued: bool = False


class InputQueued(Fact, frozen=True):
    """An input waits until the work before it has ended; it is folded then."""

    positions: ClassVar[tuple[str, ...]] = ("value",)

    value: int


class RouteSelected(Fact, frozen=True):
    """Where a task leads beside its static edges; ``replaces``: it leads there instead of along them.

    ``handled`` is the failure that the node's error handler answered for.
    """

    node: str
    routes: tuple[Route, ...] = ()
    replaces: bool = False
    handled: Failure | None = None


class TaskCached(Fact, frozen=True):
    """A task's code did not run: what it completed with was kept under ``key`` for an equal input."""

    node: str
    key: str


class CheckpointSaved(Fact, frozen=True):
    """The state and the frontier after an ``input``, a ``step`` or an ``update``: what can be gone back to.

    ``arrivals``: parents that waiting joins have seen; ``deferred``: what runs when nothing else does.
    ``keeps``: only the state has changed. ``more``: the step goes on, the frontier is added to what follows.
    """

    checkpoint: int
    step: int
    source: str
    frontier: tuple[Entry, ...] = ()
    arrivals: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    deferred: tuple[str, ...] = ()
    keeps: bool = False
    more: bool = False


class StepStarted(Fact, frozen=True):
    """A step began with these tasks; ``resumed`` says that it goes on after a stop."""

    step: int
    active: tuple[str, ...] = ()
    resumed: bool = False


class StepSettled(Fact, frozen=True):
    """Every task of the step has its writes: they are folded next."""

    step: int


class WriteRefused(Fact, frozen=True):
    """A task's write does not fit its channel; it stays pending until it is dropped, replaced or remade."""

    node: str
    key: str
    error: Failure


class WriteResolved(Fact, frozen=True):
    """An operator decided about a refused write: ``drop``, ``value`` or ``rerun``."""

    positions: ClassVar[tuple[str, ...]] = ("value",)

    node: str
    how: str
    value: int | None = None


class TaskSpawned(Fact, frozen=True):
    """A task's SpawnRequest was taken: ``task`` of the node ``to`` is sent at this step's boundary.

    ``value`` holds its parameters. ``depth``: generations below a task that nobody asked for.
    """

    positions: ClassVar[tuple[str, ...]] = ("value",)

    node: str
    task: str
    to: str
    key: str
    assignee: str | None = None
    value: int | None = None
    instruction: str = ""
    reason: str = ""
    independent: bool = False
    depth: int = 1


class TasksWithdrawn(Fact, frozen=True):
    """Tasks that were asked for are not sent: their gate rejected, or what asked for them runs again."""

    node: str
    tasks: tuple[str, ...]
    reason: str = ""


class StepCompleted(Fact, frozen=True):
    """The step's writes are folded and its checkpoint is saved."""

    step: int


class BreakpointReached(Fact, frozen=True):
    """A static breakpoint stopped the run ``before`` or ``after`` these nodes."""

    when: str
    nodes: tuple[str, ...] = ()


STEP_FACTS: tuple[type[Fact], ...] = (
    StepsPlanned,
    StepStarted,
    StepSettled,
    StepCompleted,
    StateUpdated,
    RouteSelected,
    CheckpointSaved,
    WriteRefused,
    WriteResolved,
    BreakpointReached,
    TaskSpawned,
    TasksWithdrawn,
    InputQueued,
    TaskCached,
)
