"""Roles as nodes: what a node that a role performs may say, and who performs it (supersteps.md 18)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec

from orchestrator.core.spec import Operation, Retry, RoleSpec
from orchestrator.errors import GraphError
from orchestrator.flows.operations import create_operation
from orchestrator.runtime.casting import House, cast_as, role_for, spec_of
from orchestrator.runtime.planning import Body
from roles import Catalogue, Role

__all__ = ["Cast", "RoleOptions", "cast_for", "role_node"]


class RoleOptions(TypedDict, total=False):
    """What can be said of a node that a role performs.

    Attributes:
        writes: state key that its value is written to; without it the value is a mapping of state keys.
        gate: True or a Gate: a rejecting Verdict lets its task lead nowhere.
        instruction: what to do, in words; ``${context.KEY}`` is replaced when ``renders`` is True.
        parameters: what it reads as ``turn.parameters``; a Send's argument goes over them.
        returns: the shape of its value: a type, or a JSON Schema.
        emits: kinds, narrowing the role's. tools: names, likewise.
        fresh: every visit begins an empty conversation.
        inputs: state keys that a model is shown; None is all of them.
        models: tiers, of which the first is used. effort: how hard the model thinks.
        asks: a model may ask a person. uses: names of the session's limits.
        artifacts: files that it leaves, beside those of its role.
        renders: instruction and parameters hold ``${...}``. description: for people.
    """

    writes: str | None
    gate: object
    instruction: str
    parameters: Mapping[str, Any]
    returns: object
    emits: Iterable[str] | None
    tools: Iterable[str] | None
    fresh: bool
    inputs: Iterable[str] | None
    models: Iterable[str]
    effort: str | None
    asks: bool
    uses: Iterable[str]
    artifacts: Iterable[object]
    renders: bool
    description: str


@dataclass(frozen=True, slots=True)
class Cast:
    """Who performs the nodes of a compiled graph.

    Attributes:
        specs: what the core knows of each role. bodies: of function roles. speakers: all others.
        operations: of nodes that a role performs, as the role and the session's model complete them.
    """

    specs: tuple[RoleSpec, ...] = ()
    bodies: Mapping[str, Body] = field(default_factory=dict)
    speakers: Mapping[str, Role] = field(default_factory=dict)
    operations: Mapping[str, Operation] = field(default_factory=dict)


def role_node(
    name: str, role: Role, keys: Collection[str], retry: Retry | None, options: RoleOptions
) -> Operation:
    """The operation of a node that a role performs.

    Args:
        keys: of the state. retry: of the node; None leaves it to the role.

    Raises:
        GraphError: a gate with refusals, a key that is none, or a value that has nowhere to go.
        OperationError: an option does not fit.
    """
    said: dict[str, Any] = {**options}
    unknown = [key for key in said if key not in RoleOptions.__annotations__]
    if unknown:
        known = ", ".join(RoleOptions.__annotations__)
        raise GraphError(f"{name}: a role's node takes no {unknown[0]}=; it takes {known}")
    made = create_operation(role, said.pop("parameters", None), node_id=name, retry=retry, **said)
    if made.writes is not None and made.writes not in keys:
        raise GraphError(f"{name} writes {made.writes!r}, which is no state key; there are {', '.join(keys)}")
    if made.gate is not None and (made.gate.refusals or made.gate.back_to is not None):
        raise GraphError(
            f"{name}: a gate of a stepped graph has no refusals and no back_to; a conditional edge leads back"
        )
    if role.fn is None and not (made.writes or made.returns or made.gate):
        raise GraphError(
            f"{name}: what role {role.name} says has nowhere to go; give writes=STATE_KEY, or returns= whose "
            f"fields are state keys"
        )
    return made


def cast_for(operations: Mapping[str, Operation], roles: Catalogue, model: str | None) -> Cast:
    """Find out who performs each node.

    Args:
        operations: by node; those without a role are left out. model: performs every role that speaks.

    Raises:
        OperationError: nothing performs a role. GraphError: a gate's role does not declare Verdict.
    """
    house = House({role.name: role for role in roles}, {}, model)
    resolved = {
        name: _timeless(cast_as(one, role_for(one, house), model))
        for name, one in operations.items()
        if one.role is not None
    }
    return Cast(
        specs=tuple(spec_of(role, model) for role in roles),
        bodies={role.name: Body(role.fn, role.is_async, role) for role in roles if role.fn is not None},
        speakers={role.name: role for role in roles if role.fn is None},
        operations=resolved,
    )


def _timeless(operation: Operation) -> Operation:
    """Timeouts of a step's tasks are kept beside them, where error handlers see them."""
    return msgspec.structs.replace(operation, timeout=None)
