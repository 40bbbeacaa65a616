"""Documents with ``schedule: supersteps``: their edges, what they compile to, and when a node runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.core.spec import DOCUMENT_ACCEPTS, Edge
from orchestrator.flows.compile import operation_of
from orchestrator.flows.document import EdgeSpec
from orchestrator.flows.graph import Graph
from orchestrator.flows.outline import Outline

__all__ = ["BEGIN", "ELSE", "FINISH", "compile_steps", "step_sentences"]

#: What an edge of a document names where a run begins, and where nothing more follows.
BEGIN: Final = "START"
FINISH: Final = "END"
#: Label of an edge that is taken if no other one of its source is.
ELSE: Final = "else"


def compile_steps(outline: Outline) -> Graph:
    """The graph of a stepped document that ``check`` passed; edges may lead from START, to END and back."""
    document = outline.document
    roles = {role.name: role for name in document.nodes if (role := outline.role(name)) is not None}
    return Graph(
        name=document.name,
        operations={name: operation_of(outline, name) for name in document.nodes},
        edges=tuple(_edge(edge) for edge in document.edges),
        roles=roles,
        stepped=True,
    )


def _edge(edge: EdgeSpec) -> Edge:
    label = ELSE if edge.otherwise else None
    return Edge(source=edge.source, target=edge.target, when=edge.when, accept=DOCUMENT_ACCEPTS, label=label)


def step_sentences(outline: Outline) -> Mapping[str, str]:
    """One sentence per node that says when it runs, and where its work goes."""
    return {name: "".join(_sentence(outline, name)) for name in outline.document.nodes}


def _sentence(outline: Outline, name: str) -> Iterator[str]:
    node = outline.node(name)
    ways = [_way(edge) for edge in outline.edges_to.get(name, ())]
    yield f"{name} {'runs' if node.ask is None else 'asks a person'} "
    yield ", and ".join(ways) if ways else "when another node asks for it"
    if node.writes is not None:
        yield f"; it writes {node.writes}"
    if not any(edge.source == name for edge in outline.document.edges):
        yield "; nothing follows it"


def _way(edge: EdgeSpec) -> str:
    where = "at the start" if edge.source == BEGIN else f"after {edge.source}"
    if edge.otherwise:
        return f"{where} if it leads nowhere else"
    return where + (f" if {edge.when.strip()}" if edge.when else "")
