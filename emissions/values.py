"""The closed vocabularies of the emissions, and the field types they share."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, JsonValue

_SEPARATORS = re.compile(r"[ \t_-]+")


def _fold(text: str) -> str:
    """Reduce a spelling to the one the tables are keyed by: case, spaces, `_` and `-` do not matter."""
    return _SEPARATORS.sub("-", text.strip(" \t\r\n")).upper()


class Choice(StrEnum):
    """A closed vocabulary whose members are met in several spellings.

    A member is found by its value, or by any spelling that differs only in case and in which of space, `_`
    and `-` separates the words. Anything else is invalid: no guess is made.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # Only ASCII is folded: upper() turns some foreign letters into ASCII, and a look-alike is no member.
        if not isinstance(value, str) or not value.isascii():
            return None
        return {_fold(member): member for member in cls}.get(_fold(value))


class Severity(Choice):
    """How much something matters, from least to most."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class VerdictValue(Choice):
    """The four terminal judgements. What each does at a gate is the gate's declaration, not the word's."""

    APPROVE = "APPROVE"
    APPROVE_WITH_FIXES = "APPROVE-WITH-FIXES"
    REQUEST_CHANGES = "REQUEST-CHANGES"
    REJECT = "REJECT"


class Compliance(Choice):
    """Whether one control is met."""

    COMPLIANT = "compliant"
    NON_COMPLIANT = "non-compliant"
    NOT_APPLICABLE = "not-applicable"


class OutcomeStatus(Choice):
    """How a side effect ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PARTIAL = "partial"


class Urgency(Choice):
    """Whether the emitter can go on without help."""

    FYI = "fyi"
    BLOCKED = "blocked"


class Route(Choice):
    """Where an escalation goes."""

    HIGHER_TIER = "higher_tier"
    NOTIFY = "notify"
    GIVE_UP = "give_up"


def _ordered(value: object) -> object:
    """Refuse sets and iterators: their order is not the author's, and two runs would differ."""
    if isinstance(value, (list, tuple)):
        return value
    raise ValueError(f"expected a list, got {type(value).__name__}")


def _exact(value: object) -> object:
    """Refuse the integers that a record cannot hold; as floats they would change silently."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("integers go to 2**63")
    return value


# The length bound also refuses text that cannot be written as UTF-8 (unpaired surrogates).
Text = Annotated[str, Field(max_length=1_000_000)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
"""A number from 0 to 1."""
Number = Annotated[
    Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)], BeforeValidator(_exact)
]
JsonObject = dict[str, JsonValue]
SpawnVerb = Literal["operate", "chat", "communicate", "ReAct"]

# A field is validated on the way in, so what may be given is wider than what is read: a plain "REJECT"
# becomes a VerdictValue, a list a tuple. A descriptor tells type checkers so; at run time it is the type.
if TYPE_CHECKING:
    Read_co = TypeVar("Read_co", covariant=True)
    Given_contra = TypeVar("Given_contra", contravariant=True)

    class Takes(Generic[Read_co, Given_contra]):
        """Read as the one, given as the other."""

        def __get__(self, instance: object, owner: Any = None) -> Read_co: ...
        def __set__(self, instance: object, value: Given_contra) -> None: ...

    Texts = Takes[tuple[str, ...], Sequence[str]]
    Sources = Takes[tuple[str, ...], Sequence[str]]
    Before = Takes[Literal["successors"] | tuple[str, ...], Literal["successors"] | Sequence[str]]
    Interval = Takes[tuple[float, float] | None, Sequence[float] | None]
    Json = Takes[JsonObject, Mapping[str, Any]]
    SeverityField = Takes[Severity | None, Severity | str | None]
    VerdictField = Takes[VerdictValue, VerdictValue | str]
    ComplianceField = Takes[Compliance, Compliance | str]
    OutcomeField = Takes[OutcomeStatus, OutcomeStatus | str]
    UrgencyField = Takes[Urgency, Urgency | str]
    RouteField = Takes[Route | None, Route | str | None]
else:
    _Ordered = BeforeValidator(_ordered)
    _Finite = Annotated[float, Field(strict=True)]
    Texts = Annotated[tuple[Text, ...], _Ordered]
    Sources = Annotated[tuple[Text, ...], Field(min_length=2), _Ordered]
    Before = Literal["successors"] | Texts
    Interval = Annotated[tuple[_Finite, _Finite], _Ordered] | None
    Json = JsonObject
    SeverityField = Severity | None
    VerdictField = VerdictValue
    ComplianceField = Compliance
    OutcomeField = OutcomeStatus
    UrgencyField = Urgency
    RouteField = Route | None

# Defaults of fields that read as something else than they are given: untyped, so that both sides accept them.
NONE: Any = None
EMPTY: Any = ()
OBJECT: Any = Field(default_factory=dict)
