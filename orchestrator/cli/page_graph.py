"""The graph of a run as an SVG that stands in a page: boxes in columns, arrows, no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from orchestrator.cli.drawing import picture_of
from orchestrator.cli.edge import clean
from orchestrator.core.state import NodeState, RunState
from orchestrator.flows.draw import Arrow, Box, columns
from orchestrator.runtime.projections import shown_nodes

__all__ = ["graph"]

_WIDTH: Final = 168
_HEIGHT: Final = 24
_ACROSS: Final = 214
_DOWN: Final = 32
_LABEL: Final = 24
#: A column of more boxes goes on beside itself.
_ROWS: Final = 40
#: More arrows than this are no picture any more.
_ARROWS: Final = 4_000


def graph(state: RunState) -> str:
    """The SVG; every name in it is text, whatever characters it has."""
    boxes, arrows = picture_of(state)
    nodes = shown_nodes(state)
    boxes = [box for box in boxes if box.name in nodes]
    arrows = [arrow for arrow in arrows if arrow.source in nodes and arrow.target in nodes]
    if not boxes:
        return "<p>The run has no node.</p>"
    grid = _folded(columns([box.name for box in boxes], [(arrow.source, arrow.target) for arrow in arrows]))
    places = {name: (x, y) for x, column in enumerate(grid) for y, name in enumerate(column)}
    width = len(grid) * _ACROSS
    height = max(map(len, grid)) * _DOWN + 4
    parts = [f'<svg width="{width}" height="{height}" role="img" aria-label="graph of the run">']
    parts += _arrows(arrows[:_ARROWS], places)
    parts += [_box(box, places[box.name], _class(nodes[box.name], box)) for box in boxes]
    parts.append("</svg>")
    if len(arrows) > _ARROWS:
        parts.append(f"<p>{_ARROWS:,} of {len(arrows):,} arrows are drawn.</p>")
    return "".join(parts)


def _folded(grid: list[list[str]]) -> list[list[str]]:
    """Columns of at most so many rows."""
    return [column[at : at + _ROWS] for column in grid for at in range(0, len(column), _ROWS)]


def _arrows(arrows: list[Arrow], places: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for arrow in arrows:
        if arrow.source not in places:
            continue
        (x1, y1), (x2, y2) = places[arrow.source], places[arrow.target]
        left, top = x1 * _ACROSS + _WIDTH, y1 * _DOWN + _HEIGHT // 2 + 2
        right, bottom = x2 * _ACROSS, y2 * _DOWN + _HEIGHT // 2 + 2
        kind = "s" if arrow.label == "spawned" else "j" if arrow.label == "joins" else "e"
        title = "" if arrow.label in {"", "spawned", "joins"} else f"<title>{_text(arrow.label)}</title>"
        end = f"C{left + 20} {top} {right - 20} {bottom} {right} {bottom}"
        path = f'<path class="{kind}" d="M{left} {top}{end}"'
        yield f"{path}>{title}</path>" if title else f"{path}/>"


def _class(node: NodeState, box: Box) -> str:
    """Its colour: where it stands, but a gate that rejected is none that succeeded."""
    return node.judgement if node.judgement in {"rejected", "undecided"} else box.status or ""


def _box(box: Box, place: tuple[int, int], kind: str) -> str:
    x, y = place[0] * _ACROSS, place[1] * _DOWN + 2
    label = clean(box.label)
    short = label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"
    title = f"<title>{escape(label)}: {_text(box.status or '')}</title>" if short != label else ""
    round_ = {"gate": 0, "grown": 12}.get(box.kind, 4)
    return (
        f'<g class="{_text(kind)}"><rect class="{box.kind}" x="{x}" y="{y}" rx="{round_}" '
        f'width="{_WIDTH}" height="{_HEIGHT}"/>'
        f'<text x="{x + 8}" y="{y + 16}">{escape(short)}</text>{title}</g>'
    )


def _text(value: object) -> str:
    return escape(clean(value))
