"""Checks of what a node is beside its role: one run per element of a list, or a question to a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from orchestrator.core.encoding import encoded
from orchestrator.core.kinds import ELEMENT, INDEX
from orchestrator.core.spec import Inquiry
from orchestrator.flows.document import NodeSpec
from orchestrator.flows.durations import seconds
from orchestrator.flows.inquiries import inquiry_fault
from orchestrator.flows.instances import name_of_element_fault
from orchestrator.flows.load import Place, Source
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem
from orchestrator.flows.references import References, Surroundings

__all__ = ["around", "kinds"]

#: Keys that mean something for a list only, or for a question only: the key in the document, by field.
_OF_LIST: Final = {"element": "as", "max": "max"}
_OF_QUESTION: Final = ("choices", "expires", "default", "show")
#: What a person has not: key in the document by field.
_OF_ROLES: Final = {
    "instruction": "instruction",
    "parameters": "with",
    "emits": "emits",
    "retry": "retry",
    "timeout": "timeout",
    "deadline": "deadline",
    "uses": "uses",
    "branch": "branch",
    "inherit": "inherit",
    "fresh": "fresh",
    **{key: key for key in ("tools", "model", "effort", "asks", "inputs", "artifacts", "workdir", "shared")},
}
_HINTS: Final = {
    "instruction": "; ask is the question",
    "timeout": "; use expires",
    "deadline": "; use expires",
}


def kinds(source: Source, outline: Outline, references: References, name: str) -> Iterator[Problem]:
    """Problems of ``for_each`` and ``ask`` of one node."""
    node, place = outline.node(name), ("nodes", name)
    if node.for_each is not None:
        yield from _each(source, outline, references, name)
    else:
        for field, key in _OF_LIST.items():
            if field in node.model_fields_set:
                message = f"{name} has {key} and no for_each; {key} says something of the elements of a list"
                yield source.problem((*place, key), message, key=True)
        if node.on_failure == "skip":
            message = f"{name} has on_failure: skip and no for_each; write continue or stop"
            yield source.problem((*place, "on_failure"), message)
    if node.ask is not None:
        yield from _question(source, references, name, node, around(outline, references, name))
    else:
        for key in _OF_QUESTION:
            if key in node.model_fields_set:
                message = f"{name} has {key} and no ask; {key} says something of a question"
                yield source.problem((*place, key), message, key=True)


def around(outline: Outline, references: References, name: str) -> Surroundings:
    """What the texts and the condition of a node may name."""
    node = outline.node(name)
    if outline.stepped:
        return Surroundings(None, ("args", "context", "emissions"), bare=False)
    if node.for_each is None:
        return Surroundings(name)
    held = references.element(node.for_each, Surroundings(name))
    return Surroundings(name, elements={node.element or ELEMENT: held, INDEX: {"type": "integer"}})


def _each(source: Source, outline: Outline, references: References, name: str) -> Iterator[Problem]:
    node, place = outline.node(name), ("nodes", name)
    assert node.for_each is not None
    if node.max is None:
        message = f"{name} has for_each and no max; say how many elements there may be, such as max: 20"
        yield source.problem((*place, "for_each"), message, key=True)
    if node.gate is not None:
        message = f"{name} is a gate and has for_each; a gate gives one verdict: take one of the two away"
        yield source.problem((*place, "gate"), message, key=True)
    if node.branch is not None:
        message = f"{name} has for_each and a branch; its instances run at once and cannot share one"
        yield source.problem((*place, "branch"), message, key=True)
    if node.workdir is not None and not node.shared:
        message = f"{name} has for_each and a workdir; its instances work there at once: write shared: true"
        yield source.problem((*place, "workdir"), message, key=True)
    if node.element is not None:
        yield from _element_name(source, outline, (*place, "as"), name, node.element)
    yield from references.list((*place, "for_each"), node.for_each, Surroundings(name))


def _element_name(
    source: Source, outline: Outline, place: Place, name: str, element: str
) -> Iterator[Problem]:
    fault = name_of_element_fault(element)
    if fault is not None:
        yield source.problem(place, f"as of {name}: {fault}")
    elif element in outline.order:
        message = (
            f"as of {name}: {element!r} is a node, which could not be named any more; write another name"
        )
        yield source.problem(place, message)


def _question(
    source: Source, references: References, name: str, node: NodeSpec, where: Surroundings
) -> Iterator[Problem]:
    place: Place = ("nodes", name)
    for field, key in _OF_ROLES.items():
        if field in node.model_fields_set:
            message = f"{name} asks a person and has {key}, which only roles have{_HINTS.get(field, '')}"
            yield source.problem((*place, key), message, key=True)
    yield from references.texts((*place, "ask"), node.ask, where)
    yield from references.texts((*place, "show"), node.show, where)
    expires = None if node.expires is None else seconds(node.expires)
    inquiry = Inquiry(choices=tuple(node.choices), expires=expires, default=encoded(node.default))
    fault = inquiry_fault(inquiry, gate=node.gate is not None)
    if fault is not None:
        yield source.problem((*place, "ask"), f"{name}: {fault}", key=True)
