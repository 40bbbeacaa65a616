"""Every exception of the project, one tree.

::

    OrchestratorError
    ├── GraphError               the graph cannot be run as it is written
    │   ├── CycleError           ... it has a cycle (also an OperationError)
    │   ├── UnknownNodeError     ... it names a node that does not exist (also an OperationError)
    │   └── DuplicateNodeError   ... two nodes have one name
    ├── FlowError                a flow document is wrong; knows file, line and column
    ├── JournalError             the journal cannot be read or written
    │   ├── RunOwnedError        ... another process drives this run
    │   ├── NeedsRecoveryError   ... an append failed, the tail is unknown
    │   ├── IncompatibleJournalError
    │   └── CorruptJournalError
    ├── ExecutionError           a node cannot be prepared (no branch, no backend, no such input)
    ├── OperationError           a verb, role or parameter does not fit
    ├── ContextConflictError     two unordered writes of one context key
    ├── ConditionError           a condition did not give a bool
    └── InternalError            a bug of ours; carries the node's story

A run's outcome is a value: ``flow`` and ``wait`` raise for usage, journal faults and
``InternalError`` only. ExecutionError, OperationError, ConditionError and ContextConflictError
otherwise appear as ``NodeError.type`` of the node they failed.
"""

from __future__ import annotations

from emissions import OrchestratorError

__all__ = [
    "ConditionError",
    "ContextConflictError",
    "CorruptJournalError",
    "CycleError",
    "DuplicateNodeError",
    "ExecutionError",
    "FlowError",
    "GraphError",
    "IncompatibleJournalError",
    "InternalError",
    "JournalError",
    "NeedsRecoveryError",
    "OperationError",
    "OrchestratorError",
    "RunOwnedError",
    "UnknownNodeError",
]


class GraphError(OrchestratorError):
    """Raised when a graph cannot be run as it is written."""


class OperationError(OrchestratorError):
    """Raised when a verb, a role or a parameter does not fit; nothing has run."""


class ExecutionError(OrchestratorError):
    """Raised when a node cannot be prepared: no branch, no backend, no such input."""


class CycleError(GraphError, OperationError):
    """Raised when edges would close a cycle.

    Attributes:
        path: names along the cycle; the first and the last are equal.
    """

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        super().__init__(f"the graph has a cycle: {' -> '.join(path)}; remove one of these edges")


class UnknownNodeError(GraphError, OperationError):
    """Raised when a graph, an edge or a command names a node that does not exist."""


class DuplicateNodeError(GraphError):
    """Raised when two nodes of one graph would have the same name."""


class FlowError(OrchestratorError):
    """Raised when a flow document is wrong.

    Attributes:
        file: the document as it was named by the caller.
        line: line of the fault, counted from 1; None if the fault has no place.
        column: column of the fault, counted from 1; None if the fault has no place.
    """

    def __init__(
        self, message: str, *, file: str = "", line: int | None = None, column: int | None = None
    ) -> None:
        self.file, self.line, self.column = file, line, column
        place = ":".join(str(part) for part in (file, line, column) if part not in ("", None))
        super().__init__(f"{place}: {message}" if place else message)


class JournalError(OrchestratorError):
    """Raised when the journal cannot be read or written."""


class RunOwnedError(JournalError):
    """Raised when another process drives the run."""


class NeedsRecoveryError(JournalError):
    """Raised when an append failed and what is on disk is unknown until the run is opened again."""


class IncompatibleJournalError(JournalError):
    """Raised when a journal was written by a newer version or by another program."""


class CorruptJournalError(JournalError):
    """Raised when a journal's checksums do not hold."""


class ContextConflictError(OrchestratorError):
    """Raised when two unordered nodes wrote one context key that has no reducer."""


class ConditionError(OrchestratorError):
    """Raised when a condition raised or gave something that is not a bool."""


class InternalError(OrchestratorError):
    """Raised on a bug of ours.

    Attributes:
        story: what happened to the node before, one line per fact.
    """

    def __init__(self, message: str, story: tuple[str, ...] = ()) -> None:
        self.story = story
        tail = "".join(f"\n  {line}" for line in story)
        super().__init__(f"{message} (this is a bug in callboard){tail}")
