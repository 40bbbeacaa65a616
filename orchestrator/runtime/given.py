"""What a recorded node was given: the exact text, its parameters, its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from orchestrator.core.context import Reducer, view_of
from orchestrator.core.rework import with_notice
from orchestrator.core.scopes import context_mapping, node_scope
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.templates import compile_template, render_json
from orchestrator.errors import OrchestratorError
from orchestrator.runtime.steering import rendered, returned_plan
from orchestrator.runtime.views import failures_of, sources_of
from roles import NodeError

__all__ = ["Given", "given_to"]

_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Given:
    """What a node's role read of its turn.

    Attributes:
        instruction: the exact text, an operator's notes included. parameters: rendered.
        inputs: predecessor -> its value, of those that completed. failed: those that failed.
        context: the shared context as the node saw it; keys that cannot be folded here are left out.
        faults: what could not be rendered, and why.
    """

    instruction: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    failed: Mapping[str, NodeError] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    def mapping(self) -> dict[str, Any]:
        """As JSON data."""
        failed = {name: {"type": one.type, "message": one.message} for name, one in self.failed.items()}
        return {
            "instruction": self.instruction,
            "parameters": self.parameters,
            "inputs": self.inputs,
            "failed": failed,
            "context": self.context,
            "faults": list(self.faults),
        }


def given_to(state: RunState, node: NodeState, reducers: Mapping[str, Reducer] | None = None) -> Given:
    """What ``node`` was given when it last started, from what its ancestors settled with.

    A node that has not started is told what it would be given now.
    """
    faults: list[str] = []
    scope = node_scope(state, node, reducers)
    instruction, parameters = node.op.instruction, _decode(node.op.parameters)
    if node.op.renders:
        try:
            instruction = compile_template(instruction).render(scope) if "${" in instruction else instruction
        except OrchestratorError as error:
            faults.append(f"instruction: {error}")
        try:
            parameters = render_json(parameters, scope)
        except OrchestratorError as error:
            faults.append(f"parameters: {error}")
    instruction = with_notice(state, node, instruction)
    notes = [(note.time, note.text) for note in state.steers if note.delivered_to == node.op.name]
    inputs = {
        name: _decode(source.value)
        for name, source in sources_of(state, node)
        if source.value is not None and source.status == "completed"
    }
    told = returned_plan(node.plan_faults, instruction) if node.plan_faults else instruction
    return Given(
        rendered(notes, told) if notes else told,
        parameters,
        inputs,
        failures_of(state, node),
        _context(state, node, reducers, faults),
        tuple(faults),
    )


def _context(
    state: RunState, node: NodeState, reducers: Mapping[str, Reducer] | None, faults: list[str]
) -> Mapping[str, Any]:
    seen = context_mapping(state, view_of(state, node) if node.seen else {}, reducers)
    found: dict[str, Any] = {}
    for key in seen:
        try:
            found[key] = seen[key]
        except OrchestratorError as error:
            faults.append(f"context: {error}")
    return found
