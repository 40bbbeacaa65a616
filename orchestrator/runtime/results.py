"""What a run came to: projections of its state. Nothing here is a second record of anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from orchestrator.core.facts import LeftArtifact
from orchestrator.core.status import ENDED, RunReason, Status
from roles import NodeError

__all__ = [
    "DroppedSpawn",
    "FlowEvent",
    "NodeResult",
    "RoundRecord",
    "RunResult",
    "Usage",
]

_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Usage:
    """Model calls, summed; failed ones are included.

    Attributes:
        requests, input_tokens, output_tokens: counts. cost_usd: None if no price is known.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class DroppedSpawn:
    """A request to grow that was refused.

    Attributes:
        reason: one of ``emissions.RefusalReason``. detail: what was wrong. assignee: who was asked for.
        emitter_id: the node that asked; None if it came from outside. key: the request's key.
        count: how many were refused for this reason; above 1 where they are not recorded one by one.
    """

    reason: str
    detail: str = ""
    assignee: str | None = None
    emitter_id: str | None = None
    key: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class NodeResult:
    """How one node came out.

    Attributes:
        name: the node. status: where it stands. error: how it failed. attempts: how often it ran.
        duration: seconds from its first start to its settling. waited: seconds from ready to start.
        usage: its model calls. branch: the branch it spoke on. role: whose node it is.
        spawned_by: the node that asked for it. superseded_by: the child that took its work over.
        vetoed_by: the gates that rejected above it. reason: why it was skipped, vetoed or cancelled.
        judgement: of a gate: approved, rejected or undecided. restored: it did not run in this run.
        raw: its value as JSON, or None.
        decided_by: who judged the gate, if a person did. because: why, in that person's words.
        instances: of a ``for_each`` node: how many it has; None until its list is there, and for other nodes.
        left_out: instances that its list lacks, because they failed.
        artifacts: the files that it left. child_run: of a node that includes a flow: the run of it.
    """

    name: str
    status: Status
    error: NodeError | None = None
    attempts: int = 0
    duration: float = 0.0
    waited: float = 0.0
    usage: Usage = Usage()
    branch: str | None = None
    role: str | None = None
    spawned_by: str | None = None
    superseded_by: str | None = None
    vetoed_by: tuple[str, ...] = ()
    reason: str = ""
    judgement: str | None = None
    restored: bool = False
    raw: bytes | None = field(default=None, repr=False)
    decided_by: str = ""
    because: str = ""
    artifacts: tuple[LeftArtifact, ...] = ()
    instances: int | None = None
    left_out: int = 0
    child_run: str = ""

    @property
    def value(self) -> Any:
        """What the node gave, a copy for each reader; None if it has no value."""
        return None if self.raw is None else _decode(self.raw)

    @property
    def ok(self) -> bool:
        """True if the node completed."""
        return self.status is Status.COMPLETED


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One pass through the refusal loop of a gate. It is recorded, and never acted on.

    Attributes:
        gate: the planned gate. round: its number; the first is 1. node: the gate's node in this round.
        judgement: approved, refused or rejected; empty while nobody has judged it. verdict: what was said.
        rationale: why. moved: the verdict is another than the round before gave; None in the first.
        nodes: how many nodes the round had, grown ones included. tokens, cost_usd: what they used.
        seconds: active time from the first start to the judgement.
        refusals: of the gate so far, allowed: how many it may give.
        continued, fresh: nodes that went on with their conversation, and those that began a new one.
    """

    gate: str
    round: int
    node: str
    judgement: str = ""
    verdict: str | None = None
    rationale: str = ""
    moved: bool | None = None
    nodes: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0
    refusals: int = 0
    allowed: int = 0
    continued: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run came out. ``result["name"]`` is a NodeResult.

    Attributes:
        run: the run's id. name: the graph's. reason: why it stopped. detail: more of it, for people.
        nodes: every node, planned and grown, in the order in which they came to be.
        outputs: what the flow document declares as its outputs.
        next: the command that goes on from here; empty if there is nothing left to do.
        final_context: the shared context after every node.
        dropped_spawns: refused requests to grow. spawned: names of grown nodes.
        gate_rejected_operations: gates that rejected. waiters: what each unsettled node waits for.
        usage: all model calls. rounds: records of refusal loops, in order.
        latest: planned node -> the node of its latest round; only of nodes that were sent back.
        artifacts: the files that the flow document says the run leaves, by name.
    """

    run: str
    name: str
    reason: RunReason
    detail: str = ""
    nodes: Mapping[str, NodeResult] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    next: str = ""
    final_context: Mapping[str, Any] = field(default_factory=dict)
    dropped_spawns: tuple[DroppedSpawn, ...] = ()
    spawned: tuple[str, ...] = ()
    gate_rejected_operations: tuple[str, ...] = ()
    waiters: Mapping[str, str] = field(default_factory=dict)
    usage: Usage = Usage()
    rounds: tuple[RoundRecord, ...] = ()
    latest: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, LeftArtifact] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """True if every node has settled; False if the run was suspended and can go on."""
        return self.reason in ENDED

    @property
    def ok(self) -> bool:
        """True if the run completed: nothing failed unhandled and no gate refused."""
        return self.reason is RunReason.COMPLETED

    def __getitem__(self, name: str) -> NodeResult:
        """A node by name; a bare name means the latest round and, through escalations, the child.

        ``NAME@1`` means the first round, as ``nodes["NAME"]`` does.

        Raises:
            KeyError: no such node; the message lists the names.
        """
        node = self.nodes.get(self.latest.get(name, name))
        if node is None:
            node = self.nodes.get(name.removesuffix("@1"))
        while node is not None and node.superseded_by:
            node = self.nodes.get(node.superseded_by)
        if node is None:
            message = f"no node {name!r} in run {self.run}; there are: {', '.join(self.nodes)}"
            raise KeyError(message)
        return node

    def __contains__(self, name: object) -> bool:
        """True if there is a node of this name."""
        return name in self.nodes

    def __iter__(self) -> Iterator[str]:
        """Names of nodes."""
        return iter(self.nodes)

    def _with(self, *statuses: Status) -> tuple[str, ...]:
        return tuple(name for name, node in self.nodes.items() if node.status in statuses)

    @property
    def completed_operations(self) -> tuple[str, ...]:
        """Nodes that completed."""
        return self._with(Status.COMPLETED)

    @property
    def failed_operations(self) -> tuple[str, ...]:
        """Nodes that failed."""
        return self._with(Status.FAILED)

    @property
    def skipped_operations(self) -> tuple[str, ...]:
        """Nodes that were not needed."""
        return self._with(Status.SKIPPED)

    @property
    def vetoed_operations(self) -> tuple[str, ...]:
        """Nodes that were not allowed."""
        return self._with(Status.VETOED)

    @property
    def cancelled_operations(self) -> tuple[str, ...]:
        """Nodes that were stopped."""
        return self._with(Status.CANCELLED)

    @property
    def escalated_operations(self) -> tuple[str, ...]:
        """Nodes whose work a child took over."""
        return self._with(Status.ESCALATED)

    @property
    def not_run(self) -> tuple[str, ...]:
        """Nodes that were skipped or vetoed, and those that never started."""
        return tuple(
            name
            for name, node in self.nodes.items()
            if node.status in (Status.SKIPPED, Status.VETOED)
            or (node.attempts == 0 and not node.restored and node.instances is None)
        )

    @property
    def operation_results(self) -> dict[str, Any]:
        """Value or NodeError of every node that ran; a bare name means the latest round."""
        rounds = {name: self.nodes[latest] for name, latest in self.latest.items()}
        return {
            name: node.error if node.error is not None else node.value
            for name, node in {**self.nodes, **rounds}.items()
            if node.status in (Status.COMPLETED, Status.FAILED, Status.ESCALATED)
        }

    @property
    def spawned_operations(self) -> int:
        """How many nodes were added while the run went on, escalations apart."""
        return len(self.spawned)


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """One settlement, as ``flow_stream`` tells it.

    Attributes:
        operation_id, name: the node (both are its name). status: what it settled as.
        result: its value, its NodeError, or None. spawned: it was added while the run went on.
        seq: number of the fact.
    """

    operation_id: str
    name: str
    status: str
    result: Any
    spawned: bool = False
    seq: int = 0

    @property
    def ok(self) -> bool:
        """True if the node completed."""
        return self.status == Status.COMPLETED
