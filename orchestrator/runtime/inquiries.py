"""What runs for a node that a person settles: it asks, and gives the answer as its value."""

from __future__ import annotations

from typing import Any

import msgspec

from emissions import Verdict, VerdictValue
from orchestrator.core.spec import Inquiry
from orchestrator.flows.shapes import shape_fault
from orchestrator.runtime.turns import RoleTurn

__all__ = ["ask_person"]


async def ask_person(turn: RoleTurn) -> Any:
    """Ask the node's question until the answer fits; a gate gives it as a Verdict."""
    operation = turn.operation
    inquiry = operation.inquiry or Inquiry()
    schema = None if operation.returns is None else msgspec.json.decode(operation.returns)
    gate = operation.gate is not None
    choices = inquiry.choices or (tuple(VerdictValue) if gate else ())
    question, tries = _text(turn, inquiry), 1
    key, fault = operation.name, None
    while True:
        answer = await turn.ask(
            question if fault is None else f"{fault}; {question}",
            key=key,
            choices=[str(choice) for choice in choices],
            schema=schema,
            expires=inquiry.expires,
            default=msgspec.json.decode(inquiry.default),
        )
        if gate:
            return _verdict(turn, key, answer)
        fault = None if schema is None else shape_fault(schema, answer, "the answer")
        if fault is None:
            return answer
        tries += 1
        key = f"{operation.name} {tries}"


def _text(turn: RoleTurn, inquiry: Inquiry) -> str:
    """The question, and under it what the person is shown with it."""
    shown = turn.render(inquiry.show)
    return f"{turn.instruction}\n\n{shown}" if shown else turn.instruction


def _verdict(turn: RoleTurn, key: str, answer: object) -> Verdict | None:
    """The person's verdict; None leaves the gate undecided (nobody answered and there is no default)."""
    if answer is None:
        return None
    who, why = turn.answered_by(key)
    return Verdict(verdict=VerdictValue(answer), rationale=why or f"decided by {who or 'somebody'}")  # type: ignore[arg-type]
