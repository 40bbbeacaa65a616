"""Reuse: a node whose whole input equals that of a completed node of an earlier run takes its outcome.

The key is made of content, never of position: the function's source, verb, parameters, the instruction as
it reads, the tier, what the node's predecessors gave and emitted, and the context that it sees. A node
that is ``fresh``, says that it made files beside those it declares, or failed, and a gate without a
verdict, runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from orchestrator.core.commands import EmissionIn, Finish, WriteIn
from orchestrator.core.context import Reducer, view_of
from orchestrator.core.facts import LeftArtifact
from orchestrator.core.gates import GATE_VERDICT
from orchestrator.core.retracting import EMPTY
from orchestrator.core.rework import reworked
from orchestrator.core.scopes import context_mapping, node_scope
from orchestrator.core.spec import Operation
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status
from orchestrator.core.templates import compile_template, render_json
from orchestrator.errors import OrchestratorError
from orchestrator.runtime.values import encode
from orchestrator.runtime.views import sources_of

__all__ = ["Outcome", "content_key", "finish_with", "reusable"]

_FILES = "ArtifactProduced"


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a completed node left: its value, emissions as (kind, payload, key), writes, files."""

    value: bytes
    emissions: tuple[tuple[str, bytes, str | None], ...] = ()
    writes: tuple[tuple[str, bytes, tuple[str, ...], bool], ...] = ()
    artifacts: tuple[LeftArtifact, ...] = ()


def reusable(state: RunState, reducers: Mapping[str, Reducer] | None = None) -> dict[str, Outcome]:
    """Outcomes of a run that others may take, by content key.

    Args:
        state: the whole run. reducers: its own, by name.
    """
    found: dict[str, Outcome] = {}
    for node in state.nodes.values():
        if node.status is not Status.COMPLETED or node.value is None or node.judgement == "undecided":
            continue
        if node.op.fresh or any(entry.kind == _FILES for entry in node.ledger):
            continue
        if not all(one.copied and Path(one.place).is_file() for one in node.artifacts):
            continue
        key = content_key(state, node, reducers)
        if key is not None:
            found[key] = _outcome(node)
    return found


def _outcome(node: NodeState) -> Outcome:
    writes = []
    for key, write in (node.writes or {}).items():
        if key != node.op.writes and write.value != EMPTY:
            writes += [(key, value, write.leaves, write.replace) for value in (write.value, *write.more)]
    return Outcome(
        node.value or b"null",
        tuple((entry.kind, entry.payload, entry.key) for entry in node.ledger),
        tuple(writes),
        node.artifacts,
    )


def content_key(
    state: RunState, node: NodeState, reducers: Mapping[str, Reducer] | None = None
) -> str | None:
    """The hash of everything that a node's work depends on; None if it cannot be told.

    Args:
        state: the run that the node is in; every predecessor has settled. reducers: its own, by name.
    """
    operation = node.op
    name = f"role:{operation.role}" if operation.role else f"verb:{operation.verb}"
    code = state.definition.functions.get(name)
    if code is None or operation.fresh or operation.for_each is not None:
        return None
    try:
        parameters: object = msgspec.json.decode(operation.parameters)
        instruction = operation.instruction
        if operation.renders:
            scope = node_scope(state, node, reducers)
            parameters = render_json(parameters, scope)
            instruction = compile_template(instruction).render(scope)
        context = dict(context_mapping(state, view_of(state, node), reducers))
        parts = [
            code.rpartition("::")[2], operation.verb, operation.role, parameters, instruction,
            list(operation.models), operation.tier, operation.gate is not None, context,
            operation.workdir, [[one.name, one.path] for one in operation.artifacts],
            _rework(state, node),
            operation.effort, operation.tools, operation.asks, operation.inputs, _element(operation),
        ]  # fmt: skip
        data = encode(parts)
    except OrchestratorError:
        return None
    digest = hashlib.sha256(data)
    for reads_as, source in sources_of(state, node):
        digest.update(f"\0{reads_as}\0{source.status.value}\0".encode())
        digest.update(source.value or b"")
        for left in source.artifacts:
            digest.update(f"\0{left.name}\0{left.sha256}\0".encode())
        if source.error is not None:
            digest.update(f"{source.error.type}: {source.error.message}".encode())
        for entry in source.ledger:
            digest.update(f"\0{entry.kind}\0".encode() + entry.payload)
    return digest.hexdigest()


def _element(operation: Operation) -> object:
    """The element that an instance was made for: its body may read it without a text that names it."""
    one = operation.instance
    return None if one is None else [msgspec.json.decode(one.item), one.index]


def _rework(state: RunState, node: NodeState) -> list[object] | None:
    """What a node in a later round was told: it does not take the outcome of the round before."""
    told = reworked(state, node)
    if told is None:
        return None
    value = None if told.value is None else told.value.decode()
    return [told.round, told.verdict, told.rationale, told.reversible_by, value]


def finish_with(node: NodeState, attempt: int, outcome: Outcome) -> tuple[Finish, list[bytes]]:
    """The command that settles a node with another run's outcome."""
    values = [outcome.value]
    emissions = []
    for kind, payload, key in outcome.emissions:
        values.append(payload)
        emissions.append(EmissionIn(kind, len(values) - 1, "result", key))
    writes = []
    for key, value, leaves, replace in outcome.writes:
        values.append(value)
        writes.append(WriteIn(key, len(values) - 1, leaves, replace))
    if node.op.writes is not None:
        writes.append(WriteIn(node.op.writes, 0))
    top_level: str | None = None
    if node.op.gate is not None:
        plain = msgspec.json.decode(outcome.value)
        top_level = plain.get(GATE_VERDICT) if isinstance(plain, dict) else None
    command = Finish(
        node.op.name,
        attempt,
        value=0,
        emissions=tuple(emissions),
        writes=tuple(writes),
        gate_verdict=top_level,
        restored=True,
        artifacts=outcome.artifacts,
    )
    return command, values
