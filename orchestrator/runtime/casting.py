"""Who performs an operation: a function, a program or a model, and what the role says of it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from emissions import Verdict
from orchestrator.agents.backends import check_model, check_program, priced
from orchestrator.agents.toolbox import Toolbox
from orchestrator.agents.verbs import ALONE
from orchestrator.core.spec import Operation, Plan, Retry, RoleSpec
from orchestrator.core.verbs import ACT, SPAWN_VERBS, SPEAKING, VERBS, verb_fault
from orchestrator.errors import GraphError, OperationError
from orchestrator.flows.operations import make_retry
from roles import Role
from roles.tools import listed, tool_name

__all__ = [
    "House",
    "cast_as",
    "check_means",
    "check_prices",
    "check_tools",
    "lent",
    "nearest",
    "role_for",
    "spec_of",
    "without_role",
]


@dataclass(frozen=True, slots=True)
class House:
    """What a plan may name.

    Attributes:
        roles: by name. verbs: those that the session performs by functions of its own.
        model: performs every role that speaks; their own models if None.
        find_tools: refuses a role whose tools cannot all be found.
    """

    roles: Mapping[str, Role]
    verbs: Mapping[str, Any]
    model: str | None
    find_tools: Callable[[Role], None] = field(default=lambda _role: None)


def spec_of(role: Role, model: str | None) -> RoleSpec:
    """What the core must know of a role."""
    speaks = role.fn is None
    return RoleSpec(
        name=role.name,
        emits=tuple(kind.emission_kind for kind in role.grants),
        models=_models(role, model),
        escalates_to=role.escalates_to,
        speaks=speaks,
        verbs=SPAWN_VERBS if speaks else ("operate",),
        retry=_retry(role),
        timeout=role.timeout,
    )


def _models(role: Role, model: str | None) -> tuple[str, ...]:
    """The tiers of a role; ``model``: what the session says for every role that speaks."""
    if role.fn is not None or role.program is not None or model is None:
        return tuple(role.models)
    return (model,)


def role_for(operation: Operation, house: House) -> Role:
    """The role of an operation.

    Raises:
        OperationError: there is none of this name, nothing performs it, or its verb is not known.
        GraphError: a gate's role does not declare Verdict.
    """
    roles = house.roles
    role = roles.get(operation.role or "")
    if role is None:
        message = f"{operation.name} names role {operation.role!r}, which is not known"
        raise OperationError(message + nearest(operation.role or "", roles))
    if role.fn is None:
        _check_verb(operation, house)
    if role.fn is None and role.program is None:
        _performable(operation, role, house)
    if operation.gate is not None and Verdict not in role.emits:
        message = (
            f"{operation.name} is a gate, but role {role.name!r} does not declare Verdict; add it to emits="
        )
        raise GraphError(message)
    return role


def without_role(operation: Operation, house: House) -> Operation:
    """An operation that names a verb alone: the session's own, or one on its default model.

    Raises:
        OperationError: there is no such verb, it lacks something, or nothing names a model.
    """
    verb = operation.verb
    if verb in house.verbs:
        return msgspec.structs.replace(operation, speaks=verb in SPEAKING)
    _check_verb(operation, house)
    if verb == ACT:
        _act(operation, None, house)
        return msgspec.structs.replace(operation, speaks=False)
    models = operation.models if house.model is None else (house.model,)
    if not models:
        message = (
            f"{operation.name} performs {verb!r} without a role, and nothing names a model: say models= (a "
            f"document: model:) or --model NAME (Session(model=)), give it a role, or register "
            f"the verb: session.register_operation({verb!r}, fn)"
        )
        raise OperationError(message)
    for one in models:
        check_model(operation.name, one)
    house.find_tools(lent(operation.tools or (), house.roles.values()))
    return msgspec.structs.replace(operation, models=models, speaks=True)


def lent(names: Sequence[str], roles: Iterable[Role]) -> Role:
    """Who works without a role, with the tools that its node names: the session's, else those of a role."""
    own = {
        tool_name(tool): tool for role in roles for tool in reversed(role.tools) if not isinstance(tool, str)
    }
    return Role(ALONE.name, body=ALONE.body, tools=tuple(own.get(name, name) for name in names))


def _check_verb(operation: Operation, house: House) -> None:
    if operation.verb in house.verbs:
        return
    if operation.verb not in VERBS:
        message = f"{operation.name} performs {operation.verb!r}, which no session operation is called"
        raise OperationError(message + nearest(operation.verb, [*house.verbs, *VERBS]))
    fault = verb_fault(operation)
    if fault is not None:
        raise OperationError(f"{operation.name}: {fault}")


def _act(operation: Operation, role: Role | None, house: House) -> None:
    """Refuse a call of a tool that there is not; one whose name is rendered is judged at the call."""
    name = str(msgspec.json.decode(operation.parameters)["tool"])
    if "${" in name:
        return
    if role is None:
        house.find_tools(lent((name,), house.roles.values()))
        return
    known = [tool_name(tool) for tool in role.tools]
    if not listed(name, known):
        message = f"{operation.name} calls the tool {name!r}, which role {role.name} does not have"
        raise OperationError(message + nearest(name, known))


def _performable(operation: Operation, role: Role, house: House) -> None:
    """Refuse a node that nothing can perform."""
    if operation.verb == ACT:
        _act(operation, role, house)
        return
    model = house.model
    models = (model,) if model is not None else (*operation.models, *role.models)
    if not models:
        message = (
            f"{operation.name}: role {role.name!r} has no function, no program and no model; "
            "give it a function with @role(), program= or models=, or say --model NAME (Session(model=))"
        )
        raise OperationError(message)
    for one in (*models, *role.fallback):
        check_model(f"role {role.name}", one)


def check_means(roles: Iterable[Role], tools: Toolbox) -> None:
    """Refuse roles that speak whose agent, or one of whose tools, is not to be had here.

    Raises:
        OperationError: which.
    """
    for role in roles:
        if role.fn is None:
            check_program(role)
            tools.check(role)


def check_tools(planned: Iterable[Operation], roles: Mapping[str, Role], tools: Toolbox) -> None:
    """Refuse tools that nobody has, and nodes that name one which their role has not.

    Raises:
        OperationError: which; nothing has run.
    """
    check_means(roles.values(), tools)
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
    speaks = role.fn is None and operation.verb != ACT
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


def check_prices(plan: Plan, speakers: Mapping[str, Role]) -> None:
    """Refuse a budget in dollars over models that nobody can price: it would hold nothing.

    Raises:
        OperationError: names the model, and who would call it.
    """
    if plan.budget.cost_usd is None:
        return
    for who, model in _called(plan, speakers):
        if priced(model) is False:
            message = (
                f"{who} calls {model}, whose price is not known, so budget.cost_usd could not hold it; "
                "name another model, or state budget.tokens instead"
            )
            raise OperationError(message)


def _called(plan: Plan, speakers: Mapping[str, Role]) -> Iterator[tuple[str, str]]:
    """Who may call which model: planned nodes, and roles that may be spawned or take work over."""
    roles = {role.name: role for role in plan.roles}
    reached = list(plan.budget.assignees or ())
    for operation in plan.operations:
        speaker = speakers.get(operation.role or "")
        if speaker is not None or (operation.role is None and operation.speaks):
            fallback = () if speaker is None else speaker.fallback
            yield from ((operation.name, model) for model in (*operation.models, *fallback))
        if operation.role is not None:
            reached.append(operation.role)
    for name in (one for one in reached if one in roles):
        above = roles[name].escalates_to
        if above is not None and above not in reached:
            reached.append(above)
        if name in speakers:
            models = (*roles[name].models, *speakers[name].fallback)
            yield from ((f"role {name}", model) for model in models)
