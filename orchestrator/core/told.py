"""What the laws of the order of facts keep in mind: what was said of each node so far."""

from __future__ import annotations

from orchestrator.core import facts as f
from orchestrator.core.spec import Edge

__all__ = ["AFTERWARDS", "OF_ATTEMPT", "TERMINAL", "Told"]

TERMINAL = (
    f.NodeCompleted,
    f.NodeFailed,
    f.NodeSkipped,
    f.NodeVetoed,
    f.NodeCancelled,
    f.NodeEscalated,
)
#: What may be said of a node after it settled: judgements, and what came too late.
AFTERWARDS = (
    f.GateApproved,
    f.GateRejected,
    f.GateUndecided,
    f.GateRefused,
    f.RoundStarted,
    f.RoundEnded,
    f.ResultStale,
    f.EmissionRefused,
    f.SpawnRefused,
    f.InstancesSettled,
    f.NodeReopened,
    f.NodeDropped,
    f.StepMemoised,
    f.BranchCreated,
    f.RouteSelected,
    f.TaskCached,
    f.TasksWithdrawn,
    f.WriteRefused,
    f.WriteResolved,
)
#: Kinds that a later attempt may say again under their first number.
OF_ATTEMPT = ("EscalationRequest", "Verdict")


class Told:
    """What the facts have said of one node in its present generation."""

    __slots__ = (
        "allowed",
        "asked",
        "attempt",
        "before",
        "elements",
        "emitted",
        "including",
        "instances",
        "judged",
        "outs",
        "ready",
        "refused",
        "restored",
        "running",
        "settled",
        "spawned",
        "tainted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ready = self.running = self.asked = self.tainted = self.restored = False
        #: its work is a run of its own: while that runs it holds no slot
        self.including = False
        #: attempts of earlier generations
        self.before = 0
        self.attempt = self.emitted = self.spawned = 0
        #: generations above it that are elements of a list: budget.depth does not count them
        self.elements = 0
        #: refusals of a gate before this round, and how many it may have
        self.refused = self.allowed = 0
        self.settled = self.judged = ""
        self.outs: list[Edge] = []
        #: of a ``for_each`` node that has its list: what it waits for; None for every other node
        self.instances: list[str] | None = None

    @property
    def alive(self) -> bool:
        """Its body runs, or has asked and was not answered yet."""
        return self.running or (self.asked and not self.ready)
