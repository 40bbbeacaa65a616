"""Checks of refusal loops: what a gate sends back, how often, and who else sends the same back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from orchestrator.flows.document import GateSpec
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem, Severity
from orchestrator.flows.references import References, Surroundings

__all__ = ["check_gates"]


def check_gates(source: Source, outline: Outline) -> Iterator[Problem]:
    """Problems of ``refusals`` and ``back_to``."""
    references = References(source, outline)
    loops: dict[str, set[str]] = {}
    for name, node in outline.document.nodes.items():
        gate = node.gate
        if not isinstance(gate, GateSpec):
            continue
        place: Place = ("nodes", name, "gate")
        yield from references.texts((*place, "refusals"), gate.refusals, _ONLY_ARGS)
        yield from _back_to(source, outline, name, gate)
        if gate.refusals:
            loops[name] = _loop(outline, name, gate.back_to)
    yield from _together(source, outline, loops)


_ONLY_ARGS = Surroundings(None, ("args",), bare=False)


def _back_to(source: Source, outline: Outline, name: str, gate: GateSpec) -> Iterator[Problem]:
    place: Place = ("nodes", name, "gate")
    goal = gate.back_to
    above = outline.ancestors(name)
    if goal is None:
        if gate.refusals and not above:
            message = f"{name} has refusals and nothing before it to send back; name a node in after"
            yield source.problem((*place, "refusals"), message)
    elif goal not in outline.order:
        hint = suggestion(goal, above or outline.order)
        yield source.problem(
            (*place, "back_to"), f"back_to of {name} names {goal!r}, which does not exist{hint}"
        )
    elif goal not in above:
        known = ", ".join(above) or "none"
        message = f"back_to of {name} names {goal!r}, which is not before it; before it: {known}"
        yield source.problem((*place, "back_to"), message)
    elif not gate.refusals:
        message = f"back_to of {name} says nothing without refusals; write how often: refusals: 1"
        yield source.problem((*place, "back_to"), message, key=True)


def _loop(outline: Outline, name: str, back_to: str | None) -> set[str]:
    """The nodes on a path from where a gate sends the work back to the gate."""
    starts = [back_to] if back_to is not None else outline.sources(name)
    return {
        other
        for other in outline.ancestors(name)
        if any(other == start or outline.is_above(start, other) for start in starts)
    }


def _together(source: Source, outline: Outline, loops: dict[str, set[str]]) -> Iterator[Problem]:
    """Two gates that judge the same work at once: each would have it made anew for itself."""
    for first, second in combinations(loops, 2):
        if outline.is_above(first, second) or outline.is_above(second, first):
            continue
        shared = [name for name in outline.order if name in loops[first] & loops[second]]
        if shared:
            message = (
                f"{first} and {second} both send {shared[0]} back and neither waits for the other, so each "
                f"judges a round of its own; let {second} come after {first}"
            )
            yield source.problem(("nodes", second, "gate"), message, Severity.WARNING, key=True)
