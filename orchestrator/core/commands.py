"""Inputs to the core. Time, random draws and identities arrive in here; the core has none of its own."""

from __future__ import annotations

import msgspec

from orchestrator.core.child_commands import ChildEnded, ChildHeld, ChildStarted
from orchestrator.core.command_base import Command, Usage
from orchestrator.core.facts import Failure, LeftArtifact
from orchestrator.core.spec import Definition, Edge, Operation, Plan
from orchestrator.core.supersteps.commands import STEP_COMMANDS
from orchestrator.core.supersteps.facts import Route

__all__ = [
    "COMMANDS",
    "Answer",
    "Ask",
    "AttemptStopped",
    "BranchJoined",
    "BranchMade",
    "Cancel",
    "ChildEnded",
    "ChildHeld",
    "ChildStarted",
    "Command",
    "ControlIn",
    "Controlled",
    "Drain",
    "Elapsed",
    "EmissionIn",
    "Emit",
    "Finish",
    "Inject",
    "Known",
    "Memoise",
    "Note",
    "Pause",
    "Proposal",
    "RaiseBudget",
    "Resume",
    "SaidIn",
    "Start",
    "Steer",
    "TakeSteers",
    "Unpause",
    "Usage",
    "WriteIn",
]


class _Part(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Base of what commands are made of."""


class EmissionIn(_Part, frozen=True):
    """One emission as it reached the boundary.

    Attributes:
        kind: name of the type.
        payload: position of its JSON in the record's values; None if it could not be read.
        channel: ``call``, ``tool``, ``result`` or ``text``.
        key: idempotency key, if the payload has one.
        reason, detail: why the boundary refuses it; empty if it does not.
    """

    kind: str
    payload: int | None = None
    channel: str = "call"
    key: str | None = None
    reason: str = ""
    detail: str = ""


class WriteIn(_Part, frozen=True):
    """One context write: the value's position and the leaf paths that it sets."""

    key: str
    value: int
    leaves: tuple[str, ...] = ("",)
    replace: bool = False


class SaidIn(_Part, frozen=True):
    """What an attempt said on its branch: the messages' position, and whether they stay."""

    branch: str
    messages: int
    kept: bool = True


class Proposal(_Part, frozen=True):
    """A change that a handler or ``on_settle`` asked for: ``inject``, ``veto``, ``write`` or ``steer``.

    ``emission``: place in the command of the emission whose handler asks; None: ``on_settle`` or an operator.
    """

    kind: str
    node: str | None = None
    reason: str = ""
    operation: Operation | None = None
    edges: tuple[Edge, ...] = ()
    assignee: str | None = None
    instruction: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    independent: bool = False
    key: str | None = None
    write: WriteIn | None = None
    emission: int | None = None
    #: wall clock of a steer, for display
    time: str = ""


class Note(_Part, frozen=True):
    """A note of the operator for the next node that starts; ``time`` is the wall clock for display."""

    text: str
    time: str = ""


class Known(_Part, frozen=True):
    """A node whose outcome is known before the run starts."""

    node: str
    status: str
    value: int | None = None
    error: Failure | None = None
    reason: str = ""
    gate_verdict: str | None = None
    gates: tuple[str, ...] = ()
    #: a person's verdict for a gate, and why
    verdict: str = ""
    by: str = ""
    because: str = ""


class Start(Command, frozen=True):
    """Begin a run. ``time`` is the wall clock for display; ``steers`` are notes for the first nodes."""

    run: str
    plan: Plan
    known: tuple[Known, ...] = ()
    predicates: dict[int, bool | str] = msgspec.field(default_factory=dict)
    waits_for_answers: bool = False
    time: str = ""
    definition: Definition = Definition()
    steers: tuple[Note, ...] = ()
    #: of the run of an included flow: the run that it is part of, and the node there
    parent: str = ""
    parent_node: str = ""


class Finish(Command, frozen=True):
    """An attempt ended by itself: completed, failed, not_applicable.

    Attributes:
        outcome: ``completed``, ``failed``, ``not_applicable`` or ``quota``: no model takes its calls.
        value: position of the value. error: why it failed.
        emissions: what the value carried, in order of appearance.
        predicates: edge index -> what its predicate gave; a text is an error.
        gate_verdict: the value's top-level ``gate_verdict``, for gates.
        only_escalation: the role returned nothing but an escalation request.
        draw: a number in 0..1 for the backoff's jitter.
        permanent: the failure is not to be retried.
        said: what was said on the node's branch.
        routes, replaces: where a task of a stepped run leads beside its static edges, or instead of them.
        handled: the failure that a task's error handler answered for. cached: the key of what was found.
    """

    node: str
    attempt: int
    outcome: str = "completed"
    value: int | None = None
    error: Failure | None = None
    emissions: tuple[EmissionIn, ...] = ()
    writes: tuple[WriteIn, ...] = ()
    predicates: dict[int, bool | str] = msgspec.field(default_factory=dict)
    proposals: tuple[Proposal, ...] = ()
    gate_verdict: str | None = None
    only_escalation: bool = False
    draw: float = 0.0
    permanent: bool = False
    usage: Usage | None = None
    said: tuple[SaidIn, ...] = ()
    #: the outcome is another run's; nothing ran
    restored: bool = False
    #: the files that the node declared and left
    artifacts: tuple[LeftArtifact, ...] = ()
    routes: tuple[Route, ...] = ()
    replaces: bool = False
    handled: Failure | None = None
    cached: str = ""


class Emit(Command, frozen=True):
    """A running node emits; the decision holds the receipt."""

    node: str
    attempt: int
    emission: EmissionIn
    proposals: tuple[Proposal, ...] = ()
    failed: str = ""


class AttemptStopped(Command, frozen=True):
    """An attempt that was told to stop has stopped, was left behind, or never started."""

    node: str
    attempt: int
    how: str = "stopped"
    detail: str = ""
    usage: Usage | None = None


class Elapsed(Command, frozen=True):
    """A timer fired: ``backoff`` or ``deadline`` of a node, ``wall_clock`` of the run.

    ``asks``: how often the node had stopped to ask when its deadline was set; one that was set before it
    asked again is of no interest, since no clock runs while a node asks.
    """

    timer: str
    node: str | None = None
    attempt: int = 0
    asks: int = 0


class Cancel(Command, frozen=True):
    """Stop a node, or the whole run. What depends on a cancelled node is skipped.

    ``suspend`` names a suspension reason (``interrupted``): running attempts are given back.
    """

    node: str | None = None
    reason: str = ""
    suspend: str | None = None


class ControlIn(_Part, frozen=True):
    """A request of another process: its row, and the command as JSON."""

    control: int
    command: msgspec.Raw = msgspec.Raw(b"null")
    #: why it cannot be read at all
    fault: str = ""


class Resume(Command, frozen=True):
    """Go on with a run that was suspended or killed, or repeat what failed in one that ended.

    Attributes:
        time: wall clock for display. epoch: which process drives the run now, from 1.
        budget: named limits that are raised first. controls: requests that came meanwhile, in order.
        reopen: nodes to run again (failed ones, undecided gates); ``("*",)`` is every failed node.
        values of answers stand in the record's values.
    """

    time: str = ""
    epoch: int = 0
    budget: dict[str, float] = msgspec.field(default_factory=dict)
    controls: tuple[ControlIn, ...] = ()
    reopen: tuple[str, ...] = ()
    #: nodes that a fork settles with an outcome of its own
    settled: tuple[Known, ...] = ()
    waits_for_answers: bool = False


class Controlled(Command, frozen=True):
    """A request of another process while the run is live."""

    request: ControlIn


class Pause(Command, frozen=True):
    """Hold what has not started."""


class Unpause(Command, frozen=True):
    """Let go what a pause holds."""


class Drain(Command, frozen=True):
    """Finish what runs, start nothing, suspend."""


class RaiseBudget(Command, frozen=True):
    """Raise a named budget."""

    name: str
    limit: float


class Steer(Command, frozen=True):
    """An operator's note, to ``target`` or to the next node that starts."""

    text: str
    time: str
    target: str | None = None


class TakeSteers(Command, frozen=True):
    """A node is about to be invoked and takes what waits for it."""

    node: str
    attempt: int


class Inject(Command, frozen=True):
    """Somebody outside adds a node."""

    proposal: Proposal


class Ask(Command, frozen=True):
    """A running node asks a question."""

    node: str
    attempt: int
    key: str
    question: str
    choices: tuple[str, ...] = ()
    schema: str | None = None
    default: int | None = None
    expires: int = 0


class Answer(Command, frozen=True):
    """A person answers a node's question, or decides an undecided gate."""

    node: str
    key: str | None
    value: int
    by: str = ""
    because: str = ""


class Memoise(Command, frozen=True):
    """A sub-step's result."""

    node: str
    attempt: int
    key: str
    value: int


class BranchMade(Command, frozen=True):
    """The session made a branch for a node; ``messages``: what it begins with, where no record holds it."""

    branch: str
    node: str
    source: str | None = None
    messages: int | None = None
    fresh: bool = False


class BranchJoined(Command, frozen=True):
    """A node takes a branch on which more has been said than this run's record holds."""

    branch: str
    node: str
    messages: int


COMMANDS: tuple[type[Command], ...] = (
    Start,
    Resume,
    Controlled,
    Finish,
    Emit,
    AttemptStopped,
    Elapsed,
    Cancel,
    Pause,
    Unpause,
    Drain,
    RaiseBudget,
    Steer,
    TakeSteers,
    Inject,
    Ask,
    Answer,
    Memoise,
    BranchMade,
    BranchJoined,
    ChildStarted,
    ChildHeld,
    ChildEnded,
    *STEP_COMMANDS,
)
