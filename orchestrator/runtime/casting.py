"""Who performs an operation: a function, a program or a model, and what the role says of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from emissions import Verdict
from orchestrator.agents.backends import check_model
from orchestrator.agents.toolbox import Toolbox
from orchestrator.core.spec import Operation, Retry, RoleSpec
from orchestrator.errors import GraphError, OperationError
from orchestrator.flows.operations import make_retry
from roles import Role
from roles.tools import listed, tool_name

__all__ = ["cast_as", "check_tools", "nearest", "role_for", "spec_of"]

#: What a child of a role that speaks may be asked to perform: the seed's four verbs.
_SPAWN_VERBS: Final = ("operate", "chat", "communicate", "ReAct")


def spec_of(role: Role, model: str | None) -> RoleSpec:
    """What the core must know of a role."""
    speaks = role.fn is None
    return RoleSpec(
        name=role.name,
        emits=tuple(kind.emission_kind for kind in role.grants),
        models=_models(role, model),
        escalates_to=role.escalates_to,
        speaks=speaks,
        verbs=_SPAWN_VERBS if speaks else ("operate",),
        retry=_retry(role),
        timeout=role.timeout,
    )


def _models(role: Role, model: str | None) -> tuple[str, ...]:
    """The tiers of a role; ``model``: what the session says for every role that speaks."""
    if role.fn is not None or role.program is not None or model is None:
        return tuple(role.models)
    return (model,)


def role_for(operation: Operation, roles: Mapping[str, Role], model: str | None) -> Role:
    """The role of an operation.

    Raises:
        OperationError: there is none of this name, or nothing performs it.
        GraphError: a gate's role does not declare Verdict.
    """
    role = roles.get(operation.role or "")
    if role is None:
        message = f"{operation.name} names role {operation.role!r}, which is not known"
        raise OperationError(message + nearest(operation.role or "", roles))
    if role.fn is None and role.program is None:
        _performable(operation, role, model)
    if operation.gate is not None and Verdict not in role.emits:
        message = (
            f"{operation.name} is a gate, but role {role.name!r} does not declare Verdict; add it to emits="
        )
        raise GraphError(message)
    return role


def _performable(operation: Operation, role: Role, model: str | None) -> None:
    """Refuse a node that nothing can perform."""
    models = (model,) if model is not None else (*operation.models, *role.models)
    if not models:
        message = (
            f"{operation.name}: role {role.name!r} has no function, no program and no model; "
            "give it a function with @role(), program= or models=, or say --model NAME (Session(model=))"
        )
        raise OperationError(message)
    for one in (*models, *role.fallback):
        check_model(role, one)


def check_tools(planned: Iterable[Operation], roles: Mapping[str, Role], tools: Toolbox) -> None:
    """Refuse tools that nobody has, and nodes that name one which their role has not.

    Raises:
        OperationError: which; nothing has run.
    """
    for role in roles.values():
        if role.fn is None:
            tools.check(role)
    for operation in planned:
        actor = roles.get(operation.role or "")
        if actor is None or actor.fn is not None:
            continue
        known = [tool_name(tool) for tool in actor.tools]
        for name in operation.tools or ():
            if not listed(name, known):
                message = (
                    f"{operation.name} cannot use {name!r}: its role {actor.name} does not have it; "
                    "tools only narrows"
                )
                raise OperationError(message + nearest(name, known))


def cast_as(operation: Operation, role: Role, model: str | None) -> Operation:
    """What the role says where the node says nothing."""
    speaks = role.fn is None
    silent = role.retry is None and role.timeout is None and not role.models and model is None
    if silent and operation.speaks is speaks:
        return operation
    models = operation.models or tuple(role.models)
    return msgspec.structs.replace(
        operation,
        retry=operation.retry or _retry(role),
        timeout=operation.timeout if operation.timeout is not None else role.timeout,
        models=_models(role, model) if speaks and model is not None else models,
        speaks=speaks,
    )


def _retry(role: Role) -> Retry | None:
    retry = role.retry
    if retry is None or isinstance(retry, Retry):
        return retry
    given = Retry(
        attempts=retry.attempts,
        backoff=retry.backoff,
        factor=retry.factor,
        max_delay=retry.max_delay,
        jitter=retry.jitter,
        on=tuple(retry.on),
    )
    return make_retry(given, f"retry of role {role.name}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error about a name that is not known."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known)) or 'none'}"
