"""Orders over the graph: the plan's check for cycles, the search for a grown edge, graph order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key

from orchestrator.core.births import Birth, compare
from orchestrator.core.state import EdgeState, NodeState, RunState
from orchestrator.core.status import Status

__all__ = ["cycle_in", "in_graph_order", "reaches", "topological"]


def cycle_in(successors: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """A cycle of the graph as names, first and last equal, or None. Linear in nodes and edges.

    Args:
        successors: node -> the nodes that wait for it; every node is a key.
    """
    ordered = set(topological(successors))
    left = dict.fromkeys(name for name in successors if name not in ordered)
    return _walk_back(successors, left) if left else None


def topological(successors: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes so that each comes after all that it waits for; what waits for itself is left out. Linear.

    Args:
        successors: as for ``cycle_in``.
    """
    owed = dict.fromkeys(successors, 0)
    for targets in successors.values():
        for target in targets:
            owed[target] += 1
    free = deque(name for name, count in owed.items() if count == 0)
    ordered = []
    while free:
        name = free.popleft()
        ordered.append(name)
        for target in successors[name]:
            owed[target] -= 1
            if owed[target] == 0:
                free.append(target)
    return ordered


def _walk_back(successors: Mapping[str, Sequence[str]], left: Mapping[str, None]) -> tuple[str, ...]:
    """A cycle among the nodes that Kahn's algorithm left: each has a predecessor that it left too."""
    before: dict[str, str] = {}
    for name in left:
        for target in successors[name]:
            if target in left:
                before.setdefault(target, name)
    seen: dict[str, None] = {}
    name = next(iter(left))
    while name not in seen:
        seen[name] = None
        name = before[name]
    path = list(seen)[list(seen).index(name) :]
    path.append(name)
    return tuple(reversed(path))


def reaches(state: RunState, sources: Iterable[str], goals: Iterable[str]) -> tuple[str, ...] | None:
    """A path from one of ``sources`` to one of ``goals`` through waiting nodes, or None.

    A path through a node that has left ``waiting`` cannot lead to a waiting one, so the search stops
    there: it is bounded by what still waits.
    """
    wanted = frozenset(goals)
    came_from: dict[str, str | None] = dict.fromkeys(sources)
    queue = deque(came_from)
    while queue:
        name = queue.popleft()
        if name in wanted:
            return _path(came_from, name)
        for edge in state.nodes[name].outs:
            target = edge.target
            if target not in came_from and state.nodes[target].status is Status.WAITING:
                came_from[target] = name
                queue.append(target)
    return None


def _path(came_from: Mapping[str, str | None], name: str) -> tuple[str, ...]:
    path = [name]
    previous = came_from[name]
    while previous is not None:
        path.append(previous)
        previous = came_from[previous]
    return tuple(reversed(path))


def in_graph_order(state: RunState, names: Iterable[str]) -> list[str]:
    """``names`` sorted topologically, ties by birth.

    The key of a node is (latest birth among itself and its ancestors, longest path above it, own
    birth): for a graph declared in dependency order it is the order of declaration. Every named node
    must have left ``waiting``: its incoming edges are final, so keys are kept.
    """
    wanted = list(names)
    if len(wanted) < 2:  # noqa: PLR2004
        return wanted
    for name in wanted:
        _measure(state, name)
    orders, nodes = state.orders, state.nodes

    def before(left: str, right: str) -> int:
        (latest, level), (other, other_level) = orders[left], orders[right]
        return compare(latest, other) or level - other_level or compare(nodes[left].birth, nodes[right].birth)

    return sorted(wanted, key=cmp_to_key(before))


def _measure(state: RunState, name: str) -> None:
    """Fill the memo for a node and all of its ancestors; iterative, a chain may be 100,000 long."""
    orders, nodes = state.orders, state.nodes
    stack = [name]
    while stack:
        node = nodes[stack[-1]]
        if node.op.name in orders:
            stack.pop()
            continue
        missing = [edge.source for edge in _final_ins(node) if edge.source not in orders]
        if missing:
            stack.extend(missing)
            continue
        orders[stack.pop()] = _key(node, orders)


def _final_ins(node: NodeState) -> Sequence[EdgeState]:
    """A node that was settled while it still waited counts as a root: its edges may yet move."""
    return () if node.early else node.ins


def _key(node: NodeState, orders: Mapping[str, tuple[Birth, int]]) -> tuple[Birth, int]:
    latest, level = node.birth, 0
    for edge in _final_ins(node):
        birth, above = orders[edge.source]
        level = max(level, above + 1)
        if compare(birth, latest) > 0:
            latest = birth
    return latest, level
