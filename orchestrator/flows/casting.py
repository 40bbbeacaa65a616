"""Documents whose nodes a planner makes: what they have to say, and what the planner may plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emissions import SpawnRequest, TaskAssignment
from orchestrator.core.spec import Casting
from orchestrator.flows.document import Document
from orchestrator.flows.load import Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.planting import is_cast
from orchestrator.flows.problems import Problem

__all__ = ["casting_of", "check_casting", "planner_emits"]

_KEYS: Final = ("planner", "max_nodes", "reactive")


def casting_of(outline: Outline) -> Casting | None:
    """What the planner of a document may plan; None for a document with nodes of its own."""
    document = outline.document
    if document.prompt is None:
        return None
    able = tuple(role.name for role in outline.cast.catalogue if role.fn is not None)
    return Casting(max_nodes=document.max_nodes or 0, assignees=able, reactive=tuple(document.reactive))


def planner_emits(outline: Outline, name: str) -> list[str]:
    """What a planner may say: what its role declares, and no spawn requests unless it is reactive."""
    role = outline.role(name)
    kinds = [] if role is None else [kind.__name__ for kind in role.emits]
    if role is not None and role.name in outline.document.reactive:
        return kinds
    return [kind for kind in kinds if kind != SpawnRequest.__name__]


def check_casting(source: Source, outline: Outline) -> Iterator[Problem]:
    """Problems of ``prompt``, ``planner``, ``max_nodes`` and ``reactive``."""
    document = outline.document
    if not is_cast(source):
        if document.prompt is not None:
            message = "a document has nodes, or a prompt for a planner; remove one"
            yield source.problem(("prompt",), message, key=True)
        for key in _KEYS if document.prompt is None else ():
            if key in source.data:
                message = f"{key} is for a planner, which a prompt calls; write one, or remove {key}"
                yield source.problem((key,), message, key=True)
        return
    if document.max_nodes is None:
        message = "say how many nodes a plan may have: max_nodes: 12"
        yield source.problem(("prompt",), message, key=True)
    yield from _roles(source, outline, document)


def _roles(source: Source, outline: Outline, document: Document) -> Iterator[Problem]:
    for name in document.nodes:
        role = outline.role(name)
        if role is not None and TaskAssignment not in role.emits:
            message = f"role {role.name} cannot plan: it does not declare TaskAssignment; add it to emits="
            yield source.problem(("nodes", name, "role"), message)
    catalogue = outline.cast.catalogue
    for number, name in enumerate(document.reactive if outline.cast.complete else ()):
        if name not in catalogue:
            message = f"there is no role {name!r}{suggestion(name, catalogue.names)}"
            yield source.problem(("reactive", number), message)
    if document.reactive and document.budget.spawns is None:
        message = f"{document.reactive[0]} may spawn nodes; state how many: budget: {{spawns: 10}}"
        yield source.problem(("reactive",), message, key=True)
