"""The words for where a node and a run stand. One enumeration serves every surface.

A node's status lives in one field of the state; lanes, results and pictures are projections of it.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ENDED", "LIVE", "PRECEDENCE", "SUSPENDED", "TERMINAL", "NodeStatus", "RunReason", "Status"]


class NodeStatus(StrEnum):
    """Where one node stands."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    ASKING = "asking"
    BACKING_OFF = "backing_off"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    VETOED = "vetoed"
    CANCELLED = "cancelled"
    ESCALATED = "escalated"


#: The short name inside the core and its neighbours.
Status = NodeStatus

TERMINAL = frozenset(
    {
        Status.COMPLETED,
        Status.FAILED,
        Status.SKIPPED,
        Status.VETOED,
        Status.CANCELLED,
        Status.ESCALATED,
    }
)
LIVE = frozenset(Status) - TERMINAL


class RunReason(StrEnum):
    """Why a run stopped. ``ENDED`` reasons mean that every node has settled."""

    COMPLETED = "completed"
    FAILED = "failed"
    GATE_REJECTED = "gate_rejected"
    REFUSALS_EXHAUSTED = "refusals_exhausted"
    CANCELLED = "cancelled"
    GATE_UNDECIDED = "gate_undecided"
    AWAITING_ANSWER = "awaiting_answer"
    BUDGET_EXHAUSTED = "budget_exhausted"
    DEADLINE = "deadline"
    QUOTA = "quota"
    DRAINED = "drained"
    INTERRUPTED = "interrupted"
    STUCK = "stuck"
    NEEDS_RECOVERY = "needs_recovery"


ENDED = frozenset(
    {
        RunReason.COMPLETED,
        RunReason.FAILED,
        RunReason.GATE_REJECTED,
        RunReason.REFUSALS_EXHAUSTED,
        RunReason.CANCELLED,
    }
)
SUSPENDED = frozenset(RunReason) - ENDED

#: When several reasons hold, the first of these is the one that is told.
PRECEDENCE = (
    RunReason.NEEDS_RECOVERY,
    RunReason.INTERRUPTED,
    RunReason.CANCELLED,
    RunReason.QUOTA,
    RunReason.BUDGET_EXHAUSTED,
    RunReason.DEADLINE,
    RunReason.DRAINED,
    RunReason.STUCK,
    RunReason.AWAITING_ANSWER,
    RunReason.GATE_UNDECIDED,
    RunReason.FAILED,
    RunReason.REFUSALS_EXHAUSTED,
    RunReason.GATE_REJECTED,
    RunReason.COMPLETED,
)
