"""Drawings of graphs, flows and finished runs, as text and as mermaid.

What can start together stands together: a node's column is one more than the last of its
predecessors' columns. Names never become syntax: mermaid gets made-up ids and escaped labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from emissions import SpawnRequest, TaskAssignment, Verdict, VerdictValue
from orchestrator.core.spec import ALL_OUTCOMES, Gate, Operation
from orchestrator.errors import OperationError
from orchestrator.flows.flow import Flow
from orchestrator.flows.graph import Graph
from orchestrator.flows.steps import BEGIN, FINISH
from roles import Role

__all__ = [
    "Arrow",
    "Box",
    "Kind",
    "columns",
    "draw",
    "draw_mermaid",
    "draw_text",
    "kind_of",
    "picture",
    "verdict_effects",
    "visible",
]

Kind = Literal["node", "gate", "for_each", "ask", "grown", "round"]
_ACTS: Final = (SpawnRequest, TaskAssignment, Verdict)
_MARKS: Final[Mapping[str, str]] = {
    "node": "",
    "gate": " <gate>",
    "for_each": " *",
    "ask": " ?",
    "grown": " +",
    "round": " @",
}
_SHAPES: Final[Mapping[str, tuple[str, str]]] = {
    "node": ("[", "]"),
    "gate": ("{{", "}}"),
    "for_each": ("[/", "/]"),
    "ask": (">", "]"),
    "grown": ("([", "])"),
    "round": ("[[", "]]"),
}
_CELL: Final = 40
#: Characters that mean something to mermaid inside a quoted label, or that a terminal would obey.
_ENTITIES: Final[Mapping[int, str]] = str.maketrans(
    {
        '"': "#quot;",
        "#": "#35;",
        "<": "#lt;",
        ">": "#gt;",
        "&": "#amp;",
        "`": "#96;",
        "\\": "#92;",
        "\n": "<br/>",
    }
)


@dataclass(frozen=True, slots=True)
class Box:
    """One node of a drawing.

    Attributes:
        name: its identity. label: what is shown.
        status: where it stands in a run; None for a plan.
        kind: ``node``, ``gate``, ``for_each``, ``ask`` (a person settles it), ``grown`` (while running) or
            ``round`` (of a refusal loop).
    """

    name: str
    label: str
    status: str | None = None
    kind: Kind = "node"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One edge of a drawing; ``label`` is its condition, or what it accepts."""

    source: str
    target: str
    label: str = ""


def draw(what: Graph | Flow, form: str = "text") -> str:
    """Draw a graph or a flow.

    Args:
        what: a graph, or a flow that has no error.
        form: ``text`` or ``mermaid``.

    Raises:
        OperationError: there is no such form.
        FlowError: the flow has an error.
    """
    if form not in ("text", "mermaid"):
        raise OperationError(f"there is no drawing {form!r}; write text or mermaid")
    graph = what.graph if isinstance(what, Flow) else what
    boxes, arrows = picture(graph)
    if form == "mermaid":
        return draw_mermaid(boxes, arrows)
    roles: dict[str, Role] = dict(graph.roles)
    return "\n".join([draw_text(boxes, arrows), *_gates(graph), *_emissions(graph, roles)])


def picture(graph: Graph) -> tuple[list[Box], list[Arrow]]:
    """The boxes and arrows of a graph."""
    boxes = [Box(node.name, _label(node), None, kind_of(node)) for node in graph.operations.values()]
    if graph.stepped:
        boxes = [Box(BEGIN, BEGIN), *boxes, Box(FINISH, FINISH)]
    arrows = []
    for edge in graph.edges:
        parts = [edge.label or ""]
        if edge.when is not None:
            parts.append(edge.when)
        if edge.predicate is not None:
            parts.append(type(graph.predicates[edge.predicate]).__name__)
        if "completed" not in edge.accept or set(edge.accept) - {"completed", "failed"}:
            parts.append("any outcome" if set(edge.accept) == set(ALL_OUTCOMES) else " or ".join(edge.accept))
        arrows.append(Arrow(edge.source, edge.target, ": ".join(part for part in parts if part)))
    for name, goals in _sent_back(graph).items():
        arrows += [Arrow(name, goal, f"refused, {_times(graph, name)}") for goal in goals]
    return boxes, arrows


def kind_of(node: Operation) -> Kind:
    """What a planned node is drawn as."""
    if node.gate is not None:
        return "gate"
    if node.for_each is not None:
        return "for_each"
    return "node" if node.inquiry is None else "ask"


def _sent_back(graph: Graph) -> dict[str, list[str]]:
    """Gate with refusals -> the nodes at which its new rounds start."""
    found: dict[str, list[str]] = {}
    for node in graph.operations.values():
        if node.gate is not None and node.gate.refusals:
            above = dict.fromkeys(edge.source for edge in graph.edges if edge.target == node.name)
            found[node.name] = [node.gate.back_to] if node.gate.back_to is not None else list(above)
    return found


def _times(graph: Graph, name: str) -> str:
    gate = graph.operations[name].gate
    times = 0 if gate is None else gate.refusals
    return "once" if times == 1 else f"at most {times} times"


def _label(node: Operation) -> str:
    who = node.role or node.flow or node.verb
    if node.casting is not None:
        who += f", plans up to {node.casting.max_nodes} nodes"
    shown = node.name if who == node.name else f"{node.name} ({who})"
    if node.for_each is not None:
        shown += f" for each of {node.for_each.over}, at most {node.for_each.max:,}"
    return f"{shown} if {node.when}" if node.when else shown


def columns(names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Names by the earliest step at which they can start; edges that close a cycle are passed over."""
    below: dict[str, list[str]] = {name: [] for name in names}
    waiting = dict.fromkeys(names, 0)
    for source, target in pairs:
        if source in below and target in below:
            below[source].append(target)
            waiting[target] += 1
    level = dict.fromkeys(names, 0)
    queue = [name for name in names if waiting[name] == 0]
    placed = set(queue)
    rest = iter(names)
    at = 0
    while len(placed) < len(below) or at < len(queue):
        if at == len(queue):  # only cycles are left: enter one where it stands first
            entry = next(name for name in rest if name not in placed)
            placed.add(entry)
            queue.append(entry)
        for target in below[queue[at]]:
            waiting[target] -= 1
            if target not in placed:
                level[target] = max(level[target], level[queue[at]] + 1)
                if waiting[target] == 0:
                    placed.add(target)
                    queue.append(target)
        at += 1
    found: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name in names:
        found[level[name]].append(name)
    return [column for column in found if column]


def draw_text(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """Columns of what can start together, then one line for each node that waits."""
    if not boxes:
        return "(nothing to draw)"
    shown = {box.name: _cell(box) for box in boxes}
    grid = columns([box.name for box in boxes], [(arrow.source, arrow.target) for arrow in arrows])
    widths = [max(len(shown[name]) for name in column) for column in grid]
    lines = []
    for row in range(max(len(column) for column in grid)):
        cells = [
            (shown[column[row]] if row < len(column) else "").ljust(width)
            for column, width in zip(grid, widths, strict=True)
        ]
        joint = "  ->  " if row == 0 else "      "
        lines.append(joint.join(cells).rstrip())
    before: dict[str, list[str]] = {}
    for arrow in arrows:
        condition = f" [{visible(arrow.label)}]" if arrow.label else ""
        before.setdefault(arrow.target, []).append(f"{visible(arrow.source)}{condition}")
    waits = [f"{visible(box.name)} <- {', '.join(before[box.name])}" for box in boxes if box.name in before]
    return "\n".join([*lines, "", *waits] if waits else lines)


def _cell(box: Box) -> str:
    label = visible(box.label)
    short = label if len(label) <= _CELL else f"{label[: _CELL - 3]}..."
    status = f" [{visible(box.status)}]" if box.status else ""
    return f"{short}{_MARKS[box.kind]}{status}"


def draw_mermaid(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> str:
    """A mermaid flowchart. Ids are generated, so that no name can be taken for syntax."""
    ids = {box.name: f"n{number}" for number, box in enumerate(boxes)}
    lines = ["flowchart LR"]
    for box in boxes:
        opening, closing = _SHAPES[box.kind]
        label = f"{box.label}\n{box.status}" if box.status else box.label
        lines.append(f'  {ids[box.name]}{opening}"{_escaped(label)}"{closing}')
    vetoed = [ids[box.name] for box in boxes if box.status == "vetoed"]
    if vetoed:
        lines += ["  classDef vetoed stroke-dasharray: 4 4", f"  class {','.join(vetoed)} vetoed"]
    for arrow in arrows:
        middle = f'-->|"{_escaped(arrow.label)}"|' if arrow.label else "-->"
        for end in (arrow.source, arrow.target):
            if end not in ids:  # an arrow to something unknown is drawn as such, not left out
                ids[end] = f"n{len(ids)}"
                lines.append(f'  {ids[end]}["{_escaped(end)} (unknown)"]')
        lines.append(f"  {ids[arrow.source]} {middle} {ids[arrow.target]}")
    return "\n".join(lines)


def _escaped(label: str) -> str:
    cleaned = "".join(char if char == "\n" or char.isprintable() else visible(char) for char in label)
    return cleaned.translate(_ENTITIES)


def visible(text: str) -> str:
    """``text`` on one line, with characters that a terminal would obey written out."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def verdict_effects(graph: Graph) -> dict[str, dict[str, str]]:
    """For every gate what each of the four verdicts does, and (``""``) what none does."""
    below: dict[str, list[str]] = {}
    for edge in graph.edges:
        below.setdefault(edge.source, []).append(edge.target)
    goals = _sent_back(graph)
    return {
        node.name: _effects(node.gate, below.get(node.name, []), ", ".join(goals.get(node.name, ())))
        if not graph.stepped
        else _leads(node.gate)
        for node in graph.operations.values()
        if node.gate is not None
    }


def _gates(graph: Graph) -> list[str]:
    """What each verdict does at each gate."""
    lines = []
    for name, effects in verdict_effects(graph).items():
        lines += ["", f"gate {name}:"]
        lines += [f"  {verdict or 'without a verdict'}: {effect}" for verdict, effect in effects.items()]
    return lines


def _effects(gate: Gate, dependents: list[str], goals: str) -> dict[str, str]:
    names = ", ".join(dependents) or "nothing: it has no dependents"
    vetoes = f"vetoes {names}" if dependents else names
    opens = f"opens {names}" if dependents else names
    if gate.refusals:
        often = "once" if gate.refusals == 1 else f"{gate.refusals} times"
        vetoes = f"sends the work back to {goals}, {often}, then {vetoes}"
    effects = {
        verdict.value: vetoes if verdict.value in gate.refuse_on else opens for verdict in VerdictValue
    }
    undecided = {"hold": "holds them until somebody decides", "reject": "counts as REJECT", "pass": opens}
    return {**effects, "": undecided[gate.on_undecided.value]}


def _leads(gate: Gate) -> dict[str, str]:
    """The same in a stepped flow: a task leads on along its edges, or nowhere."""
    nowhere, on = "leads nowhere", "leads on along its edges"
    effects = {verdict.value: nowhere if verdict.value in gate.refuse_on else on for verdict in VerdictValue}
    undecided = {"hold": "waits until somebody decides", "reject": "counts as REJECT", "pass": on}
    return {**effects, "": undecided[gate.on_undecided.value]}


def _emissions(graph: Graph, roles: Mapping[str, Role]) -> list[str]:
    """What each node's role may emit, and whether the run acts on it or records it."""
    lines = []
    for node in graph.operations.values():
        role = roles.get(node.role or "")
        kinds = (
            [kind for kind in role.emits if node.emits is None or kind.__name__ in node.emits] if role else []
        )
        if kinds:
            words = [f"{kind.__name__} ({_effect(kind, node)})" for kind in kinds]
            lines.append(f"{node.name} may emit {', '.join(words)}")
    return ["", *lines] if lines else []


def _effect(kind: type, node: Operation) -> str:
    return "acts" if kind in _ACTS and (kind is not Verdict or node.gate is not None) else "recorded"
