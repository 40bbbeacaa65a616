"""From a run's records back to something that can be driven: every function found again, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.core.spec import Definition
from orchestrator.core.state import RunState
from orchestrator.core.verbs import ACT
from orchestrator.errors import FlowError, OperationError
from orchestrator.flows.conditions import EdgeCondition, Negated
from orchestrator.flows.flow import Flow, load_flow
from orchestrator.runtime.definitions import CONDITION, NEGATED, flow_reference, load, reference
from orchestrator.runtime.planning import Body, Prepared
from roles import Catalogue, Role

__all__ = ["rebuild"]


def rebuild(
    state: RunState,
    roles: Catalogue,
    operations: Mapping[str, Callable[[Any], Any]],
    *,
    new_definition: bool = False,
) -> Prepared:
    """What drives a run whose state was folded from its records.

    A role is looked for in the session, then in the flow document that the run began from, then by the
    reference that the run recorded.

    Args:
        new_definition: code and documents that have changed since the run began are used as they are now.

    Raises:
        OperationError: a function is gone, or has changed and ``new_definition`` is False.
    """
    definition = state.definition
    flow = _document(definition, new_definition=new_definition)
    documents = Catalogue() if flow is None else flow.roles
    bodies: dict[str, Body] = {}
    speakers: dict[str, Role] = {}
    for spec in state.plan.roles:
        role = _role(spec.name, (roles, documents), definition, new_definition=new_definition)
        if role is not None and role.fn is not None:
            bodies[spec.name] = Body(role.fn, role.is_async, role)
        elif role is not None:
            speakers[spec.name] = role
    verbs = {name: Body(fn) for name, fn in operations.items()}
    for key, text in definition.functions.items():
        kind, _, name = key.partition(":")
        if kind == "verb" and name not in verbs:
            verbs[name] = Body(load(text, key, changed_ok=new_definition))
    _check_known(state, bodies.keys() | speakers.keys(), verbs)

    def found(kind: str) -> dict[str, Any]:
        return {
            key.partition(":")[2]: load(text, key, changed_ok=new_definition)
            for key, text in definition.functions.items()
            if key.startswith(f"{kind}:")
        }

    conditions = _conditions(definition, found(CONDITION), found(NEGATED))
    returns, reducers = found("returns"), found("reducer")
    flows = _included(flow, definition, new_definition=new_definition)
    return Prepared(state.plan, bodies, verbs, conditions, returns, reducers, flows=flows, speakers=speakers)


def _document(definition: Definition, *, new_definition: bool) -> Flow | None:
    if not definition.source:
        return None
    path = Path(definition.source)
    try:
        flow = load_flow(path)
        _ = flow.roles
    except FlowError as error:
        if new_definition:
            raise
        message = f"the run began from {path}, which cannot be read now: {error}"
        raise OperationError(message) from error
    return flow


def _included(flow: Flow | None, definition: Definition, *, new_definition: bool) -> Mapping[str, Flow]:
    """The documents that nodes include, as they were when the run began."""
    found = {} if flow is None else dict(flow.includes)
    for key, text in definition.functions.items():
        kind, _, name = key.partition(":")
        if kind != "flow" or new_definition:
            continue
        if name not in found or flow_reference(found[name]).rpartition("::")[2] != text.rpartition("::")[2]:
            message = (
                f"{name}, which the run includes, has changed since the run began; resume with "
                f"--new-definition (new_definition=True) to use it as it is now"
            )
            raise OperationError(message)
    return found


def _role(
    name: str, catalogues: tuple[Catalogue, ...], definition: Definition, *, new_definition: bool
) -> Role | None:
    text = definition.functions.get(f"role:{name}")
    for catalogue in catalogues:
        if name in catalogue:
            role = catalogue.get(name)
            if text and role.fn is not None and not new_definition:
                _same(name, text, role)
            return role
    if text is None:
        return None
    found = load(text, f"role {name}", changed_ok=new_definition)
    return found if isinstance(found, Role) else Role(name, fn=found)


def _same(name: str, text: str, role: Role) -> None:
    """Refuse a role whose function is another than the run began with."""
    if text.rpartition("::")[2] != reference(role.fn, by_name=name).rpartition("::")[2]:
        message = (
            f"role {name} has changed since the run began; resume with --new-definition "
            f"(new_definition=True) to use the new code"
        )
        raise OperationError(message)


def _conditions(
    definition: Definition, kinds: dict[str, Any], negated: dict[str, Any]
) -> tuple[EdgeCondition, ...]:
    made: list[EdgeCondition] = []
    for index in sorted(kinds | negated, key=int):
        fields = msgspec.json.decode(definition.fields[index])
        kind = kinds.get(index) or negated[index]
        try:
            condition = kind(**fields)
        except TypeError:
            condition = kind.__new__(kind)
            vars(condition).update(fields)
        made.append(Negated(condition) if index in negated else condition)
    return tuple(made)


def _check_known(state: RunState, bodies: Collection[str], verbs: Mapping[str, Body]) -> None:
    """Every node that may still run has something that runs for it."""
    for node in state.nodes.values():
        role, verb = node.op.role, node.op.verb
        if node.op.inquiry is not None or node.op.flow is not None:
            continue
        if role is not None and role not in bodies:
            message = f"{node.op.name} needs role {role!r}; give it to the session: Session(roles=[...])"
            raise OperationError(message)
        if role is None and verb not in verbs and not (node.op.models or verb == ACT):
            message = (
                f"{node.op.name} performs {verb!r}; register it: session.register_operation({verb!r}, fn)"
            )
            raise OperationError(message)
