"""Which nodes a gate sends back: every planned node on a path from its ``back_to`` to it (kernel.md 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from orchestrator.core.order import topological
from orchestrator.core.spec import Edge, Operation

__all__ = ["loops_of", "most_rounds"]


def loops_of(operations: Sequence[Operation], edges: Iterable[Edge]) -> dict[str, tuple[str, ...]]:
    """Gate with refusals -> its loop in topological order, the gate last.

    Without ``back_to`` the work goes back to the gate's direct predecessors: what the gate judges is made
    again, and what that was made from stands. A gate that has none of these above it has an empty loop.

    Args:
        operations, edges: a plan without cycles.
    """
    gates = [one for one in operations if one.gate is not None and one.gate.refusals]
    if not gates:
        return {}
    above: dict[str, list[str]] = {one.name: [] for one in operations}
    below: dict[str, list[str]] = {one.name: [] for one in operations}
    for edge in edges:
        above[edge.target].append(edge.source)
        below[edge.source].append(edge.target)
    place = {name: number for number, name in enumerate(topological(below))}
    return {gate.name: _loop(gate, above, below, place) for gate in gates}


def most_rounds(operations: Sequence[Operation], edges: Iterable[Edge]) -> dict[str, int]:
    """Node -> how often it can work at most: a gate inside another's loop has its refusals in each round."""
    most = dict.fromkeys((one.name for one in operations), 1)
    refusals = {one.name: one.gate.refusals for one in operations if one.gate is not None}
    for gate, loop in loops_of(operations, edges).items():
        for name in loop:
            most[name] *= 1 + refusals[gate]
    return most


def _loop(
    gate: Operation,
    above: Mapping[str, list[str]],
    below: Mapping[str, list[str]],
    place: Mapping[str, int],
) -> tuple[str, ...]:
    back_to = None if gate.gate is None else gate.gate.back_to
    starts = [back_to] if back_to is not None else list(dict.fromkeys(above[gate.name]))
    if not starts or any(start not in place for start in starts):
        return ()
    # nothing before the first start is on such a path: the walk ends there
    floor = min(place[start] for start in starts)
    judged = _walk([gate.name], above, lambda name: place[name] >= floor)
    found = _walk([start for start in starts if start in judged], below, judged.__contains__)
    if gate.name not in found or found == {gate.name}:
        return ()
    return tuple(sorted(found, key=place.__getitem__))


def _walk(starts: Iterable[str], ways: Mapping[str, list[str]], within: Callable[[str], bool]) -> set[str]:
    """Every node that can be reached from ``starts`` without leaving what ``within`` is true of."""
    found = set(starts)
    stack = list(found)
    while stack:
        for name in ways[stack.pop()]:
            if name not in found and within(name):
                found.add(name)
                stack.append(name)
    return found
