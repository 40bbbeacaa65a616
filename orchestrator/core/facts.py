"""What the core decided. Facts are immutable, journaled and published; nothing else changes state.

A fact names nodes by name and values by their position in the record that carries it: a value stands
in the record once. ``kind`` is the word that taps, journals and pictures use.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from orchestrator.core.spec import Edge, Operation, Plan

__all__ = [
    "FACTS",
    "AttemptGivenBack",
    "BranchCreated",
    "BudgetRaised",
    "CancelIgnored",
    "CancelRequested",
    "ContextWritten",
    "DrainRequested",
    "EdgesJudged",
    "EmissionAccepted",
    "EmissionRefused",
    "Fact",
    "Failure",
    "GateApproved",
    "GateRejected",
    "GateUndecided",
    "GraphPlanned",
    "NodeAdded",
    "NodeCancelled",
    "NodeCompleted",
    "NodeEscalated",
    "NodeFailed",
    "NodeNotified",
    "NodePaused",
    "NodeReady",
    "NodeReopened",
    "NodeRetryScheduled",
    "NodeSkipped",
    "NodeSpawned",
    "NodeStarted",
    "NodeStopping",
    "NodeVetoed",
    "QuestionAnswered",
    "QuestionAsked",
    "Refusals",
    "ResultStale",
    "RunEnded",
    "RunPaused",
    "RunStarted",
    "RunSuspended",
    "RunUnpaused",
    "SpawnRefused",
    "SteerDelivered",
    "SteerReceived",
    "SteerUndelivered",
    "StepMemoised",
    "UsageRecorded",
]


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why an attempt failed: the type's name, its text, the attempt. Never a live exception."""

    type: str
    message: str = ""
    attempt: int = 0
    traceback: str = ""


class Fact(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=True, omit_defaults=True):
    """Base of all facts."""

    #: fields that hold a position in the record's values
    positions: ClassVar[tuple[str, ...]] = ()


# --- run ---------------------------------------------------------------------------------------


class RunStarted(Fact, frozen=True):
    """The run began. ``format`` is the version of the record's layout."""

    run: str
    name: str
    format: int = 1


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


class BudgetRaised(Fact, frozen=True):
    """A named budget has a higher limit from here on."""

    name: str
    limit: float


class RunSuspended(Fact, frozen=True):
    """The run stopped with unsettled nodes and can go on.

    ``waiters`` says for each unsettled node what it waits for.
    """

    reason: str
    waiters: dict[str, str] = {}
    detail: str = ""


class RunEnded(Fact, frozen=True):
    """Every node has settled. The last fact of a run."""

    reason: str
    detail: str = ""


# --- node --------------------------------------------------------------------------------------


class NodeAdded(Fact, frozen=True):
    """A grown node entered the graph with all of its edges; ``number`` is its place among its parent's."""

    operation: Operation
    edges: tuple[Edge, ...] = ()
    parent: str | None = None
    number: int = 0
    depth: int = 0
    origin: str = ""
    splice: bool = False
    counted: bool = True
    #: key of the injection that added it: the same key of the same emitter adds nothing more
    key: str | None = None

    @property
    def node(self) -> str:
        """The new node's name."""
        return self.operation.name


class NodeSpawned(Fact, frozen=True):
    """A child was accepted; once per child. ``instruction`` is cut at 512 characters."""

    node: str
    parent: str | None
    assignee: str | None
    independent: bool
    instruction: str = ""
    reason: str = ""


class NodeReady(Fact, frozen=True):
    """Every predecessor settled and the node may run; it waits for pause, slot and limits.

    ``handles`` names failed predecessors whose failure this node accepts.
    """

    node: str
    handles: tuple[str, ...] = ()


class NodePaused(Fact, frozen=True):
    """The node is ready and held by the pause; again on a fresh pause."""

    node: str


class NodeStarted(Fact, frozen=True):
    """An attempt begins."""

    node: str
    attempt: int


class NodeStopping(Fact, frozen=True):
    """The running attempt was told to stop; it settles as ``settles`` when it has."""

    node: str
    attempt: int
    settles: str
    reason: str = ""


class EdgesJudged(Fact, frozen=True):
    """What the predicates of a settling node's edges gave, by predicate; a text is an error."""

    node: str
    results: dict[int, bool | str]


class NodeRetryScheduled(Fact, frozen=True):
    """An attempt failed and another one follows after ``delay`` nanoseconds."""

    node: str
    attempt: int
    error: Failure
    delay: int


class AttemptGivenBack(Fact, frozen=True):
    """The attempt was stopped without being the node's fault; the node is ready again."""

    node: str
    attempt: int
    reason: str


class NodeCompleted(Fact, frozen=True):
    """The node has its value."""

    node: str
    attempt: int
    value: int | None = None
    restored: bool = False
    positions: ClassVar[tuple[str, ...]] = ("value",)


class NodeFailed(Fact, frozen=True):
    """The node's last attempt failed, or it could not start."""

    node: str
    attempt: int
    error: Failure
    restored: bool = False


class NodeSkipped(Fact, frozen=True):
    """The node is not needed: no living edge, a false condition, or not applicable."""

    node: str
    reason: str
    blocked_by: str | None = None
    restored: bool = False


class NodeVetoed(Fact, frozen=True):
    """The node is not allowed: ``gates`` rejected on some path to it."""

    node: str
    gates: tuple[str, ...]
    reason: str = ""
    restored: bool = False


class NodeCancelled(Fact, frozen=True):
    """The node was stopped from outside."""

    node: str
    reason: str = ""
    restored: bool = False


class NodeEscalated(Fact, frozen=True):
    """The node gave its work up to ``child``, one tier higher, which took its place in the graph."""

    node: str
    attempt: int
    child: str
    reason: str
    urgency: str = "blocked"
    route: str = "higher_tier"
    tier: int = 0
    value: int | None = None
    restored: bool = False
    positions: ClassVar[tuple[str, ...]] = ("value",)


class NodeNotified(Fact, frozen=True):
    """An escalation that asks for nothing (``notify``), or a node that gave up (``give_up``)."""

    node: str
    attempt: int
    route: str
    reason: str
    urgency: str = "fyi"


class NodeReopened(Fact, frozen=True):
    """A settled node may run again: its next generation begins."""

    node: str
    generation: int
    reason: str = ""


class CancelIgnored(Fact, frozen=True):
    """A role went on after it was cancelled and was left behind."""

    node: str
    attempt: int
    detail: str = ""


class ResultStale(Fact, frozen=True):
    """An outcome arrived for an attempt that is not the current one; it has no other effect."""

    node: str
    attempt: int
    outcome: str


# --- emission ----------------------------------------------------------------------------------


class EmissionAccepted(Fact, frozen=True):
    """An emission entered the ledger. ``node_added`` names the child that it made."""

    node: str
    attempt: int
    emission: str
    number: int
    payload: int
    key: str | None = None
    child: str | None = None
    nth: int = 1
    role: str | None = None
    positions: ClassVar[tuple[str, ...]] = ("payload",)


class EmissionRefused(Fact, frozen=True):
    """An emission was refused at the boundary; ``detail`` is cut at 500 characters when published."""

    node: str
    attempt: int
    emission: str
    reason: str
    detail: str = ""


class SpawnRefused(Fact, frozen=True):
    """A request to grow was refused; the graph is as before."""

    node: str | None
    reason: str
    detail: str = ""
    assignee: str | None = None
    key: str | None = None


class Refusals(Fact, frozen=True):
    """How many further refusals of one kind a node got that are not recorded one by one."""

    node: str
    counts: dict[str, int]


# --- gate --------------------------------------------------------------------------------------


class GateApproved(Fact, frozen=True):
    """The gate opened; its dependents may run."""

    node: str
    verdict: str | None
    by: str | None = None
    because: str = ""


class GateRejected(Fact, frozen=True):
    """The gate vetoes everything that depends on it, now and later."""

    node: str
    verdict: str | None
    rationale: str = ""
    cause: str = "verdict"
    by: str | None = None
    because: str = ""


class GateUndecided(Fact, frozen=True):
    """The gate gave no readable verdict; its dependents keep waiting."""

    node: str
    why: str


# --- people ------------------------------------------------------------------------------------


class QuestionAsked(Fact, frozen=True):
    """A node asks; it holds no slot until it is answered."""

    node: str
    attempt: int
    key: str
    question: str
    choices: tuple[str, ...] = ()
    schema: str | None = None
    default: int | None = None
    positions: ClassVar[tuple[str, ...]] = ("default",)


class QuestionAnswered(Fact, frozen=True):
    """A question has its answer; the same key is never asked again."""

    node: str
    key: str
    value: int
    by: str = ""
    because: str = ""
    positions: ClassVar[tuple[str, ...]] = ("value",)


class SteerReceived(Fact, frozen=True):
    """An operator's note waits for the next node that starts, or for ``target``."""

    id: int
    text: str
    time: str
    target: str | None = None


class SteerDelivered(Fact, frozen=True):
    """A node was given an operator's note; nobody gets it again."""

    id: int
    node: str
    attempt: int


class SteerUndelivered(Fact, frozen=True):
    """The run stopped before anybody could be given this note."""

    id: int
    text: str


# --- things ------------------------------------------------------------------------------------


class ContextWritten(Fact, frozen=True):
    """A node wrote a context key. ``leaves`` are the paths it set, "" for the whole value."""

    node: str
    key: str
    value: int
    leaves: tuple[str, ...] = ("",)
    replace: bool = False
    positions: ClassVar[tuple[str, ...]] = ("value",)


class BranchCreated(Fact, frozen=True):
    """A branch was made for a node, as a copy of ``source`` if there is one."""

    branch: str
    node: str
    source: str | None = None


class UsageRecorded(Fact, frozen=True):
    """What an attempt's model calls cost."""

    node: str
    attempt: int
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    model: str | None = None


class StepMemoised(Fact, frozen=True):
    """A sub-step of a node has its result; a later attempt reads it instead of running it."""

    node: str
    key: str
    value: int
    positions: ClassVar[tuple[str, ...]] = ("value",)


FACTS: tuple[type[Fact], ...] = (
    RunStarted,
    GraphPlanned,
    RunPaused,
    RunUnpaused,
    DrainRequested,
    CancelRequested,
    BudgetRaised,
    RunSuspended,
    RunEnded,
    NodeAdded,
    NodeSpawned,
    NodeReady,
    NodePaused,
    NodeStarted,
    NodeStopping,
    EdgesJudged,
    NodeRetryScheduled,
    AttemptGivenBack,
    NodeCompleted,
    NodeFailed,
    NodeSkipped,
    NodeVetoed,
    NodeCancelled,
    NodeEscalated,
    NodeNotified,
    NodeReopened,
    CancelIgnored,
    ResultStale,
    EmissionAccepted,
    EmissionRefused,
    SpawnRefused,
    Refusals,
    GateApproved,
    GateRejected,
    GateUndecided,
    QuestionAsked,
    QuestionAnswered,
    SteerReceived,
    SteerDelivered,
    SteerUndelivered,
    ContextWritten,
    BranchCreated,
    UsageRecorded,
    StepMemoised,
)
