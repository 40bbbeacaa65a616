"""From what a role gave to what its task wrote, said and decided. Runs in the worker, outside the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from emissions import Emission
from orchestrator.core.commands import EmissionIn, Proposal
from orchestrator.core.gates import GATE_VERDICT, REJECT
from orchestrator.core.gates import gate_verdict as judged
from orchestrator.core.state import NodeState
from orchestrator.runtime.outcomes import Settled, checked, emissions_in, only_escalation
from orchestrator.runtime.values import settle
from orchestrator.runtime.verdicts import gate_value, verdicts_in
from orchestrator.supersteps.blueprint import NodeSpec
from orchestrator.supersteps.turns import StepTurn
from orchestrator.supersteps.words import Command, Overwrite

if TYPE_CHECKING:
    from orchestrator.supersteps.engine import StepEngine

__all__ = ["Performed", "performed"]


class Performed(msgspec.Struct):
    """What a role's value carries beside writes.

    Attributes:
        given: what the node gave, as a plain function would have: an update, Commands, or nothing.
        payloads: JSON of the emissions, to which they refer by their place behind the task's writes.
        rejects: the gate's verdict lets the task lead nowhere.
        plain: the value as data, with its verdict, as conditions of edges read it.
    """

    given: list[Any]
    payloads: list[bytes]
    emissions: tuple[EmissionIn, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    gate_verdict: str | None = None
    only_escalation: bool = False
    rejects: bool = False
    plain: Any = None


def performed(engine: StepEngine, node: NodeState, turn: StepTurn, spec: NodeSpec, value: Any) -> Performed:
    """Take a role's value apart.

    Raises:
        NotExactError: it is no JSON data. ExecutionError: it does not have the shape that it declares.
    """
    items = value if isinstance(value, list | tuple) else [value]
    commands = [one for one in items if isinstance(one, Command)]
    data = [one.update for one in commands] if commands else value
    _, found, plain = settle(data)
    settled = Settled(plain, found, [b"{}"])
    if not commands:
        plain = checked(engine, node, settled)
    emissions, proposals = emissions_in(engine, node, turn, settled)
    verdicts = [*(node.verdicts or ()), *verdicts_in(emissions, settled.values)]
    top = None
    if node.op.gate is not None:
        plain, top = gate_value(node, plain, verdicts_in(emissions, settled.values))
    made = Performed([], settled.values[1:], emissions, proposals, top, only_escalation(value))
    made.rejects, made.plain = _rejects(node, verdicts, top), plain
    if verdicts and isinstance(plain, dict):
        # one that was given over a tool is read by the conditions of its edges like one that was returned
        made.plain = {"verdict": verdicts[-1], **plain}
    if node.op.gate is not None and node.op.speaks and not (spec.writes or node.op.returns):
        # its verdict is what it gives; what it says beside that stays in its conversation
        commands, items, value, plain = [], [], None, None
    made.given = _given(spec, commands, items, value, plain)
    for key, written, replace in turn.pending_writes or ():
        made.given.insert(0, {key: Overwrite(written) if replace else written})
    return made


def _given(spec: NodeSpec, commands: list[Command], items: Any, value: Any, plain: Any) -> list[Any]:
    """What is written: Commands as they are, the value under its key, or mappings of state keys."""
    if commands:
        return [one for one in items if not isinstance(one, Emission)]
    if spec.writes is not None:
        return [{spec.writes: plain}]
    if isinstance(value, list | tuple):
        # what is an emission and nothing else writes nothing
        return [one for one, raw in zip(plain, value, strict=True) if not isinstance(raw, Emission)]
    if isinstance(value, Emission):
        return []
    if isinstance(plain, dict) and GATE_VERDICT in plain:
        plain = {key: one for key, one in plain.items() if key != GATE_VERDICT}
    return [] if plain is None else [plain]


def _rejects(node: NodeState, verdicts: list[str], top: str | None) -> bool:
    """As the core will judge: where all verdicts agree to refuse, or nothing but the top level says so."""
    gate = node.op.gate
    if gate is None:
        return False
    if verdicts:
        return {judged(gate, verdict) for verdict in verdicts} == {REJECT}
    return top == REJECT
