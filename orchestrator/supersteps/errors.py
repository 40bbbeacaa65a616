"""What is raised when a stepped graph, or what is asked of it, cannot be.

InvalidUpdateError and EmptyChannelError carry the names that the field knows; inside a run they appear as
``TaskFailure.type`` of the tasks that they failed.
"""

from __future__ import annotations

from orchestrator.errors import ExecutionError, GraphError, OperationError

__all__ = ["EmptyChannelError", "EmptyInputError", "InvalidUpdateError", "PendingWorkError"]


class InvalidUpdateError(ExecutionError, OperationError):
    """Raised when writes do not fit their channel, or name a key or a node that does not exist.

    Attributes:
        tasks: whose writes do not fit; empty if they are not a task's.
    """

    def __init__(self, message: str, tasks: tuple[str, ...] = ()) -> None:
        self.tasks = tasks
        super().__init__(message)


class EmptyChannelError(ExecutionError, KeyError):
    """Raised when a state key is read that nobody has written."""

    def __str__(self) -> str:
        return str(self.args[0])


class EmptyInputError(OperationError):
    """Raised when an input writes nothing."""


class PendingWorkError(OperationError, GraphError):
    """Raised when a thread gets a new input and still has work of the last one."""
