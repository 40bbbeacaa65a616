"""Checks of a node that performs a verb without a role."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from orchestrator.core.encoding import encoded
from orchestrator.core.spec import Gate, Operation
from orchestrator.core.verbs import ACT, VERBS, verb_fault
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import NO_MODEL, Problem, Severity
from orchestrator.flows.shapes import ShapeError

__all__ = ["check_verb"]


def check_verb(source: Source, outline: Outline, name: str, operations: Collection[str]) -> Iterator[Problem]:
    """Problems of the verb of one node that the session does not perform by a function of its own."""
    node, place = outline.node(name), ("nodes", name, "operation")
    verb = node.operation or ""
    if verb not in VERBS:
        message = (
            f"there is no operation {verb!r}{suggestion(verb, [*operations, *VERBS])} "
            "(a session registers others: session.register_operation)"
        )
        yield source.problem(place, message)
        return
    fault = _fault(outline, name)
    if fault is not None:
        yield source.problem(place, f"{name}: {fault}")
    if verb == ACT:
        yield from _act(source, outline, name)
    elif not (node.model or outline.default("model")):
        message = (
            f"{name}: {verb} has no role, and nothing names a model: write model:, or say it at the run: "
            "--model PROVIDER:NAME"
        )
        yield source.problem(place, message, Severity.WARNING, code=NO_MODEL)


def _fault(outline: Outline, name: str) -> str | None:
    node = outline.node(name)
    try:
        returns = None if outline.returns(name) is None else "{}"
    except ShapeError:
        returns = "{}"  # told where it stands
    gate = Gate() if node.gate else None
    parameters = encoded(node.parameters)
    return verb_fault(
        Operation(
            name=name,
            verb=node.operation or "",
            instruction=node.instruction,
            gate=gate,
            parameters=parameters,
            returns=returns,
        )
    )


def _act(source: Source, outline: Outline, name: str) -> Iterator[Problem]:
    """What a call of a tool has no use for: there is no model that could read it."""
    for field, key in (("instruction", "instruction"), ("model", "model"), ("branch", "branch")):
        if field in outline.node(name).model_fields_set:
            place: Place = ("nodes", name, key)
            message = f"{name} calls a tool and has {key}, which only models read; take it out"
            yield source.problem(place, message, Severity.WARNING, key=True)
