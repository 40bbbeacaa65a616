"""``callboard draw``: a flow as it is written, or a run as it grew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.cli.edge import say
from orchestrator.cli.journals import reading, recorded
from orchestrator.cli.opening import open_flow
from orchestrator.cli.options import DrawOptions
from orchestrator.core.spec import EdgeKind
from orchestrator.core.state import EdgeState, NodeState, RunState
from orchestrator.core.supersteps.plan import END
from orchestrator.core.supersteps.state import StepState
from orchestrator.errors import OperationError
from orchestrator.flows.draw import Arrow, Box, Kind, draw_mermaid, draw_text, kind_of
from orchestrator.flows.draw import draw as draw_flow
from orchestrator.flows.steps import BEGIN, FINISH
from orchestrator.runtime.projections import display_state, shown_nodes

__all__ = ["draw", "picture_of"]

_LABELS = {EdgeKind.CHILD: "spawned", EdgeKind.JOIN: "joins"}


def draw(options: DrawOptions) -> int:
    """Print a drawing; where FLOW and RUN could both be meant, an existing path wins."""
    path = Path(options.what)
    if path.exists() or path.suffix in {".yaml", ".yml"}:
        say(draw_flow(open_flow(path), options.form))
        return 0
    if options.form not in ("text", "mermaid"):
        raise OperationError(f"there is no drawing {options.form!r}; write text or mermaid")
    with reading(options.journal) as (reader, _):
        boxes, arrows = picture_of(recorded(reader, options.what).state)
    say(draw_text(boxes, arrows) if options.form == "text" else draw_mermaid(boxes, arrows))
    return 0


def picture_of(state: RunState) -> tuple[list[Box], list[Arrow]]:
    """The boxes and arrows of a run: planned nodes and grown ones, each with where it stands."""
    if state.steps is not None:
        return _stepped(state.steps, shown_nodes(state))
    planned = {operation.name for operation in state.plan.operations}
    boxes = [_box(node, planned=node.op.name in planned) for node in state.nodes.values()]
    arrows = [_arrow(edge) for node in state.nodes.values() for edge in node.ins]
    # where each round came from: the gate that refused leads to the work that it sent back
    arrows += [
        Arrow(node.sent_back_by, node.op.name, f"refused, round {node.round}")
        for node in state.nodes.values()
        if node.sent_back_by is not None and not any(_of_round(state, node, edge) for edge in node.ins)
    ]
    return boxes, arrows


def _stepped(steps: StepState, nodes: Mapping[str, NodeState]) -> tuple[list[Box], list[Arrow]]:
    """The graph of a stepped run; each node with how often it ran and where its newest task stands."""
    boxes, arrows = [Box(BEGIN, BEGIN)], [Arrow(BEGIN, target) for target in steps.plan.entry]
    for name, spec in steps.nodes.items():
        node, who = nodes.get(name), spec.operation.role
        label = name if who in (None, name) else f"{name} ({who})"
        if visits := steps.visits.get(name):
            label += f", {visits} {'visit' if visits == 1 else 'visits'}"
        if node is not None and node.judgement is not None:
            label += f": {node.judgement}"
        kind: Kind = "gate" if spec.operation.gate is not None else kind_of(spec.operation)
        boxes.append(Box(name, label, None if node is None else display_state(node.status), kind))
        arrows += [Arrow(name, FINISH if target == END else target) for target in spec.targets]
        arrows += [Arrow(name, target, "if") for target in spec.branches or ()]
    arrows += [Arrow(one, join.target, "join") for join in steps.plan.joins for one in join.sources]
    if any(arrow.target == FINISH for arrow in arrows):
        boxes.append(Box(FINISH, FINISH))
    return boxes, arrows


def _box(node: NodeState, *, planned: bool) -> Box:
    who = node.op.role or node.op.verb
    label = node.op.name if node.op.name.split(".")[0] == who else f"{node.op.name} ({who})"
    if node.op.gate is not None and node.judgement is not None:
        label += f": {node.judgement}"
    if node.vetoed_by:
        label += f", vetoed by {', '.join(node.vetoed_by)}"
    kind: Kind = "gate" if node.op.gate is not None else kind_of(node.op) if planned else "grown"
    if node.copies is not None:
        kind = "round"
    return Box(node.op.name, label, display_state(node.status, opened=node.opened), kind)


def _of_round(state: RunState, node: NodeState, edge: EdgeState) -> bool:
    return state.nodes[edge.source].sent_back_by == node.sent_back_by


def _arrow(edge: EdgeState) -> Arrow:
    words = [edge.spec.label or "", edge.spec.when or "", _LABELS.get(edge.spec.kind, "")]
    return Arrow(edge.source, edge.target, ": ".join(word for word in words if word))
