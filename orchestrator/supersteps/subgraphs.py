"""A graph as a node of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from orchestrator.errors import GraphError
from orchestrator.runtime.session import Session
from orchestrator.supersteps.compiled import CompiledGraph

if TYPE_CHECKING:
    from orchestrator.supersteps.blueprint import Blueprint

__all__ = ["MemoryKind", "Subgraph", "subgraph"]

#: ``call``: the child begins empty with every call. ``thread``: it remembers, as long as its parent's thread.
MemoryKind = Literal["call", "thread"]


class Subgraph:
    """A node's graph; a StateGraph is compiled when it is first called, so that one may call itself."""

    def __init__(self, graph: Any, memory: str) -> None:
        self.memory = memory
        self._graph = graph
        self._blueprint: Blueprint | None = graph.blueprint if isinstance(graph, CompiledGraph) else None

    def blueprint(self, session: Session) -> Blueprint:
        """The compiled graph.

        Raises:
            GraphError: it cannot be compiled.
        """
        if self._blueprint is None:
            self._blueprint = self._graph.compile(session=session).blueprint
        return self._blueprint


def subgraph(name: str, graph: Any, memory: str | None) -> Subgraph:
    """The graph of a node.

    Raises:
        GraphError: no such memory.
    """
    if memory is not None and memory not in get_args(MemoryKind):
        raise GraphError(f"node {name!r}: memory is {memory!r}; write 'call' or 'thread'")
    return Subgraph(graph, memory or "call")
