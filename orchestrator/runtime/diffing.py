"""Two recorded runs beside each other, node by node, and where they began to differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from orchestrator.core.order import in_graph_order
from orchestrator.core.state import NodeState, RunState
from orchestrator.runtime.given import Given, given_to
from orchestrator.runtime.projections import display_state, node_result

__all__ = ["Difference", "NodeDiff", "RunDiff", "diff"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs: its name, and what it is in the first and in the second run."""

    what: str
    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class NodeDiff:
    """One node that is not the same in both runs.

    Attributes:
        outcome: what came of it that differs: status, value, verdict, error, who spawned it, refusals.
        inputs: what it was given that differs: role, instruction, parameters, predecessors' values, context.
        spent: cost and time, first and second; they do not make runs different.
    """

    node: str
    outcome: tuple[Difference, ...] = ()
    inputs: tuple[Difference, ...] = ()
    spent: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class RunDiff:
    """What differs between two runs.

    Attributes:
        run: differences of the runs as such: reason, refusals from outside.
        nodes: nodes that differ, in the order of the graph. same: how many nodes are equal.
        cause: the first node that was given something else, or gave something else for the same.
    """

    run: tuple[Difference, ...] = ()
    nodes: tuple[NodeDiff, ...] = ()
    same: int = 0
    cause: str | None = None
    spent: tuple[Difference, ...] = field(default=())

    @property
    def equal(self) -> bool:
        """True if the outcomes are equal, whatever was given and spent."""
        return not self.run and not any(node.outcome for node in self.nodes)


def diff(first: RunState, second: RunState) -> RunDiff:
    """Compare two runs; nodes are the same if they have the same name.

    Args:
        first, second: states folded from the records.
    """
    names = [*in_graph_order(first, dict.fromkeys(first.nodes))]
    names += [name for name in in_graph_order(second, dict.fromkeys(second.nodes)) if name not in first.nodes]
    found = [_node(name, first, second) for name in names]
    nodes = tuple(one for one in found if one.outcome or one.inputs)
    return RunDiff(
        tuple(_different(_of_run(first), _of_run(second))),
        nodes,
        len(names) - len(nodes),
        nodes[0].node if nodes else None,
        tuple(_different(_spent_by_all(first), _spent_by_all(second))),
    )


def _node(name: str, first: RunState, second: RunState) -> NodeDiff:
    one, other = first.nodes.get(name), second.nodes.get(name)
    if one is None or other is None:
        there = (
            (None if one is None else display_state(one.status)),
            (None if other is None else display_state(other.status)),
        )
        return NodeDiff(name, (Difference("status", *there),))
    inputs: tuple[Difference, ...] = ()
    if one.attempt or other.attempt:
        inputs = tuple(_different(_inputs(first, one), _inputs(second, other)))
    return NodeDiff(
        name,
        tuple(_different(_outcome(first, one), _outcome(second, other))),
        inputs,
        tuple(_different(_spent(one), _spent(other))),
    )


def _different(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for what in dict.fromkeys((*first, *second)):
        if first.get(what) != second.get(what):
            yield Difference(what, first.get(what), second.get(what))


def _of_run(state: RunState) -> dict[str, Any]:
    outside = Counter(reason for emitter, reason, *_ in state.refused if emitter is None)
    return {"reason": state.ended or state.suspended or "interrupted", "refused from outside": dict(outside)}


def _outcome(state: RunState, node: NodeState) -> dict[str, Any]:
    error = node_result(node).error
    return {
        "status": display_state(node.status, opened=node.opened),
        "value": None if node.value is None else msgspec.json.decode(node.value),
        "verdict": node.judgement,
        "error": None if error is None else f"{error.type}: {error.message}",
        "spawned by": node.parent,
        "escalated to": node.superseded_by,
        "emissions": dict(Counter(entry.kind for entry in node.ledger)),
        "refusals": dict(node.refusals or {}),
    }


def _inputs(state: RunState, node: NodeState) -> dict[str, Any]:
    given: Given = given_to(state, node)
    read = {f"input {name}": value for name, value in given.inputs.items()}
    code = state.definition.functions.get(f"role:{node.op.role}", "").rpartition("::")[2]
    return {
        "role": node.op.role or node.op.verb,
        "code of its role": code,
        "instruction": given.instruction,
        "parameters": given.parameters,
        "model": node.op.models[node.op.tier] if node.op.tier < len(node.op.models) else None,
        **read,
        "failed before it": {name: error.type for name, error in given.failed.items()},
        "context": given.context,
    }


def _spent(node: NodeState) -> dict[str, Any]:
    result = node_result(node)
    return {
        "seconds": round(result.duration, 3),
        "attempts": result.attempts,
        "tokens": node.input_tokens + node.output_tokens,
        "cost_usd": node.cost_usd,
    }


def _spent_by_all(state: RunState) -> dict[str, Any]:
    nodes = state.nodes.values()
    return {
        "seconds": round(state.at / 1e9, 3),
        "tokens": sum(node.input_tokens + node.output_tokens for node in nodes),
        "cost_usd": sum(node.cost_usd or 0.0 for node in nodes) or None,
    }
