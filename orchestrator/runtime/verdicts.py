"""What a gate's value says about its verdict (kernel.md 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from emissions import Verdict
from orchestrator.core.commands import EmissionIn
from orchestrator.core.gates import GATE_VERDICT, REJECT, gate_verdict
from orchestrator.core.state import NodeState

__all__ = ["gate_value", "verdicts_in"]


def verdicts_in(emissions: Sequence[EmissionIn], values: Sequence[bytes]) -> list[str]:
    """The verdicts among what a node gives at its end; a refused one decides nothing."""
    return [
        msgspec.json.decode(values[one.payload])["verdict"]
        for one in emissions
        if one.kind == Verdict.emission_kind and not one.reason and one.payload is not None
    ]


def gate_value(node: NodeState, plain: Any, given: list[str]) -> tuple[Any, str | None]:
    """A gate's value carries ``gate_verdict`` where its verdict refuses (kernel.md 6)."""
    gate = node.op.gate
    top_level = plain.get(GATE_VERDICT) if isinstance(plain, dict) else None
    verdicts = [*(node.verdicts or ()), *given]
    if gate is not None and verdicts and isinstance(plain, dict):
        if {gate_verdict(gate, verdict) for verdict in verdicts} == {REJECT}:
            plain = {**plain, GATE_VERDICT: REJECT}
        else:
            plain = {key: value for key, value in plain.items() if key != GATE_VERDICT}
    return plain, top_level if isinstance(top_level, str) else None
