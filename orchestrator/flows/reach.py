"""Nodes that can never run, whatever happens in the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from orchestrator.core.expressions import ExpressionError, compile_expression
from orchestrator.errors import ConditionError
from orchestrator.flows.load import Source
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem

__all__ = ["check_reach"]

#: Looks over the nodes; edges that lead up the file need several.
_PASSES = 50


def check_reach(source: Source, outline: Outline) -> Iterator[Problem]:
    """Name every node that nothing can make run, with the reason.

    A condition that names nothing has one answer for ever; ``else`` beside an edge without a condition is
    never taken; what only such nodes lead to is skipped with them.
    """
    never: dict[str, str] = {}
    # ``else`` is never taken where another edge of its source always is
    always = {one.source for one in outline.document.edges if one.when is None and not one.otherwise}
    dead = {
        number
        for number, edge in enumerate(outline.document.edges)
        if (edge.otherwise and edge.source in always) or (edge.when is not None and _always_false(edge.when))
    }
    ways: dict[str, list[str | None]] = {}
    for number, edge in enumerate(outline.document.edges):
        ways.setdefault(edge.target, []).append(None if number in dead else edge.source)
    for _ in range(_PASSES):
        before = len(never)
        for name in outline.order:
            reason = None if name in never else _why(outline, name, ways.get(name, ()), never)
            if reason is not None:
                never[name] = reason
        if len(never) == before:
            break
    for name, reason in never.items():
        yield source.problem(("nodes", name), f"{name} never runs: {reason}", key=True)


def _why(outline: Outline, name: str, ways: Sequence[str | None], never: Mapping[str, str]) -> str | None:
    node = outline.node(name)
    if node.when is not None and _always_false(node.when):
        return f"its condition `{node.when.strip()}` is never true; remove the node, or the condition"
    after = [source for _, source, _ in outline.after(name)]
    if after and all(source in never for source in after):
        return f"{' and '.join(after)} never run{'' if len(after) > 1 else 's'}"
    if ways and all(source is None or source in never for source in ways):
        return "none of its edges can be taken; mend a condition, or remove the node"
    return None


def _always_false(text: str) -> bool:
    try:
        expression = compile_expression(text)
        return not expression.names and expression.evaluate_bool({}) is False
    except (ExpressionError, ConditionError):
        return False
