"""What a ``for_each`` node reads of a state: its list, its instances, and how they came out.

A node with ``for_each`` waits twice: for its predecessors, then for its instances. It is ``waiting``
all the while, holds no slot and makes no attempt; each instance is a node with an edge to it. So it
settles by the rules by which every node settles that waits for others.
"""

from __future__ import annotations

import msgspec

from orchestrator.core.expressions import ExpressionError, compile_expression
from orchestrator.core.facts import Failure
from orchestrator.core.kinds import INDEX
from orchestrator.core.scopes import node_scope
from orchestrator.core.spec import ALL_OUTCOMES, Edge, EdgeKind, ForEach, Instance, Operation
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = [
    "FOR_EACH_ERROR",
    "elements",
    "failure",
    "instance_edges",
    "instance_of",
    "instances",
    "joined",
    "judged_per_element",
    "left_out",
    "names_element",
    "readings",
]

#: What a node fails with whose list does not fit, or whose instances failed.
FOR_EACH_ERROR = "ForEachError"
#: So many failed instances are named in an error.
_NAMED = 5
_SHOWN = 200
#: Bytes of JSON that a value may have (the bound of every node's value).
_SIZE_LIMIT = 64 * 1024 * 1024


def judged_per_element(operation: Operation) -> bool:
    """True if ``when`` names the element: then it is judged for each instance, and not for the node."""
    each = operation.for_each
    if each is None or operation.when is None:
        return False
    return names_element(operation.when, each.name)


def names_element(when: str, name: str) -> bool:
    """True if a condition names the element or its place.

    Raises:
        ExpressionError: it is no condition.
    """
    return not compile_expression(when).names.isdisjoint((name, INDEX))


def elements(state: RunState, node: NodeState, each: ForEach) -> list[bytes] | Failure:
    """The elements of the node's list as JSON, or why there is no list that fits."""
    try:
        found = compile_expression(each.over).evaluate(node_scope(state, node))
    except ExpressionError as error:
        return _failure(f"the list cannot be told: {error}")
    if not isinstance(found, list):
        kind = "a mapping" if isinstance(found, dict) else type(found).__name__
        return _failure(f"for_each: {each.over} gave {kind}, not a list")
    if len(found) > each.max:
        return _failure(f"{each.over} has {len(found):,} elements and max is {each.max:,}; raise max")
    try:
        return [msgspec.json.encode(item) for item in found]
    except (TypeError, RecursionError) as error:
        return _failure(f"{each.over} holds what is no JSON: {error}")


def _failure(message: str) -> Failure:
    return Failure(FOR_EACH_ERROR, message)


def instance_of(node: NodeState, index: int, item: bytes) -> Operation:
    """The operation of the node's instance number ``index``, from 1."""
    operation = node.op
    each = operation.for_each or ForEach(over="", max=0)
    return msgspec.structs.replace(
        operation,
        name=f"{operation.name}.{index}",
        needs="any",
        when=operation.when if judged_per_element(operation) else None,
        writes=None,
        stop_on_failure=False,
        for_each=None,
        instance=Instance(of=operation.name, index=index, item=msgspec.Raw(item), name=each.name),
    )


def readings(node: NodeState, living: list[bool]) -> list[Edge]:
    """The node's incoming edges as its instances have them: conditions were judged, once, for all.

    Args:
        living: for each edge, whether it carried the node; another one delivers and makes nothing live.
    """
    return [
        Edge(
            source=edge.source,
            target=node.op.name,
            kind=edge.spec.kind,
            accept=edge.spec.accept if alive or edge.waits_only else (),
            reads_as=None if edge.reads_as == edge.source else edge.reads_as,
        )
        for edge, alive in zip(node.ins, living, strict=True)
    ]


def instance_edges(node: NodeState, name: str, above: list[Edge]) -> tuple[Edge, ...]:
    """An instance reads what its node reads, and its node waits for it, however it ends."""
    reads = [msgspec.structs.replace(edge, target=name) for edge in above]
    return (*reads, Edge(source=name, target=node.op.name, kind=EdgeKind.JOIN, accept=ALL_OUTCOMES))


def instances(state: RunState, node: NodeState) -> list[NodeState]:
    """The node's instances in list order; one that escalated is the child that took it over."""
    if not node.opened:
        return []
    sources = (state.nodes[edge.source] for edge in node.ins)
    return [
        source
        for source in sources
        if source.op.instance is not None and source.op.instance.of == node.op.name
    ]


def left_out(state: RunState, node: NodeState) -> tuple[str, ...]:
    """Instances that settled and left no value; one that was not needed is not among them."""
    return tuple(
        one.op.name
        for one in instances(state, node)
        if one.status in (Status.FAILED, Status.CANCELLED, Status.VETOED)
    )


def joined(state: RunState, node: NodeState) -> bytes | Failure:
    """The node's value: the list of its instances' values, or why it has none."""
    missing = left_out(state, node)
    if missing and node.op.for_each is not None and not node.op.for_each.skip:
        return failure(state, node, missing)
    values = [one.value or b"null" for one in instances(state, node) if one.status is Status.COMPLETED]
    if sum(map(len, values)) + len(values) >= _SIZE_LIMIT:
        return _failure(f"its instances gave more than {_SIZE_LIMIT:,} bytes of JSON together")
    return b"[" + b",".join(values) + b"]"


def failure(state: RunState, node: NodeState, missing: tuple[str, ...]) -> Failure:
    """The error of a node that needs every instance, with the first that are missing and why."""
    told = [f"{name} ({_why(state.nodes[name])})" for name in missing[:_NAMED]]
    more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    total = len(instances(state, node))
    return _failure(f"{len(missing):,} of {total:,} instances failed: {', '.join(told)}{more}")


def _why(node: NodeState) -> str:
    if node.error is not None:
        return f"{node.error.type}: {node.error.message}"[:_SHOWN]
    return f"{node.status.value}: {node.reason}"[:_SHOWN]
