"""From a document to a graph: one builder call per node, in file order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Literal

import pydantic

from orchestrator.core.encoding import changed
from orchestrator.core.kinds import ELEMENT
from orchestrator.core.spec import DOCUMENT_ACCEPTS, Artifact, ForEach, Gate, Operation, Retry, Undecided
from orchestrator.core.templates import needs_rendering
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.casting import casting_of, planner_emits
from orchestrator.flows.document import EdgeSpec, GateSpec, NodeSpec, RetrySpec
from orchestrator.flows.durations import seconds
from orchestrator.flows.graph import Graph
from orchestrator.flows.instances import names_element
from orchestrator.flows.operations import create_operation
from orchestrator.flows.outline import Outline

__all__ = ["compile_flow", "operation_of", "retry_of", "sentences"]


class _DocumentBuilder(OperationGraphBuilder):
    """A builder whose edges live when their source completed, as a document's ``after`` says."""

    accepts: tuple[str, ...] = DOCUMENT_ACCEPTS

    def add_way(self, edge: EdgeSpec, when: str | None) -> None:
        """Add one of the ways to a node; where ``after`` stands too, it needs one beside all of those."""
        self.add_edge(edge.source, edge.target, when=when, label="else" if edge.otherwise else None)
        if self._operations[edge.target].needs == "all":
            pair = (edge.source, edge.target)
            self._edges[pair] = changed(self._edges[pair], way=True)

    def share(self, branch: str) -> None:
        """Name a branch that nodes of the document share; the session makes it unless it has it."""
        self._branches.setdefault(branch, None)

    def validate_into(self, name: str, model: type) -> None:
        """Read a node's value into a model that the document names."""
        self._returns[name] = model


def compile_flow(outline: Outline) -> Graph:
    """The graph of a document that ``check`` passed; no ``after`` compiles to ``depends_on=[]``."""
    builder = _DocumentBuilder(outline.document.name)
    for name in outline.document.nodes:
        entries = list(outline.after(name))
        plain = [source for _, source, accept in entries if accept == DOCUMENT_ACCEPTS]
        builder.add_operation(operation_of(outline, name), depends_on=plain, role=outline.role(name))
        for _, source, accept in entries:
            if accept != DOCUMENT_ACCEPTS:
                builder.add_edge(source, name, accept=accept)
        node, model = outline.node(name), outline.model(name)
        if node.branch is not None:
            builder.share(node.branch)
        if isinstance(model, type) and issubclass(model, pydantic.BaseModel):
            builder.validate_into(name, model)
    for edge, when in _conditions(outline.document.edges):
        builder.add_way(edge, when)
    artifacts = tuple(
        Artifact(name=one.name, path=one.path or "", required=one.required, kind=one.kind)
        for one in outline.document.artifacts
    )
    return dataclasses.replace(builder.get_graph(), artifacts=artifacts, flows=outline.flows)


def operation_of(outline: Outline, name: str) -> Operation:
    """The operation of one node, as the document and its role say."""
    node, document = outline.node(name), outline.document
    rendered = needs_rendering(node.instruction) or needs_rendering(node.parameters)
    default_retry = None if node.ask is not None else document.defaults.retry
    default_timeout = None if node.ask is not None else document.defaults.timeout
    return create_operation(
        node.operation or ("flow" if node.flow is not None else "operate"),
        node.parameters,
        node_id=name,
        role=outline.role(name),
        instruction=node.instruction if node.ask is None else node.ask,
        gate=_gate(node.gate),
        when=node.when,
        needs="any" if name in outline.edges_to and not node.after else "all",
        returns=outline.returns(name),
        retry=retry_of(node.retry if node.retry is not None else default_retry),
        timeout=node.timeout if node.timeout is not None else default_timeout,
        deadline=node.deadline,
        fresh=node.fresh,
        uses=node.uses,
        emits=node.emits if document.prompt is None else planner_emits(outline, name),
        models=_models(outline, name),
        effort=_effort(outline, name),
        tools=node.tools,
        asks=node.asks,
        inputs=_inputs(node),
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
        for_each=_for_each(node),
        ask=_inquiry(node),
        flow=node.flow,
        casting=casting_of(outline),
    )


def _for_each(node: NodeSpec) -> ForEach | None:
    if node.for_each is None or node.max is None:
        return None
    return ForEach(
        over=node.for_each, max=node.max, name=node.element or ELEMENT, skip=node.on_failure == "skip"
    )


def _inquiry(node: NodeSpec) -> Mapping[str, object] | None:
    if node.ask is None:
        return None
    return {"choices": node.choices, "expires": node.expires, "default": node.default, "show": node.show}


def _models(outline: Outline, name: str) -> tuple[str, ...]:
    """The tiers of a node that chooses its model: that one, then what its role has above it."""
    node, role = outline.node(name), outline.role(name)
    chosen = node.model or _default(outline, name, "model")
    if chosen is None:
        return ()
    tiers = role.models if role is not None else ()
    at = tiers.index(chosen) if chosen in tiers else 0
    return (chosen, *tiers[at + 1 :])


def _effort(outline: Outline, name: str) -> str | None:
    node = outline.node(name)
    return node.effort or _default(outline, name, "effort")


def _default(outline: Outline, name: str, key: Literal["model", "effort"]) -> str | None:
    default = outline.default(key) if outline.speaks(name) else None
    return None if default is None else default.value


def _inputs(node: NodeSpec) -> tuple[str, ...] | None:
    if isinstance(node.inputs, list):
        return tuple(node.inputs)
    return () if node.inputs == "none" else None


def _gate(gate: GateSpec | bool | None) -> Gate | None:
    if isinstance(gate, GateSpec):
        return Gate(
            # how often is known when the arguments are; that there is a loop is known now
            refusals=gate.refusals if isinstance(gate.refusals, int) else 1,
            back_to=gate.back_to,
            refuse_on=tuple(gate.refuse_on),
            on_undecided=Undecided(gate.on_undecided),
        )
    return Gate() if gate else None


def retry_of(retry: RetrySpec | int | None) -> Retry | None:
    """What a document's ``retry`` means; a pause that is stated is never made shorter."""
    if isinstance(retry, RetrySpec):
        plain = Retry(attempts=retry.attempts, on=tuple(retry.on))
        backoff = 0.0 if retry.backoff is None else seconds(retry.backoff)
        return changed(plain, backoff=backoff, max_delay=max(plain.max_delay, backoff))
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
    said = {
        name: f"{name} {_what(outline.node(name))} {_when(outline, name)}{_sends_back(outline, name)}"
        for name in outline.document.nodes
    }
    if outline.document.prompt is not None:
        planned = f"and plans at most {outline.document.max_nodes} nodes, each of which runs if those it"
        said = {name: f"{text} {planned} depends on completed" for name, text in said.items()}
    return said


def _per_element(node: NodeSpec) -> bool:
    return node.for_each is not None and names_element(node.when, node.element or ELEMENT)


def _what(node: NodeSpec) -> str:
    """What happens: it runs, it runs so often, or somebody is asked."""
    verb = "runs" if node.ask is None else "asks a person"
    if node.for_each is None:
        return verb
    each = f"{verb} once per element of {node.for_each}, at most {node.max}"
    if node.when is not None and _per_element(node):
        each += f", where {node.when.strip()}"
    return f"{each},"


def _sends_back(outline: Outline, name: str) -> str:
    """Where a gate sends the work when it refuses, and how often."""
    gate = outline.node(name).gate
    if not isinstance(gate, GateSpec) or not gate.refusals:
        return ""
    goals = [gate.back_to] if gate.back_to is not None else outline.sources(name)
    often = "once" if gate.refusals == 1 else f"at most {gate.refusals} times"
    return f"; if it refuses, {' and '.join(dict.fromkeys(goals))} and what follows run again, {often}"


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
    if node.when is not None and not _per_element(node):
        parts.append(node.when.strip())
    return f"if {' and '.join(parts)}" if parts else "at the start"


def _way(edge: EdgeSpec) -> str:
    if edge.otherwise:
        return f"{edge.source} completed and took no other way"
    return f"{edge.source} completed" + (f" with {edge.when}" if edge.when else "")
