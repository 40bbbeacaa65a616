"""Checks of documents with ``schedule: supersteps``, and of what only such documents may say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emissions import SpawnRequest, TaskAssignment
from orchestrator.flows.document import GateSpec
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem
from orchestrator.flows.references import References, Surroundings
from orchestrator.flows.shapes import ShapeError
from orchestrator.flows.steps import BEGIN, FINISH

__all__ = ["check_only_steps", "check_steps"]

#: What a stepped flow has no use for: key in the document by field, and what to write instead.
_NODE_KEYS: Final = {
    "after": ("after", "an edge leads to it: edges: [{from: NODE, to: NODE}]"),
    "when": ("when", "put the condition on the edge that leads to it"),
    "for_each": ("for_each", "let its role ask for a task per element, with SpawnRequest"),
    "flow": ("flow", "run the other document by itself"),
    "operation": ("operation", "give it a role"),
    "branch": ("branch", "each node has a conversation of its own"),
    "inherit": ("inherit", "each node has a conversation of its own"),
    "on_failure": ("on_failure", "a failed task stops the run, and callboard retry goes on"),
}
_TOP_KEYS: Final = {
    "prompt": "a planner plans a graph",
    "on_failure": "a failed task stops the run, and callboard retry goes on",
    "artifacts": "name them at their nodes",
}
_ONLY_STEPS: Final = ("steps", "visits", "tasks")


def check_only_steps(source: Source, outline: Outline) -> Iterator[Problem]:
    """Limits that mean nothing where a node runs when its predecessors have settled."""
    for key in _ONLY_STEPS:
        if getattr(outline.document.budget, key) is not None:
            message = f"budget.{key} is for schedule: supersteps; leave it out"
            yield source.problem(("budget", key), message, key=True)


def check_steps(source: Source, outline: Outline, references: References) -> Iterator[Problem]:
    """Problems of a stepped document: its edges, its state keys, what it cannot say."""
    document = outline.document
    if document.budget.steps is None:
        message = "a stepped flow says how many steps a run may take: budget: {steps: 50}"
        yield source.problem(("budget",) if "budget" in document.model_fields_set else (), message, key=True)
    for key, instead in _TOP_KEYS.items():
        if key in document.model_fields_set:
            yield source.problem((key,), f"a stepped flow has no {key}; {instead}", key=True)
    for name in document.nodes:
        yield from _node(source, outline, name)
    yield from _edges(source, outline, references)
    yield from _reach(source, outline)


def _node(source: Source, outline: Outline, name: str) -> Iterator[Problem]:
    node, place = outline.node(name), ("nodes", name)
    for field, (key, instead) in _NODE_KEYS.items():
        if field in node.model_fields_set:
            message = f"{name} has {key}, which a stepped flow has not; {instead}"
            yield source.problem((*place, key), message, key=True)
    if name in (BEGIN, FINISH):
        yield source.problem(
            place, f"{name} is where a run begins or ends; give the node another name", key=True
        )
    gate = node.gate
    for key in ("refusals", "back_to") if isinstance(gate, GateSpec) else ():
        if key in gate.model_fields_set:  # type: ignore[union-attr]
            message = f"{name} has {key}, which a stepped flow has not; an edge with a condition leads back"
            yield source.problem((*place, "gate", key), message, key=True)
    known = outline.document.context
    if node.writes is not None and node.writes not in known:
        message = (
            f"{name} writes {node.writes!r}, which context: does not hold{suggestion(node.writes, known)}"
        )
        yield source.problem((*place, "writes"), message)
    if node.writes is None and _speaks(outline, name):
        message = (
            f"the value of {name} has nowhere to go; write writes: KEY, or returns: with keys of context:"
        )
        yield source.problem(place, message, key=True)


def _speaks(outline: Outline, name: str) -> bool:
    """True if a node gives a text that no state key would take."""
    node, role = outline.node(name), outline.role(name)
    if node.gate is not None:
        return False
    if node.ask is not None:
        return True
    try:
        shaped = outline.returns(name) is not None
    except ShapeError:
        return False
    return role is not None and role.fn is None and not shaped


def _edges(source: Source, outline: Outline, references: References) -> Iterator[Problem]:
    order, seen, otherwise = outline.order, set(), set()
    for number, edge in enumerate(outline.document.edges):
        place: Place = ("edges", number)
        if edge.source not in order and edge.source != BEGIN:
            message = f"there is no node {edge.source!r}{suggestion(edge.source, (*order, BEGIN))}"
            if edge.source == FINISH:
                message = f"nothing leads on from {FINISH}"
            yield source.problem((*place, "from"), message)
            continue
        if edge.target not in order and edge.target != FINISH:
            message = f"there is no node {edge.target!r}{suggestion(edge.target, (*order, FINISH))}"
            if edge.target == BEGIN:
                message = f"nothing leads back to {BEGIN}; name the node that is to run"
            yield source.problem((*place, "to"), message)
            continue
        if (edge.source, edge.target) in seen:
            yield source.problem(place, f"{edge.source} -> {edge.target} is named twice; join the conditions")
        seen.add((edge.source, edge.target))
        if edge.otherwise:
            if edge.when is not None or edge.source in otherwise:
                message = f"one edge of {edge.source} has else: true, and no when; remove the other"
                yield source.problem(place, message)
            otherwise.add(edge.source)
        if edge.when is not None:
            judged = None if edge.source == BEGIN else edge.source
            around = Surroundings(None, ("args", "context"), bare=False, source=judged)
            yield from references.condition((*place, "when"), edge.when, around)


def _reach(source: Source, outline: Outline) -> Iterator[Problem]:
    """Nodes to which nothing leads; where a role may ask for tasks, any node may be asked for."""
    onward: dict[str, list[str]] = {}
    for edge in outline.document.edges:
        onward.setdefault(edge.source, []).append(edge.target)
    if BEGIN not in onward:
        message = f"no edge leads from {BEGIN}; write where a run begins: {{from: {BEGIN}, to: NODE}}"
        yield source.problem(("edges",) if outline.document.edges else (), message, key=True)
        return
    found, stack = set(), [BEGIN]
    while stack:
        one = stack.pop()
        if one not in found:
            found.add(one)
            stack += onward.get(one, ())
    asks = any(
        role is not None and {SpawnRequest, TaskAssignment} & set(role.emits)
        for role in map(outline.role, outline.order)
    )
    for name in outline.order:
        if name not in found and not asks:
            message = f"{name} never runs: no edge leads to it; add one, or remove the node"
            yield source.problem(("nodes", name), message, key=True)
