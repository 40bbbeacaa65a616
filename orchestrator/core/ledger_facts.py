"""Facts about what nodes and people say: emissions, gates, questions, notes, context, usage."""

from __future__ import annotations

from typing import ClassVar

from orchestrator.core.fact_base import Fact

__all__ = [
    "BranchCreated",
    "BranchExtended",
    "ChangeRefused",
    "ContextWritten",
    "EmissionAccepted",
    "EmissionRefused",
    "EmissionRepeated",
    "GateApproved",
    "GateRejected",
    "GateUndecided",
    "QuestionAnswered",
    "QuestionAsked",
    "Refusals",
    "SpawnRefused",
    "SteerDelivered",
    "SteerReceived",
    "SteerUndelivered",
    "StepMemoised",
    "UsageRecorded",
]


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


class EmissionRepeated(Fact, frozen=True):
    """A later attempt said again what an earlier one had said: it was given the first receipt."""

    node: str
    attempt: int
    emission: str
    number: int


class SpawnRefused(Fact, frozen=True):
    """A request to grow was refused; the graph is as before."""

    node: str | None
    reason: str
    detail: str = ""
    assignee: str | None = None
    key: str | None = None


class ChangeRefused(Fact, frozen=True):
    """A change that a handler or ``on_settle`` asked for was refused: ``veto``, ``steer`` or ``write``."""

    node: str | None
    change: str
    reason: str
    detail: str = ""


class Refusals(Fact, frozen=True):
    """How many further refusals of one kind a node or people outside got that have no fact of their own."""

    node: str | None
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
    #: nanoseconds after which the default is the answer; 0 is never
    expires: int = 0
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
    """A branch was made for a node, as a copy of ``source`` if there is one.

    ``messages`` is what it begins with, where the run's record does not hold its source; ``fresh``: it begins
    empty because the node says so.
    """

    branch: str
    node: str
    source: str | None = None
    messages: int | None = None
    fresh: bool = False
    positions: ClassVar[tuple[str, ...]] = ("messages",)


class BranchExtended(Fact, frozen=True):
    """What was said on a branch in one attempt. Attempt 0: before this run, by whoever shared the branch.

    ``kept`` is False for the end of an attempt that failed: it is on record, and no part of the conversation.
    """

    branch: str
    node: str
    attempt: int
    messages: int
    kept: bool = True
    positions: ClassVar[tuple[str, ...]] = ("messages",)


class UsageRecorded(Fact, frozen=True):
    """What an attempt's model calls cost."""

    node: str
    attempt: int
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    model: str | None = None
    #: of the input tokens, those that the provider had kept
    cache_read: int = 0


class StepMemoised(Fact, frozen=True):
    """A sub-step of a node has its result; a later attempt reads it instead of running it."""

    node: str
    key: str
    value: int
    positions: ClassVar[tuple[str, ...]] = ("value",)
