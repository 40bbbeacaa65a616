"""What expressions and templates can name: a node's arguments, context and ancestors, by value.

Only ancestors can be named: a node that merely happens to have settled is not there, so that timing
never picks a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import msgspec

from emissions import EMISSIONS
from orchestrator.core.context import Reducer, fold, outdated, view_after, view_at_end, view_of
from orchestrator.core.expressions import NodeView
from orchestrator.core.kinds import INDEX
from orchestrator.core.order import in_graph_order
from orchestrator.core.state import EdgeState, Emitted, NodeState, RunState
from orchestrator.core.status import TERMINAL, Status

__all__ = [
    "Lazy",
    "ancestors",
    "context_mapping",
    "current",
    "edge_scope",
    "node_scope",
    "outputs_scope",
    "view",
]

_decode = msgspec.json.decode


class Lazy(Mapping[str, object]):
    """A read-only mapping whose values are made when they are looked up, once."""

    __slots__ = ("_made", "_make", "_names")

    def __init__(self, names: Mapping[str, None] | dict[str, None], make: Callable[[str], object]) -> None:
        """``make(name)`` is called for names of ``names`` only."""
        self._names, self._make = names, make
        self._made: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        """The value of ``name``; KeyError if there is none."""
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """Names, in order."""
        return iter(self._names)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self._names)


class _Scope(Lazy):
    """What can be named, of which the near part is listed and the rest is found when it is asked for.

    Most conditions name what the node waits for: in a long chain it would cost more to list all above it.
    """

    __slots__ = ("_own", "_reach")

    def __init__(self, near: dict[str, None], reach: _Reach, make: Callable[[str], object]) -> None:
        """``near``: names that are there whatever stands above; ``reach``: all that is above."""
        super().__init__(near, make)
        self._own, self._reach = near, reach

    def __getitem__(self, name: str) -> object:
        """The value of ``name``; KeyError if there is none."""
        if name not in self._made and name not in self._names and self._reach.holds(name):
            self._made[name] = self._make(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        """Names, in order."""
        return iter({**self._own, **self._reach.above, **dict.fromkeys(self._reach.bare)})

    def __len__(self) -> int:
        """How many names there are."""
        return len(tuple(iter(self)))


def view(node: NodeState, name: str | None = None) -> NodeView:
    """A node as expressions see it."""
    raw = node.value if node.status is Status.COMPLETED else None
    left = {one.name: one.place for one in node.artifacts} if node.artifacts else None
    failed = node.left_out if node.op.for_each is not None else None
    return NodeView(name or node.name, node.status.value, raw, left, failed)


def edge_scope(state: RunState, source: NodeState) -> Mapping[str, object]:
    """For an edge's ``when``: its source's result and status, and what a node after the source could name.

    ``result`` of a failed source is its error as a mapping (type, message, attempt).
    """
    reach = _Reach(state, source, itself=True)

    def make(name: str) -> object:
        if name == "result":
            if source.error is not None:
                error = source.error
                return {"type": error.type, "message": error.message, "attempt": error.attempt}
            return None if source.value is None else _decode(source.value)
        if name == "status":
            return source.status.value
        if name == "args":
            return _decode(state.plan.args)
        if name == "nodes":
            return _nodes(state, reach.above, reach.bare)
        if name == "emissions":
            return _emissions(state, reach.above)
        if name == "context":
            return context_mapping(state, view_after(state, source))
        known = name if name == source.op.name else reach.bare.get(name, name)
        return view(state.nodes[known], name)

    names = dict.fromkeys(("result", "status", "context", "args", "nodes", "emissions"))
    near = {source.op.name: None, **names}
    return _Scope(near, reach, make)


def node_scope(
    state: RunState, node: NodeState, custom: Mapping[str, Reducer] | None = None
) -> Mapping[str, object]:
    """For a node's ``when``, instruction and parameters: args, context, emissions and its ancestors."""
    reach = _Reach(state, node)
    direct = {edge.reads_as: edge.source for edge in node.ins}
    one = node.op.instance

    def make(name: str) -> object:
        if one is not None and name == one.name:
            return _decode(one.item)
        if one is not None and name == INDEX:
            return one.index
        if name == "args":
            return _decode(state.plan.args)
        if name == "context":
            return context_mapping(state, view_of(state, node), custom)
        if name == "nodes":
            renamed = {**reach.bare, **direct}
            return _nodes(state, {**reach.above, **dict.fromkeys(renamed)}, renamed)
        if name == "emissions":
            return _emissions(state, reach.above)
        known = direct.get(name) or reach.bare.get(name, name)
        return view(state.nodes[known], name)

    names = dict.fromkeys(("args", "context", "nodes", "emissions"))
    own = {} if one is None else dict.fromkeys((one.name, INDEX))
    near = {**names, **own, **dict.fromkeys(direct)}
    return _Scope(near, reach, make)


class _Reach:
    """All that is above a node, found when it is asked for."""

    def __init__(self, state: RunState, node: NodeState, *, itself: bool = False) -> None:
        """``itself``: the node is one of them."""
        self._state, self._node, self._itself = state, node, itself

    @cached_property
    def above(self) -> dict[str, None]:
        """Every node on a path to it, nearest first."""
        found = ancestors(self._state, self._node)
        return {**found, self._node.op.name: None} if self._itself else found

    @cached_property
    def bare(self) -> dict[str, str]:
        """What bare names mean among them, where that is not the node of that name."""
        return _bare(self._state, self.above)

    def holds(self, name: str) -> bool:
        """Whether a name means something that is above it."""
        return name in self.above or name in self.bare


def outputs_scope(state: RunState, custom: Mapping[str, Reducer] | None = None) -> Mapping[str, object]:
    """For a document's ``outputs``: every settled node."""
    if state.steps is not None:
        held = {key: _decode(raw) for key, raw in state.steps.channels.items()}
        return {"args": _decode(state.plan.args), "context": held}
    settled = {name: None for name, node in state.nodes.items() if node.status in TERMINAL}
    last = view_at_end(state)
    bare = {name: _latest(state, name) for name in settled}

    def make(name: str) -> object:
        if name == "args":
            return _decode(state.plan.args)
        if name == "context":
            return context_mapping(state, last, custom)
        if name == "nodes":
            return _nodes(state, settled, bare)
        if name == "emissions":
            return _emissions(state, settled)
        return view(state.nodes[bare[name]], name)

    return Lazy({**dict.fromkeys(("args", "context", "nodes", "emissions")), **settled}, make)


def ancestors(state: RunState, node: NodeState) -> dict[str, None]:
    """Every node on a path to ``node``, nearest first."""
    found: dict[str, None] = {}
    stack: list[EdgeState] = list(node.ins)
    while stack:
        edge = stack.pop()
        if edge.source not in found:
            found[edge.source] = None
            stack.extend(state.nodes[edge.source].ins)
    return found


def context_mapping(
    state: RunState,
    last: Mapping[str, tuple[str, ...]],
    custom: Mapping[str, Reducer] | None = None,
) -> Mapping[str, object]:
    """The shared context as somebody sees it whose last writers are ``last``; folded when read."""
    first = _decode(state.plan.context)

    def make(key: str) -> object:
        if key not in last:
            return first[key]
        start = {"start": first[key]} if key in first else {}
        return fold(state, key, last[key], custom=custom, **start)

    return Lazy({**dict.fromkeys(first), **dict.fromkeys(last)}, make)


def current(state: RunState, names: Mapping[str, None]) -> Mapping[str, None]:
    """``names`` without those of whose planned node a later round is among them."""
    over = outdated(state, names)
    return {name: None for name in names if name not in over} if over else names


def _latest(state: RunState, name: str) -> str:
    """The node that a bare name means at the end: its latest round, its last tier."""
    node = state.resolve(name)
    return name if node is None else node.name


def _bare(state: RunState, above: Mapping[str, None]) -> dict[str, str]:
    """What a bare name means to who has these ancestors: the latest round among them, its last tier."""
    if not (state.latest or state.escalations):
        return {}
    found: dict[str, NodeState] = {}
    for name in above:
        node = state.nodes[name]
        bare = name.partition("+")[0] if node.depth else state.planned_name(node)
        if bare == name and not node.superseded_by and not state.latest:
            continue
        known = found.get(bare)
        if known is None or (node.round, node.rungs) > (known.round, known.rungs):
            found[bare] = node
    return {bare: node.name for bare, node in found.items()}


def _nodes(state: RunState, names: Mapping[str, None], bare: Mapping[str, str]) -> Mapping[str, object]:
    return Lazy(dict(names), lambda name: view(state.nodes[bare.get(name, name)], name))


def _emissions(state: RunState, names: Mapping[str, None]) -> Mapping[str, object]:
    """Kind -> payloads of accepted emissions of these nodes, in graph order."""
    by_kind: dict[str, list[Emitted]] = {kind: [] for kind in EMISSIONS}
    for name in in_graph_order(state, current(state, names)):
        for entry in state.nodes[name].ledger:
            by_kind.setdefault(entry.kind, []).append(entry)
    return Lazy(dict.fromkeys(by_kind), lambda kind: [_decode(entry.payload) for entry in by_kind[kind]])
