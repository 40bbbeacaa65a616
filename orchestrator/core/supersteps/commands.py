"""Inputs to the Pregel machine, beside those that it shares with the graph machine."""

from __future__ import annotations

import msgspec

from orchestrator.core.command_base import Command
from orchestrator.core.fact_base import Failure
from orchestrator.core.spec import Budget, Definition, Plan
from orchestrator.core.supersteps.facts import Patch, Route
from orchestrator.core.supersteps.plan import StepPlan

__all__ = [
    "STEP_COMMANDS",
    "Boundary",
    "BoundaryFailed",
    "Edit",
    "Fault",
    "Given",
    "GoOn",
    "Open",
    "Request",
    "Resolve",
    "TakeInput",
]


class Open(Command, frozen=True):
    """Begin a thread. ``plan`` holds budget, limits and roles; it has no operations of its own.

    ``parent``: the run that calls it, by its task ``parent_node``.
    """

    run: str
    plan: Plan
    steps: StepPlan
    definition: Definition = Definition()
    time: str = ""
    parent: str = ""
    parent_node: str = ""
    waits_for_answers: bool = False


class TakeInput(Command, frozen=True):
    """An input: what it writes, where START leads to, where the run is to stop.

    ``replace``: what is pending is cancelled first. Without it an input on a thread with pending work is
    refused. ``steps``: the graph, if it has changed. ``budget``: of this run, if it has one of its own.
    ``queued``: it is the first of those that waited.
    """

    patches: tuple[Patch, ...] = ()
    routes: tuple[Route, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    replace: bool = False
    epoch: int = 0
    time: str = ""
    steps: StepPlan | None = None
    budget: Budget | None = None
    queued: bool = False


class Boundary(Command, frozen=True):
    """The writes of the step are folded; these are the channels that change."""

    step: int
    patches: tuple[Patch, ...] = ()


class Fault(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a task's write to ``key`` does not fit."""

    key: str
    error: Failure


class Given(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer to a task's question; ``value`` is its position in the record's values."""

    task: str
    key: str
    value: int


class Request(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A request of another process, as ``commands.ControlIn`` holds it."""

    control: int
    command: msgspec.Raw = msgspec.Raw(b"null")
    fault: str = ""


class BoundaryFailed(Command, frozen=True):
    """Writes of the step do not fit their channels; by task."""

    step: int
    faults: dict[str, Fault] = msgspec.field(default_factory=dict)


class GoOn(Command, frozen=True):
    """Go on with a thread that stopped: after a breakpoint, a question, a failure, a kill.

    Attributes:
        answers: to questions of tasks.
        patches: an update that is applied first. routes: a frontier that replaces the pending one.
        budget: named limits that are raised. again: questions without an answer are asked anew.
        enqueue: position of an input that is to wait until this work has ended.
        rename: node in the frontier -> what it is called now. steps: the graph, if it has changed.
        requests: of other processes, which came meanwhile, in order.
        reopen: what failed and undecided gates run again, and questions without an answer are asked anew.
    """

    answers: tuple[Given, ...] = ()
    patches: tuple[Patch, ...] = ()
    routes: tuple[Route, ...] = ()
    goes: bool = False
    budget: dict[str, float] = msgspec.field(default_factory=dict)
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    epoch: int = 0
    time: str = ""
    rename: dict[str, str] = msgspec.field(default_factory=dict)
    steps: StepPlan | None = None
    requests: tuple[Request, ...] = ()
    waits_for_answers: bool = False
    reopen: bool = True
    enqueue: int | None = None


class Edit(Command, frozen=True):
    """An operator changes a stopped thread's state; with ``as_node`` as if that node had written it."""

    patches: tuple[Patch, ...] = ()
    as_node: str = ""
    routes: tuple[Route, ...] = ()
    replaces: bool = False
    epoch: int = 0
    time: str = ""


class Resolve(Command, frozen=True):
    """An operator decides about a refused write: ``drop``, ``value`` or ``rerun``."""

    node: str
    how: str
    value: int | None = None
    epoch: int = 0
    time: str = ""


STEP_COMMANDS: tuple[type[Command], ...] = (
    Open, TakeInput, Boundary, BoundaryFailed, GoOn, Edit, Resolve,
)  # fmt: skip
