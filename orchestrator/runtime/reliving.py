"""One recorded node with everything that it takes to run it again outside of its run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from emissions import EMISSIONS
from orchestrator.core.gates import GATE_VERDICT
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.verbs import ACT
from orchestrator.errors import OperationError
from orchestrator.runtime.casting import lent
from orchestrator.runtime.given import Given, given_to
from orchestrator.runtime.projections import node_result
from orchestrator.runtime.rebuilding import rebuild
from orchestrator.runtime.retelling import retold
from orchestrator.runtime.views import emissions_of
from roles import Catalogue, Emitted, Role

__all__ = ["Outcome", "Scene", "recorded_outcome", "scene_of", "unmarked"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a node, as far as two attempts of it can be compared.

    Attributes:
        status: ``succeeded`` or ``failed``. value: JSON data. error: ``Type: text``, or empty.
        emitted: kind and payload of every accepted emission, in order.
    """

    status: str
    value: Any = None
    error: str = ""
    emitted: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """A node as it stood in its run.

    Attributes:
        role: what performs it, with its code as it is now. given: what it was given.
        emissions: what its ancestors had said. roles: node -> its role.
        answers: question key -> answer. recorded: what came of it, as the role alone gives it.
        marked: a gate with a verdict: ``gate_verdict`` of its value is set by the engine, not by the role.
        speaks: a model or a program performs it; it says something else each time.
    """

    run: str
    node: str
    role: Role
    given: Given
    emissions: tuple[Emitted[Any], ...]
    roles: Mapping[str, str]
    answers: Mapping[str, Any]
    recorded: Outcome
    marked: bool = False
    speaks: bool = False


def unmarked(value: Any) -> Any:
    """A gate's value without what the engine sets by its verdicts."""
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if key != GATE_VERDICT}


def scene_of(state: RunState, name: str, recorded: Outcome | None, model: str | None = None) -> Scene:
    """What a node of a recorded run needs to run again.

    Args:
        recorded: what came of it; None if nothing did yet. model: performs a role that a model performs.

    Raises:
        OperationError: it has not settled, its role cannot be found again, or nothing names a model.
    """
    node = state.nodes[name]
    if node.op.for_each is not None:
        raise OperationError(f"{name} runs once per element; try an instance of it, such as {name}.1")
    if node.op.inquiry is not None:
        raise OperationError(f"{name} asks a person; there is no role to try")
    if recorded is None:
        raise OperationError(
            f"{name} is {node.status.value}: only a node that completed or failed runs again"
        )
    marked = node.op.gate is not None and bool(node.verdicts)
    emitted = [one for kind in EMISSIONS.values() for one in emissions_of(state, node, kind)]
    role, given = _role(state, node), given_to(state, node)
    speaks = role.fn is None
    if speaks:
        role = retold(state, node, role, given, emitted, model)
    elif model is not None:
        raise OperationError(
            f"{name} is performed by a function; --model says who performs a role without one"
        )
    return Scene(
        state.run,
        name,
        role,
        given,
        tuple(emitted),
        {source: one.op.role for source, one in state.nodes.items() if one.op.role is not None},
        {
            key: msgspec.json.decode(question.answer)
            for key, question in (node.questions or {}).items()
            if question.answer is not None
        },
        recorded,
        marked,
        speaks,
    )


def _role(state: RunState, node: NodeState) -> Role:
    """What performs a node, with its code as it is now; a verb of the session's as a role of its name."""
    prepared = rebuild(state, Catalogue(), {}, new_definition=True)
    name, verb = node.op.role, node.op.verb
    if name is None and verb in prepared.verbs:
        return Role(verb, fn=prepared.verbs[verb].fn)
    if name is None:
        return lent(node.op.tools or (), prepared.roles)
    body = prepared.bodies.get(name)
    role = prepared.speakers.get(name) if body is None else body.role
    if role is None or verb == ACT:
        raise OperationError(f"{node.op.name} is performed by {name or verb!r}, which is no role to try")
    return role


def recorded_outcome(node: NodeState, said: Iterable[int]) -> Outcome:
    """What came of a node that has run, as its role alone gives it.

    Args:
        said: numbers of the ledger entries that its last attempt emitted, or emitted again.
    """
    error = node_result(node).error
    value = None if node.value is None else msgspec.json.decode(node.value)
    if node.op.gate is not None and node.verdicts:
        value = unmarked(value)
    entries = [node.ledger[number - 1] for number in said]
    emitted = tuple((entry.kind, msgspec.json.decode(entry.payload)) for entry in entries)
    failed = error is not None
    return Outcome(
        "failed" if failed else "succeeded",
        value,
        f"{error.type}: {error.message}" if error is not None else "",
        emitted,
    )
