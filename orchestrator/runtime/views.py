"""What a node reads: its predecessors' values, its ancestors' emissions, its context. All by value.

Values are decoded when they are looked up: each reader has its own copy, an unread one costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from emissions import Emission
from orchestrator.core.order import in_graph_order
from orchestrator.core.rework import reworked
from orchestrator.core.scopes import ancestors, current
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status
from roles import Emitted, NodeError, Rework

__all__ = [
    "Inputs",
    "RunView",
    "emissions_of",
    "failures_of",
    "inputs_of",
    "rework_of",
    "sources_of",
    "speakers_above",
]

E = TypeVar("E", bound=Emission)
_decode = msgspec.json.decode
_SEED_SUFFIX = "_result"


class Inputs(Mapping[str, Any]):
    """Values of the predecessors that completed, by name, in graph order. JSON data, one copy per turn."""

    __slots__ = ("_decoded", "_nodes")

    def __init__(self, nodes: Mapping[str, NodeState]) -> None:
        """``nodes``: name -> completed node, in graph order."""
        self._nodes = nodes
        self._decoded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The value of ``name``; the operation-graph seed's ``name_result`` is read as well."""
        node = self._nodes.get(name)
        if node is None:
            if not name.endswith(_SEED_SUFFIX) or name.removesuffix(_SEED_SUFFIX) not in self._nodes:
                message = f"no predecessor {name!r} completed; there are: {', '.join(self._nodes) or 'none'}"
                raise KeyError(message)
            name = name.removesuffix(_SEED_SUFFIX)
            node = self._nodes[name]
        if name not in self._decoded:
            self._decoded[name] = None if node.value is None else _decode(node.value)
        return self._decoded[name]

    def get(self, name: str, default: Any = None, /) -> Any:
        """The value of ``name``, or ``default`` if no such predecessor completed."""
        return self[name] if name in self else default  # noqa: SIM401 (this is that get)

    def __contains__(self, name: object, /) -> bool:
        """True if a predecessor of this name completed; the seed's ``name_result`` counts as ``name``."""
        return isinstance(name, str) and (
            name in self._nodes
            or (name.endswith(_SEED_SUFFIX) and name.removesuffix(_SEED_SUFFIX) in self._nodes)
        )

    def __iter__(self) -> Iterator[str]:
        """Names, in graph order."""
        return iter(self._nodes)

    def __len__(self) -> int:
        """How many predecessors completed."""
        return len(self._nodes)

    def __repr__(self) -> str:
        """Names, not values: a value may be large."""
        return f"<inputs {', '.join(self._nodes) or 'none'}>"

    def of(self, *, role: str) -> Inputs:
        """Those of the predecessors that have this role."""
        return Inputs({name: node for name, node in self._nodes.items() if node.op.role == role})


def sources_of(state: RunState, node: NodeState) -> list[tuple[str, NodeState]]:
    """A node's predecessors in graph order, each with the name under which the node reads it.

    A child that took over by escalation reads what its predecessor in the work read.
    """
    found: dict[str, str] = {}
    edges = list(node.ins)
    while edges:
        edge = edges.pop()
        source = state.nodes[edge.source]
        if source.status is Status.ESCALATED and source.superseded_by == node.op.name:
            edges.extend(source.ins)
        else:
            found[edge.source] = edge.reads_as
    return [(found[name], state.nodes[name]) for name in in_graph_order(state, found)]


def inputs_of(state: RunState, node: NodeState) -> Inputs:
    """What ``turn.inputs`` gives."""
    if len(node.ins) == 1:
        # the common case costs no walk
        edge = node.ins[0]
        source = state.nodes[edge.source]
        if source.status is Status.COMPLETED:
            return Inputs({edge.reads_as: source})
    return Inputs(
        {name: source for name, source in sources_of(state, node) if source.status is Status.COMPLETED}
    )


def failures_of(state: RunState, node: NodeState) -> dict[str, NodeError]:
    """What ``turn.failed`` gives."""
    return {
        name: NodeError(source.error.type, source.error.message, source.error.attempt)
        for name, source in sources_of(state, node)
        if source.status is Status.FAILED and source.error is not None and not source.restored
    }


def emissions_of(
    state: RunState, node: NodeState, kind: type[E], of: str | Sequence[str] | None = None
) -> list[Emitted[E]]:
    """What ``turn.emissions`` gives: accepted emissions of the node's ancestors, in graph order."""
    wanted = None if of is None else {of} if isinstance(of, str) else set(of)
    name_of_kind = kind.emission_kind
    return [
        Emitted(kind.model_validate_json(entry.payload), source.op.name, source.op.role, entry.attempt)
        for source in speakers_above(state, node, wanted)
        for entry in source.ledger
        if entry.kind == name_of_kind
    ]


def speakers_above(state: RunState, node: NodeState, wanted: Collection[str] | None) -> Iterator[NodeState]:
    """The node's ancestors that emitted something, in graph order; of a loop those of the latest round.

    Args:
        wanted: only these, by their own names or those that the flow's author gave; None is all.
    """
    for name in in_graph_order(state, current(state, ancestors(state, node))):
        source = state.nodes[name]
        if source.ledger and (wanted is None or name in wanted or state.authored(source) in wanted):
            yield source


def rework_of(state: RunState, node: NodeState) -> Rework | None:
    """What ``turn.rework`` gives: why the work was sent back, and what the node had given."""
    told = reworked(state, node)
    if told is None:
        return None
    return Rework(
        told.gate,
        told.round,
        told.verdict,
        told.rationale,
        told.reversible_by,
        told.by,
        None if told.value is None else _decode(told.value),
        {one.name: Path(one.place) for one in state.nodes[told.previous].artifacts},
        told.previous,
    )


class RunView:
    """What handlers and ``on_settle`` may read of a run. Nothing here changes anything."""

    __slots__ = ("_outcome", "_state")

    def __init__(self, state: RunState, outcome: Callable[[], Any] | None = None) -> None:
        """``outcome`` gives the value of the node that is about to settle."""
        self._state = state
        self._outcome = outcome

    @property
    def run(self) -> str:
        """The run's id."""
        return self._state.run

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node's name, in the order in which they came to be."""
        return tuple(self._state.nodes)

    def status(self, node: str) -> str:
        """Where a node stands."""
        return self._node(node).status.value

    def value(self, node: str) -> Any:
        """A completed node's value, or None."""
        raw = self._node(node).value
        return None if raw is None else _decode(raw)

    def successors(self, node: str) -> tuple[str, ...]:
        """Who waits for a node."""
        return tuple(edge.target for edge in self._node(node).outs)

    @property
    def outcome(self) -> Any:
        """In ``on_settle``: the value, or the error, that the node is about to settle with."""
        return None if self._outcome is None else self._outcome()

    @property
    def spawns_left(self) -> int:
        """How many nodes may still be added."""
        return max(0, self._state.budget.spawns - self._state.spawns)

    def _node(self, name: str) -> NodeState:
        node = self._state.resolve(name)
        if node is None:
            message = f"no node {name!r} in this run"
            raise KeyError(message)
        return node
