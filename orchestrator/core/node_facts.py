"""Facts about one node's way through its statuses."""

from __future__ import annotations

from typing import ClassVar

from orchestrator.core.fact_base import Fact, Failure, LeftArtifact
from orchestrator.core.spec import Edge, Operation

__all__ = [
    "ArtifactsLeft",
    "AttemptGivenBack",
    "CancelIgnored",
    "ChildRunEnded",
    "ChildRunHeld",
    "ChildRunStarted",
    "EdgesJudged",
    "InstancesAdded",
    "InstancesSettled",
    "ModelClosed",
    "NodeAdded",
    "NodeCancelled",
    "NodeCompleted",
    "NodeDropped",
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
    "NodesPlanned",
    "PlanRefused",
    "ResultStale",
]


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


class NodesPlanned(Fact, frozen=True):
    """A planner's tasks became planned nodes, with all of their edges; they are no spawns."""

    node: str
    operations: tuple[Operation, ...]
    edges: tuple[Edge, ...] = ()


class PlanRefused(Fact, frozen=True):
    """A plan cannot be carried out: it is returned to its planner, once, with everything that is wrong."""

    node: str
    attempt: int
    faults: tuple[str, ...]


class NodeSpawned(Fact, frozen=True):
    """A child was accepted; once per child. ``instruction`` is cut at 512 characters."""

    node: str
    parent: str | None
    assignee: str | None
    independent: bool
    instruction: str = ""
    reason: str = ""


class InstancesAdded(Fact, frozen=True):
    """A ``for_each`` node has its list: ``count`` instances, each added by a NodeAdded that follows.

    ``handles`` names failed predecessors whose failure this node accepts.
    """

    node: str
    count: int
    handles: tuple[str, ...] = ()


class InstancesSettled(Fact, frozen=True):
    """A ``for_each`` node settles after its instances; ``failed`` names those that left no value.

    Their failures are the node's from here on: it fails, goes on without them, or was given its outcome.
    """

    node: str
    failed: tuple[str, ...] = ()


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


class ChildRunStarted(Fact, frozen=True):
    """The node, which includes ``flow``, begins a run of it; the shares count as used until it ends.

    ``checkpoint``: of a stepped run, where the child stood before.
    """

    node: str
    attempt: int
    run: str
    flow: str
    spawns: int = 0
    escalations: int = 0
    checkpoint: int = 0


class ChildRunHeld(Fact, frozen=True):
    """The child run was suspended: the attempt is given back, the node goes on when the run is resumed.

    ``tasks``: of a stepped run, how many it has run so far.
    """

    node: str
    attempt: int
    run: str
    reason: str
    detail: str = ""
    tasks: int = 0


class ChildRunEnded(Fact, frozen=True):
    """The child run has ended; what it spawned and escalated counts here in place of its shares.

    Of a stepped run: ``tasks`` it ran, and the ``checkpoint`` from which a later call goes on.
    """

    node: str
    run: str
    reason: str
    spawns: int = 0
    escalations: int = 0
    tasks: int = 0
    checkpoint: int = 0


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


class ArtifactsLeft(Fact, frozen=True):
    """What the node declared and left: each file was there, inside its folder, and was hashed."""

    node: str
    attempt: int
    artifacts: tuple[LeftArtifact, ...]


class ModelClosed(Fact, frozen=True):
    """A model takes no more calls of a role (quota, credit, credentials) until the run is resumed."""

    node: str
    model: str
    detail: str = ""


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


class NodeDropped(Fact, frozen=True):
    """A grown node left the graph because the attempt that grew it is repeated."""

    node: str
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
