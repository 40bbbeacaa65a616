"""The house's answer to an emission."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class RefusalReason(StrEnum):
    """Why an emission was refused."""

    NOT_RUNNING = "not_running"
    CLOSING = "closing"
    NOT_GRANTED = "not_granted"
    INVALID = "invalid"
    TOO_DEEP = "too_deep"
    FORGED = "forged"
    MAX_SPAWN_EXCEEDED = "max_spawn_exceeded"
    DEPTH = "depth"
    UNKNOWN_ASSIGNEE = "unknown_assignee"
    ASSIGNEE_NOT_ALLOWED = "assignee_not_allowed"
    VERB_NOT_ALLOWED = "verb_not_allowed"
    UNKNOWN_NODE = "unknown_node"
    TOO_LATE = "too_late"
    NEED_FAILED = "need_failed"
    VETOED = "vetoed"
    CYCLE = "cycle"
    DUPLICATE = "duplicate"
    EXISTS = "exists"
    BUILDER_ERROR = "builder_error"
    NULL_CHILD = "null_child"
    ESCALATION_EXHAUSTED = "escalation_exhausted"
    NO_HIGHER_TIER = "no_higher_tier"
    HANDLER_ERROR = "handler_error"
    UNKNOWN_KIND = "unknown_kind"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The emission was taken. True in a condition.

    `node` names the node that it made, if it made one; `emission` is its number in the run's ledger.
    """

    node: str | None = None
    emission: int | None = None

    def __bool__(self) -> Literal[True]:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True)
class Refused:
    """The emission was not taken, and nothing changed. False in a condition.

    `reason` is one of RefusalReason (a plain str compares equal); `detail` says what was wrong, for a reader.
    """

    reason: str
    detail: str = ""

    def __bool__(self) -> Literal[False]:
        """Return False."""
        return False


Receipt = Accepted | Refused
