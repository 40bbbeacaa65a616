"""How the core reads the emissions it acts on: the JSON at the boundary, as msgspec structs.

The pydantic types in ``emissions`` validate what strangers say; these read what was validated. A test
holds the two together, field by field.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "GROWING",
    "AssignmentPayload",
    "EscalationPayload",
    "SpawnPayload",
    "VerdictPayload",
    "read_assignment",
    "read_escalation",
    "read_spawn",
    "read_verdict",
]

#: Kinds that grow the graph: offered only where there is spawn budget.
GROWING = frozenset({"SpawnRequest", "TaskAssignment"})
_EMPTY = msgspec.Raw(b"{}")


class SpawnPayload(msgspec.Struct, frozen=True, gc=False):
    """A SpawnRequest."""

    instruction: str = ""
    assignee: str | None = None
    operation: str = "operate"
    parameters: msgspec.Raw = _EMPTY
    independent: bool = False
    reason: str | None = None
    key: str | None = None
    after: tuple[str, ...] = ()
    before: tuple[str, ...] | Literal["successors"] = ()
    required: bool = False
    inherit: bool = False


class AssignmentPayload(msgspec.Struct, frozen=True, gc=False):
    """A TaskAssignment."""

    name: str
    task: str
    assignee: str
    inputs: msgspec.Raw = _EMPTY
    exit_criteria: str | None = None
    depends_on: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()

    @property
    def instruction(self) -> str:
        """What its node is to do, and when that is done."""
        return f"{self.task}\n\nDone when: {self.exit_criteria}" if self.exit_criteria else self.task


class VerdictPayload(msgspec.Struct, frozen=True, gc=False):
    """A Verdict."""

    verdict: str
    rationale: str = ""
    evidence: str | None = None
    reversible_by: str | None = None


class EscalationPayload(msgspec.Struct, frozen=True, gc=False):
    """An EscalationRequest."""

    reason: str
    urgency: str = "blocked"
    route: str | None = None
    context: msgspec.Raw = _EMPTY

    @property
    def effective_route(self) -> str:
        """The explicit route, else the urgency's: blocked goes up, fyi notifies."""
        return self.route or ("notify" if self.urgency == "fyi" else "higher_tier")


#: Decoders made once: each is used for every emission of its kind.
read_spawn = msgspec.json.Decoder(SpawnPayload).decode
read_assignment = msgspec.json.Decoder(AssignmentPayload).decode
read_verdict = msgspec.json.Decoder(VerdictPayload).decode
read_escalation = msgspec.json.Decoder(EscalationPayload).decode
