"""From what a person wrote to what the core runs: every name resolved before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from orchestrator.agents import DEFAULT_BRANCH, Branch
from orchestrator.agents.toolbox import Toolbox
from orchestrator.core.commands import Known
from orchestrator.core.context import REDUCERS, Reducer
from orchestrator.core.facts import Failure
from orchestrator.core.gates import APPROVE, GATE_VERDICT, gate_verdict
from orchestrator.core.spec import UNLIMITED, Budget, Operation, Plan
from orchestrator.core.status import TERMINAL
from orchestrator.core.verbs import SPAWN_VERBS
from orchestrator.errors import OperationError, UnknownNodeError
from orchestrator.flows.conditions import EdgeCondition
from orchestrator.flows.flow import Flow
from orchestrator.flows.graph import Graph
from orchestrator.runtime.casting import (
    House,
    cast_as,
    check_prices,
    check_tools,
    nearest,
    role_for,
    spec_of,
    without_role,
)
from orchestrator.runtime.steering import first_context
from orchestrator.runtime.values import encode, settle
from roles import Catalogue, Role

__all__ = ["Body", "Prepared", "prepare", "resolved_concurrency"]

_CONCURRENCY_VARIABLE = "CALLBOARD_MAX_CONCURRENCY"


@dataclass(frozen=True, slots=True)
class Body:
    """What runs for a node.

    Attributes:
        fn: takes the turn. is_async: it is an ``async def``; else it runs in a thread of ours.
        role: whose function it is, or None for an operation of the session.
    """

    fn: Callable[[Any], Any]
    is_async: bool = True
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to start.

    Attributes:
        plan: what the core gets. bodies: role name -> body. verbs: verb -> body.
        predicates: condition objects by index. returns: node -> type. reducers: functions by name.
        known: outcomes that are given. values: the JSON that ``known`` refers to.
        steers: notes that came in the first context, as (text, time).
        flows: included documents, by the path that their nodes name.
        speakers: roles without a function, which a program or a model performs.
    """

    plan: Plan
    bodies: Mapping[str, Body] = field(default_factory=dict)
    verbs: Mapping[str, Body] = field(default_factory=dict)
    predicates: tuple[EdgeCondition, ...] = ()
    returns: Mapping[str, Any] = field(default_factory=dict)
    reducers: Mapping[str, Reducer] = field(default_factory=dict)
    known: tuple[Known, ...] = ()
    values: tuple[bytes, ...] = ()
    steers: tuple[tuple[str, str], ...] = ()
    flows: Mapping[str, Flow] = field(default_factory=dict)
    speakers: Mapping[str, Role] = field(default_factory=dict)

    @property
    def free_verbs(self) -> frozenset[str]:
        """Verbs that no role is called like: what an injection may name."""
        return frozenset(self.verbs.keys() | set(self.plan.verbs)) - self.bodies.keys() - self.speakers.keys()

    @property
    def roles(self) -> tuple[Role, ...]:
        """Every role of the run."""
        own = (body.role for body in self.bodies.values())
        return (*(role for role in own if role is not None), *self.speakers.values())


def resolved_concurrency(limit: int | None) -> int:
    """Slots of a run: None means CALLBOARD_MAX_CONCURRENCY, 10,000 if that is unset.

    Raises:
        OperationError: neither is a number of at least 1.
    """
    if limit is None:
        text = os.environ.get(_CONCURRENCY_VARIABLE, str(UNLIMITED))
        if not text.isdigit() or int(text) < 1:
            message = f"{_CONCURRENCY_VARIABLE} is {text!r}; give a number of at least 1"
            raise OperationError(message)
        return int(text)
    if type(limit) is not int or not 1 <= limit < _HUGE:
        message = f"concurrency is {limit!r}; at least 1 node must be able to run: give a whole number"
        raise OperationError(message)
    return limit


def prepare(
    graph: Graph,
    *,
    roles: Catalogue,
    operations: Mapping[str, Callable[[Any], Any]],
    branches: Mapping[str, Branch],
    budget: Budget,
    limits: Mapping[str, int],
    args: Mapping[str, Any],
    context: Mapping[str, Any],
    reducers: Mapping[str, str | Reducer],
    known: Mapping[str, Any],
    model: str | None = None,
    tools: Toolbox,
) -> Prepared:
    """Resolve every name of a graph; nothing has run if this raises.

    Raises:
        GraphError: a cycle, an unknown node, a gate that cannot judge.
        OperationError: a verb, role, branch, reducer or budget that does not exist or does not fit.
    """
    graph.check()
    all_roles = _all_roles(graph, roles)
    verbs = {name: Body(fn) for name, fn in operations.items()}
    bodies = {role.name: Body(role.fn, role.is_async, role) for role in all_roles if role.fn is not None}
    names = {role.name: role for role in all_roles}
    speakers = {role.name: role for role in all_roles if role.fn is None}
    house = House(names, verbs, model, tools.check)
    resolved = (_operation(one, house, branches, graph) for one in graph.operations.values())
    planned = _with_default_branch(tuple(resolved), graph)
    named, custom = _reducers(reducers)
    first, steers = first_context(context)
    budget = msgspec.structs.replace(budget, concurrency=resolved_concurrency(budget.concurrency))
    plan = Plan(
        name=graph.name,
        operations=planned,
        edges=tuple(graph.edges),
        roles=tuple(spec_of(role, model) for role in all_roles),
        budget=_checked(budget, names),
        limits=dict(limits),
        verbs=_verbs(house, planned),
        models=_default_models(house, planned),
        reducers=named,
        args=msgspec.Raw(encode(settle(dict(args), "args")[2], "args")),
        context=msgspec.Raw(encode(settle(first, "context")[2], "context")),
        artifacts=graph.artifacts,
    )
    _check_limits(plan, names)
    check_tools(planned, names, tools)
    check_prices(plan, {name: role for name, role in speakers.items() if role.program is None})
    outcomes, values = _known(known, graph)
    return Prepared(
        plan, bodies, verbs, graph.predicates, dict(graph.returns), custom, outcomes, values, steers,
        graph.flows, speakers,
    )  # fmt: skip


def _all_roles(graph: Graph, roles: Catalogue) -> list[Role]:
    """The session's roles and those that the graph brought; one name means one role."""
    merged = Catalogue()
    for role in roles:
        merged.add(role, origin=roles.origin(role.name))
    merged.update(graph.roles.values(), origin=f"graph {graph.name}")
    return list(merged)


def _operation(operation: Operation, house: House, branches: Mapping[str, Branch], graph: Graph) -> Operation:
    if (
        operation.branch is not None
        and operation.branch not in branches
        and (operation.branch not in graph.branches)
    ):
        message = f"{operation.name} names branch {operation.branch!r}, which the session does not have"
        raise OperationError(message)
    if operation.flow is not None:
        return operation
    if operation.role is not None:
        return cast_as(operation, role_for(operation, house), house.model)
    return operation if operation.inquiry is not None else without_role(operation, house)


def _default_models(house: House, planned: tuple[Operation, ...]) -> tuple[str, ...]:
    """The model of the session, else that of the first node without a role."""
    if house.model is not None:
        return (house.model,)
    return next((one.models for one in planned if one.role is None and one.models), ())


def _verbs(house: House, planned: tuple[Operation, ...]) -> tuple[str, ...]:
    """What a grown node without a role may perform: verbs of the session, and those of its default model."""
    more = SPAWN_VERBS if _default_models(house, planned) else ()
    return (*house.verbs, *(verb for verb in more if verb not in house.verbs))


def _with_default_branch(planned: tuple[Operation, ...], graph: Graph) -> tuple[Operation, ...]:
    """Roots without a role that speak continue the session's default branch (kernel.md 7)."""
    below = {edge.target for edge in graph.edges}
    return tuple(
        msgspec.structs.replace(operation, branch=DEFAULT_BRANCH)
        if operation.speaks
        and operation.role is None
        and operation.branch is None
        and operation.inherit is None
        and operation.name not in below
        else operation
        for operation in planned
    )


def _reducers(given: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Reducer]]:
    named: dict[str, str] = {}
    custom: dict[str, Reducer] = {}
    for key, reducer in given.items():
        if isinstance(reducer, str):
            if reducer not in REDUCERS:
                message = f"context key {key!r}: no reducer {reducer!r}" + nearest(reducer, REDUCERS)
                raise OperationError(message)
            named[key] = reducer
        elif callable(reducer):
            name = f"{getattr(reducer, '__module__', '')}:{getattr(reducer, '__qualname__', repr(reducer))}"
            named[key], custom[name] = name, reducer
        else:
            message = f"context key {key!r}: a reducer is a name or a function, not {type(reducer).__name__}"
            raise OperationError(message)
    return named, custom


#: Budgets that may be None, and those that need not be whole numbers.
_UNBOUNDED = ("tokens", "cost_usd", "wall_clock")
_MEASURED = ("cost_usd", "wall_clock")
#: What a record's numbers can hold.
_HUGE = 2**63


def _checked(budget: Budget, roles: Mapping[str, Role]) -> Budget:
    for name in ("tokens", "cost_usd", "wall_clock", "spawns", "depth", "escalations"):
        limit = getattr(budget, name)
        kinds = (int, float) if name in _MEASURED else (int,)
        if limit is None and name in _UNBOUNDED:
            continue
        if type(limit) not in kinds or not 0 <= limit < _HUGE:
            bound = "; None is no limit" if name in _UNBOUNDED else ""
            message = f"budget.{name} is {limit!r}; give a number from 0, which means none{bound}"
            raise OperationError(message)
    assignees: object = budget.assignees
    if isinstance(assignees, str):
        message = f"budget.assignees is the text {assignees!r}; give a list of roles"
        raise OperationError(message)
    for assignee in budget.assignees or ():
        if assignee not in roles:
            message = f"budget.assignees names {assignee!r}, which is no role" + nearest(assignee, roles)
            raise OperationError(message)
    return budget


_LIMIT_KINDS = ("role", "model", "name", "requests", "tokens")


def _check_limits(plan: Plan, roles: Mapping[str, Role]) -> None:
    """Every limit names a resource that exists and lets at least one node through."""
    for resource, count in plan.limits.items():
        kind, _, name = resource.partition(":")
        if kind not in _LIMIT_KINDS or not name:
            message = (
                f"limit {resource!r} is not role:NAME, model:NAME, name:NAME, requests:MODEL or tokens:MODEL"
            )
            raise OperationError(message)
        if type(count) is not int or count < 1:
            message = f"limit {resource!r} is {count!r}; give a number of at least 1"
            raise OperationError(message)
        if kind == "role" and name not in roles:
            message = f"limit {resource!r}: no role is called {name!r}" + nearest(name, roles)
            raise OperationError(message)
    named = [resource.partition(":")[2] for resource in plan.limits if resource.startswith("name:")]
    for operation in plan.operations:
        for name in operation.uses:
            if name not in named:
                message = f"{operation.name} uses {name!r}, which no limit is called" + nearest(name, named)
                raise OperationError(message)


def _known(known: Mapping[str, Any], graph: Graph) -> tuple[tuple[Known, ...], tuple[bytes, ...]]:
    outcomes: list[Known] = []
    values: list[bytes] = []
    for name, given in known.items():
        if name not in graph.operations:
            message = f"known names {name!r}, which is no node of {graph.name}"
            raise UnknownNodeError(message + nearest(name, graph.operations))
        status = getattr(given, "status", None)
        if status is None or not hasattr(given, "vetoed_by"):
            raw, _, plain = settle(given, name)
            values.append(raw)
            verdict = _known_verdict(graph.operations[name], plain)
            outcomes.append(Known(name, "completed", len(values) - 1, gate_verdict=verdict))
            continue
        outcomes.append(_known_result(name, given, values))
    return tuple(outcomes), tuple(values)


def _known_verdict(operation: Operation, plain: object) -> str | None:
    """What the value of a known gate decided: its ``gate_verdict``, else its Verdict's fields."""
    if operation.gate is None or not isinstance(plain, dict):
        return None
    given, verdict = plain.get(GATE_VERDICT), plain.get("verdict")
    if given is None and isinstance(verdict, str):
        try:
            given = gate_verdict(operation.gate, verdict) or APPROVE
        except ValueError:
            return None
    return given if isinstance(given, str) else None


def _known_result(name: str, given: Any, values: list[bytes]) -> Known:
    if given.status not in TERMINAL:
        message = f"known[{name!r}] is {given.status}; only a settled node can be known"
        raise OperationError(message)
    position = None
    if given.raw is not None:
        values.append(given.raw)
        position = len(values) - 1
    error = None if given.error is None else Failure(given.error.type, given.error.message)
    verdict = "approve" if given.judgement == "approved" else None
    if given.judgement == "rejected":
        verdict = "reject"
    return Known(name, given.status, position, error, given.reason, verdict, tuple(given.vetoed_by))
