"""What a run came to, and how a thread stands: plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.status import RunReason

__all__ = ["Interrupt", "StateSnapshot", "StepResult", "TaskFailure", "TaskSnapshot"]


@dataclass(frozen=True, slots=True)
class Interrupt:
    """An open question of a task.

    Attributes:
        id: by which it is answered. value: what was asked. task, node: who asks. key: its name in the task.
        namespace: the tasks whose graphs it stands in, from above; empty for a task of the thread itself.
    """

    id: str
    value: Any
    task: str
    node: str
    key: str
    namespace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A task that failed, or whose write was refused: the error's type and text, the attempts it took."""

    task: str
    node: str
    type: str
    message: str
    attempts: int = 0

    def __str__(self) -> str:
        return f"{self.task}: {self.type}: {self.message}"


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task of the step that goes on.

    Attributes:
        id: its identity over restarts. result: its writes, or None while it has none. error: as it failed.
        status: of the task, as of every node. child: id of the run of its graph, if it is a graph.
    """

    id: str
    node: str
    status: str
    result: Mapping[str, Any] | None = None
    error: TaskFailure | None = None
    interrupts: Sequence[Interrupt] = ()
    child: str = ""


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A thread at one checkpoint.

    Attributes:
        values: the state; of the newest checkpoint with the writes of finished tasks folded in.
        next: nodes that are still to run, one for each task.
        checkpoint: its number in the thread. step: steps so far. source: ``input``, ``step`` or ``update``.
        tasks: of the step that goes on. interrupts: open questions. created_at: wall clock, ISO 8601, UTC.
    """

    values: dict[str, Any]
    next: tuple[str, ...]
    thread_id: str
    checkpoint: int
    step: int
    source: str
    tasks: tuple[TaskSnapshot, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    created_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What an invocation came to. A run that fails is a value.

    Attributes:
        reason: ``completed``, ``failed``, ``awaiting_answer``, ``interrupted`` (a breakpoint, or its process
            was told to stop), ``budget_exhausted``, ``drained``, ``stuck``, ``gate_rejected``, ``cancelled``.
        state: the state as it stands. next: nodes that are still to run.
        interrupts: open questions. failures: all of them. thread_id: of the thread, or of the fork.
        checkpoint: number of the newest. detail: one line on the reason.
    """

    reason: RunReason
    state: dict[str, Any]
    thread_id: str
    checkpoint: int
    next: tuple[str, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    failures: tuple[TaskFailure, ...] = field(default=())
    detail: str = ""

    @property
    def ok(self) -> bool:
        """True if it completed."""
        return self.reason is RunReason.COMPLETED
