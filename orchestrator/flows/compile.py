"""From a document to a graph: one builder call per node, in file order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from orchestrator.core.spec import DOCUMENT_ACCEPTS, Artifact, Gate, Operation, Retry, Undecided
from orchestrator.core.templates import needs_rendering
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.document import EdgeSpec, GateSpec, NodeSpec, RetrySpec
from orchestrator.flows.durations import seconds
from orchestrator.flows.graph import Graph
from orchestrator.flows.operations import create_operation
from orchestrator.flows.outline import Outline

__all__ = ["compile_flow", "sentences"]


class _DocumentBuilder(OperationGraphBuilder):
    """A builder whose edges live when their source completed, as a document's ``after`` says."""

    accepts: tuple[str, ...] = DOCUMENT_ACCEPTS


def compile_flow(outline: Outline) -> Graph:
    """The graph of a document that ``check`` passed; no ``after`` compiles to ``depends_on=[]``."""
    builder = _DocumentBuilder(outline.document.name)
    for name in outline.document.nodes:
        entries = list(outline.after(name))
        plain = [source for _, source, accept in entries if accept == DOCUMENT_ACCEPTS]
        builder.add_operation(_operation(outline, name), depends_on=plain, role=outline.role(name))
        for _, source, accept in entries:
            if accept != DOCUMENT_ACCEPTS:
                builder.add_edge(source, name, accept=accept)
    for edge, when in _conditions(outline.document.edges):
        label = "else" if edge.otherwise else None
        builder.add_edge(edge.source, edge.target, when=when, label=label)
    artifacts = tuple(
        Artifact(name=one.name, path=one.path or "", required=one.required, kind=one.kind)
        for one in outline.document.artifacts
    )
    return dataclasses.replace(builder.get_graph(), artifacts=artifacts)


def _operation(outline: Outline, name: str) -> Operation:
    node, document = outline.node(name), outline.document
    rendered = needs_rendering(node.instruction) or needs_rendering(node.parameters)
    return create_operation(
        node.operation or "operate",
        node.parameters,
        node_id=name,
        role=outline.role(name),
        instruction=node.instruction,
        gate=_gate(node.gate),
        when=node.when,
        needs="any" if name in outline.edges_to else "all",
        returns=outline.returns(name),
        retry=_retry(node.retry if node.retry is not None else document.defaults.retry),
        timeout=node.timeout if node.timeout is not None else document.defaults.timeout,
        deadline=node.deadline,
        fresh=node.fresh,
        uses=node.uses,
        emits=node.emits,
        branch=node.branch,
        inherit=node.inherit,
        writes=node.writes,
        renders=rendered,
        stop_on_failure=(node.on_failure or document.on_failure) == "stop",
        description=node.description,
        artifacts=[
            Artifact(name=one.name, path=one.path, required=one.required, kind=one.kind)
            for one in node.artifacts
        ],
        workdir=node.workdir,
    )


def _gate(gate: GateSpec | bool | None) -> Gate | None:
    if isinstance(gate, GateSpec):
        return Gate(refuse_on=tuple(gate.refuse_on), on_undecided=Undecided(gate.on_undecided))
    return Gate() if gate else None


def _retry(retry: RetrySpec | int | None) -> Retry | None:
    if isinstance(retry, RetrySpec):
        backoff = 0.0 if retry.backoff is None else seconds(retry.backoff)
        return Retry(attempts=retry.attempts, backoff=backoff, on=tuple(retry.on))
    return None if retry is None else Retry(attempts=retry)


def _conditions(edges: list[EdgeSpec]) -> Iterator[tuple[EdgeSpec, str | None]]:
    """Edges with their conditions; ``else`` becomes the opposite of its source's other conditions."""
    for edge in edges:
        if not edge.otherwise:
            yield edge, edge.when
            continue
        others = [
            other.when or "True" for other in edges if other.source == edge.source and not other.otherwise
        ]
        yield edge, " and ".join(f"not ({when})" for when in others) or None


def sentences(outline: Outline) -> Mapping[str, str]:
    """One sentence per node that says when it runs."""
    return {name: f"{name} runs {_when(outline, name)}" for name in outline.document.nodes}


def _when(outline: Outline, name: str) -> str:
    node: NodeSpec = outline.node(name)
    parts: list[str] = []
    entries = list(outline.after(name))
    plain = [source for _, source, accept in entries if accept == DOCUMENT_ACCEPTS]
    if plain:
        parts.append(f"{' and '.join(plain)} completed")
    parts += [
        f"{source} {' or '.join(accept)}" for _, source, accept in entries if accept != DOCUMENT_ACCEPTS
    ]
    ways = [_way(edge) for edge in outline.edges_to.get(name, ())]
    if ways:
        parts.append(ways[0] if len(ways) == 1 else f"one of these holds: {'; '.join(ways)}")
    if node.when is not None:
        parts.append(node.when.strip())
    return f"if {' and '.join(parts)}" if parts else "at the start"


def _way(edge: EdgeSpec) -> str:
    if edge.otherwise:
        return f"{edge.source} completed and took no other way"
    return f"{edge.source} completed" + (f" with {edge.when}" if edge.when else "")
