"""How often the gates of a document may refuse, when the arguments are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from orchestrator.core.encoding import changed
from orchestrator.core.expressions import ExpressionError
from orchestrator.core.spec import Operation
from orchestrator.core.templates import render_json
from orchestrator.flows.arguments import ArgumentError
from orchestrator.flows.document import MOST_REFUSALS, Document, GateSpec
from orchestrator.flows.graph import Graph

__all__ = ["with_refusals"]


def with_refusals(graph: Graph, document: Document, args: Mapping[str, object]) -> Graph:
    """The graph with every ``refusals: ${args.NAME}`` replaced; the graph itself if there is none.

    Raises:
        ArgumentError: an argument is no number that a gate can have.
    """
    stated = {
        name: node.gate.refusals
        for name, node in document.nodes.items()
        if isinstance(node.gate, GateSpec) and isinstance(node.gate.refusals, str)
    }
    if not stated:
        return graph
    found = {name: _number(name, text, args) for name, text in stated.items()}
    return dataclasses.replace(
        graph,
        operations={
            name: _refusing(operation, found[name]) if name in found else operation
            for name, operation in graph.operations.items()
        },
    )


def _number(name: str, text: str, args: Mapping[str, object]) -> int:
    try:
        number = render_json(text, {"args": args})
    except ExpressionError as error:
        raise ArgumentError(f"refusals of {name}: {error}") from error
    if type(number) is not int or not 0 <= number <= MOST_REFUSALS:
        raise ArgumentError(
            f"refusals of {name} is {number!r}; write a whole number from 0 to {MOST_REFUSALS:,}"
        )
    return number


def _refusing(operation: Operation, refusals: int) -> Operation:
    gate = operation.gate
    if gate is None:
        return operation
    return changed(operation, gate=changed(gate, refusals=refusals))
