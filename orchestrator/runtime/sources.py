"""What can be run: a graph, a builder, a flow, or a path to a flow document. All become one thing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from orchestrator.agents.toolbox import Toolbox
from orchestrator.core.spec import Budget
from orchestrator.errors import OperationError
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.flow import BoundFlow, Flow, load_flow
from orchestrator.flows.graph import Graph
from roles import Catalogue

__all__ = ["Runnable", "bound_of", "source_of"]

Runnable = Graph | OperationGraphBuilder | Flow | str | PathLike[str]


def bound_of(
    what: object,
    args: Mapping[str, Any],
    roles: Catalogue,
    operations: Collection[str] = (),
    tools: Toolbox | None = None,
) -> BoundFlow:
    """``what`` with its arguments; the session's roles, operations and tools beside those of a document.

    Raises:
        OperationError: it is nothing that can run. FlowError: the document cannot be read or bound.
    """
    if isinstance(what, str | PathLike):
        what = load_flow(Path(what))
    if isinstance(what, Flow):
        bound = what.bind(args, operations, () if tools is None else tools.names)
        merged = Catalogue()
        for source in (bound.roles, roles):
            for role in source:
                if role.name not in merged:
                    merged.add(role, origin=source.origin(role.name))
        return BoundFlow(
            bound.graph, bound.args, bound.context, bound.reducers, bound.budget, bound.limits,
            bound.outputs, merged, bound.keys,
        )  # fmt: skip
    if isinstance(what, OperationGraphBuilder):
        what = what.get_graph()
    if not isinstance(what, Graph):
        message = f"cannot run a {type(what).__name__}; give a graph, a builder, a Flow or a path"
        raise OperationError(message)
    return BoundFlow(what, args, {}, {}, Budget(), {}, {}, roles)


def source_of(what: object) -> str:
    """The flow document that ``what`` is or was loaded from, as a whole path; empty for a graph in code."""
    if isinstance(what, Flow):
        return str(what.path.resolve())
    return str(Path(what).resolve()) if isinstance(what, str | PathLike) else ""
