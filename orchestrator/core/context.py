"""Shared context is causal: a node reads its ancestors' writes, in graph order, never by timing.

Each node sees, per key, the *last writers* among its ancestors: those that no other of them follows.
Two unordered writers of one leaf need a reducer; without one they are a conflict that names both,
found where they meet (engine.md 17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from orchestrator.core.order import in_graph_order
from orchestrator.core.retracting import EMPTY
from orchestrator.core.state import NodeState, RunState, Write
from orchestrator.core.status import TERMINAL
from orchestrator.errors import ContextConflictError

__all__ = [
    "REDUCERS",
    "Conflict",
    "Reducer",
    "conflict_in",
    "fold",
    "merge",
    "outdated",
    "prior_of",
    "view_after",
    "view_at_end",
    "view_of",
]

View = Mapping[str, tuple[str, ...]]
Reducer = Callable[[object, object], object]


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """Two unordered writes of one leaf."""

    key: str
    leaf: str
    first: str
    second: str

    def __str__(self) -> str:
        place = self.key + self.leaf.replace("/", ".")
        return (
            f"{self.first!r} and {self.second!r} both wrote context key {place!r} and neither waits for "
            f"the other; declare a reducer for {self.key!r} or order the two nodes"
        )


# --- views -------------------------------------------------------------------------------------


def view_of(state: RunState, node: NodeState) -> View:
    """What a node sees: key -> its unordered last writers.

    A node that was settled before its predecessors were (cancelled while it waited) sees nothing.
    """
    if node.early or node.pending:
        return {}
    if not node.seen:
        if state.written:
            views = [view_after(state, state.nodes[edge.source]) for edge in node.ins]
            node.view = dict(_join(state, views)) or None
        node.seen = True
    return node.view or {}


def view_after(state: RunState, node: NodeState) -> View:
    """What a node's successors see of it: its own view under its own writes."""
    view = view_of(state, node)
    if not node.writes:
        return view
    return {**view, **dict.fromkeys(node.writes, (node.name,))}


def view_at_end(state: RunState) -> View:
    """The view of a node that would follow every settled node: the end of the run is the last join.

    What belongs to a round that is over counts no more.
    """
    if not state.written:
        return {}
    sinks = [
        node
        for node in state.nodes.values()
        if node.status in TERMINAL
        and not any(_carries_on(state.nodes[edge.target]) for edge in node.outs)
        and not state.is_over(node)
    ]
    view = _join(state, [view_after(state, node) for node in sinks])
    if not state.latest:
        return view
    current = {
        key: tuple(name for name in names if not state.is_over(state.nodes[name]))
        for key, names in view.items()
    }
    return {key: names for key, names in current.items() if names}


def _carries_on(node: NodeState) -> bool:
    """True if a node settled after its predecessors: its view holds theirs."""
    return node.status in TERMINAL and not node.early


def prior_of(state: RunState, node: NodeState, key: str) -> tuple[tuple[str, ...], int]:
    """The last writers that a new write of ``node`` follows, and its generation."""
    prior = view_of(state, node).get(key, ())
    own = (node.writes or {}).get(key)
    if own is not None and own.value == EMPTY:
        prior = tuple(dict.fromkeys((*prior, *own.prior)))
    return prior, 1 + max((_write(state, name, key).generation for name in prior), default=0)


def _join(state: RunState, views: list[View]) -> View:
    first = views[0] if views else {}
    if all(view is first or view == first for view in views):
        return first
    writers: dict[str, dict[str, None]] = {}
    for view in views:
        for key, names in view.items():
            writers.setdefault(key, {}).update(dict.fromkeys(names))
    return {key: _last(state, key, names) for key, names in writers.items()}


def _last(state: RunState, key: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that no other of them follows."""
    listed = tuple(names)
    if len(listed) < 2:  # noqa: PLR2004
        return listed
    floor = min(_write(state, name, key).generation for name in listed)
    followed: set[str] = set()
    for name in listed:
        if name not in followed and _write(state, name, key).generation > floor:
            followed |= _history(state, key, _write(state, name, key).prior, floor)
    return tuple(name for name in listed if name not in followed)


def _history(state: RunState, key: str, names: Iterable[str], floor: int = 0) -> set[str]:
    """``names`` and every writer of ``key`` before them, down to generation ``floor``."""
    found: set[str] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        if name in found:
            continue
        found.add(name)
        write = _write(state, name, key)
        if write.generation > floor:
            stack.extend(write.prior)
    return found


def _write(state: RunState, name: str, key: str) -> Write:
    return (state.nodes[name].writes or {})[key]


# --- conflicts ---------------------------------------------------------------------------------


def conflict_in(state: RunState, view: View) -> Conflict | None:
    """The first conflict of a view, in order of keys, or None."""
    for key in sorted(key for key, names in view.items() if len(names) > 1):
        if key not in state.plan.reducers:
            found = _clash(state, key, view[key])
            if found is not None:
                return found
    return None


def _clash(state: RunState, key: str, last: tuple[str, ...]) -> Conflict | None:
    histories = [_history(state, key, (name,)) for name in last]
    common = histories[0].intersection(*histories[1:])
    apart = histories[0].union(*histories[1:]) - common
    writers: dict[str, list[str]] = {}
    for name in in_graph_order(state, apart):
        for leaf in _write(state, name, key).leaves:
            writers.setdefault(leaf, []).append(name)
    for leaf, names in writers.items():
        for other in (name for above in _prefixes(leaf) for name in writers.get(above, ())):
            apart_from = [name for name in names if name != other and not _ordered(state, key, name, other)]
            if apart_from:
                first, second = in_graph_order(state, (other, apart_from[0]))
                return Conflict(key, leaf, first, second)
    return None


def _prefixes(leaf: str) -> list[str]:
    parts = leaf.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _ordered(state: RunState, key: str, left: str, right: str) -> bool:
    """True if one of two writers follows the other."""
    low, high = sorted((left, right), key=lambda name: _write(state, name, key).generation)
    floor = _write(state, low, key).generation
    if low in _history(state, key, _write(state, high, key).prior, floor):
        return True
    if not state.latest:
        return False
    return _round_before(state, key, low, high) or _round_before(state, key, high, low)


def _round_before(state: RunState, key: str, later: str, earlier: str) -> bool:
    """True if ``later`` follows another round of ``earlier``: it comes after it in the flow."""
    wanted = _counterpart(state, earlier)
    return any(_counterpart(state, name) == wanted for name in _history(state, key, (later,)) - {later})


def _counterpart(state: RunState, name: str) -> tuple[str, str]:
    """Equal for what has the same place in every round."""
    node = state.nodes[name]
    return state.planned_name(node), name.removeprefix(node.origin)


# --- folding -----------------------------------------------------------------------------------


def merge(base: object, update: object) -> object:
    """``update`` over ``base``: mappings leaf by leaf, anything else replaces (the seed's deep update)."""
    if not isinstance(base, dict) or not isinstance(update, dict):
        return update
    merged = dict(base)
    for key, value in update.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return merged


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _union(base: object, update: object) -> list[object]:
    out = list(_as_list(base))
    out.extend(item for item in _as_list(update) if item not in out)
    return out


def _numbers(operation: Callable[[float, float], object]) -> Reducer:
    def reduce(base: object, update: object) -> object:
        for value in (base, update):
            if isinstance(value, bool) or not isinstance(value, int | float):
                message = f"this reducer needs numbers, not {value!r}"
                raise ContextConflictError(message)
        return operation(base, update)  # type: ignore[arg-type]

    return reduce


#: Named reducers: ``reducer(folded so far, next write) -> folded``, in graph order.
REDUCERS: Mapping[str, Reducer] = {
    "last": lambda _base, update: update,
    "append": lambda base, update: [*_as_list(base), update],
    "extend": lambda base, update: [*_as_list(base), *_as_list(update)],
    "merge": merge,
    "union": _union,
    "sum": _numbers(lambda base, update: base + update),
    "max": _numbers(max),
    "min": _numbers(min),
}
#: The value before the first write, where a reducer has one.
_START: Mapping[str, Callable[[], object]] = {"append": list, "extend": list, "union": list}

_ABSENT = object()


def fold(
    state: RunState,
    key: str,
    last: tuple[str, ...],
    start: object = _ABSENT,
    custom: Mapping[str, Reducer] | None = None,
) -> object:
    """The value of ``key`` as seen by somebody whose last writers of it are ``last``.

    Args:
        start: the run's first context for this key, if it had one.
        custom: reducers that are not in :data:`REDUCERS`, by name.

    Raises:
        ContextConflictError: a reducer met a value that it cannot fold.
    """
    reducer = state.plan.reducers.get(key)
    step = REDUCERS.get(reducer or "merge") or (custom or {}).get(reducer or "")
    if step is None:
        message = f"context key {key!r} is folded by {reducer!r}, which is not known here"
        raise ContextConflictError(message)
    value = start
    if value is _ABSENT and reducer is not None and reducer in _START:
        value = _START[reducer]()
    for name in in_graph_order(state, _visible(state, key, last)):
        write = _write(state, name, key)
        if write.value == EMPTY:
            continue
        update = msgspec.json.decode(write.value)
        value = update if value is _ABSENT or write.replace else step(value, update)
        for later in write.more:
            value = step(value, msgspec.json.decode(later))
    return value


def _visible(state: RunState, key: str, last: tuple[str, ...]) -> set[str]:
    """The writes that count: all before ``last``, except what a replacing write or a later round hides."""
    hidden: set[str] = set()
    everything = _history(state, key, last)
    for name in everything:
        write = _write(state, name, key)
        if write.replace:
            hidden |= _history(state, key, write.prior)
    return everything - hidden - outdated(state, everything)


def outdated(state: RunState, names: Iterable[str]) -> set[str]:
    """Those of ``names`` of whose planned node a later round is among them."""
    if not state.latest:
        return set()
    listed = [(name, state.nodes[name]) for name in names]
    rounds: dict[str, int] = {}
    for _, node in listed:
        planned = state.planned_name(node)
        rounds[planned] = max(rounds.get(planned, 0), state.nodes[node.origin].round)
    return {
        name for name, node in listed if state.nodes[node.origin].round < rounds[state.planned_name(node)]
    }
