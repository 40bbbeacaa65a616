"""From a run's state to what people and programs read of it. Nothing here is a second record of anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.core.context import REDUCERS, Reducer, conflict_in, view_at_end
from orchestrator.core.facts import LeftArtifact
from orchestrator.core.round_records import Round
from orchestrator.core.scopes import context_mapping, outputs_scope
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import RunReason, Status
from orchestrator.core.supersteps.agents import Agents
from orchestrator.runtime.nexts import next_command
from orchestrator.runtime.results import DroppedSpawn, NodeResult, RoundRecord, RunResult, Usage
from orchestrator.runtime.texts import said
from roles import NodeError

__all__ = ["display_state", "node_result", "run_result", "shown_nodes"]

_SECOND = 1e9

_SHOWN: Mapping[Status, str] = {
    Status.WAITING: "queued",
    Status.READY: "queued",
    Status.RUNNING: "running",
    Status.STOPPING: "running",
    Status.ASKING: "asking",
    Status.BACKING_OFF: "retrying",
    Status.COMPLETED: "succeeded",
    Status.FAILED: "failed",
    Status.SKIPPED: "skipped",
    Status.VETOED: "vetoed",
    Status.CANCELLED: "cancelled",
    Status.ESCALATED: "escalated",
}


def display_state(status: Status, *, paused: bool = False, held: bool = False, opened: bool = False) -> str:
    """The word that people see for where a node stands: the one projection for every surface.

    Args:
        status: the node's status. paused: the run is paused. held: an undecided gate is above the node.
        opened: it waits for nothing but its instances.
    """
    if status is Status.READY and paused:
        return "paused"
    if status is Status.WAITING and opened:
        return "running"
    if status is Status.WAITING and held:
        return "held"
    return _SHOWN[status]


def node_result(node: NodeState) -> NodeResult:
    """A node's state as a result."""
    error = node.error
    failed = error is not None and node.status in (Status.FAILED, Status.BACKING_OFF)
    started = node.started_at or node.settled_at
    return NodeResult(
        node.op.name,
        node.status,
        NodeError(error.type, error.message, error.attempt) if failed and error is not None else None,
        node.attempt,
        max(0, node.settled_at - started) / _SECOND if node.settled_at else 0.0,
        max(0, node.started_at - node.ready_at) / _SECOND if node.started_at else 0.0,
        Usage(node.requests, node.input_tokens, node.output_tokens, node.cost_usd),
        node.branch or node.op.branch,
        node.op.role,
        node.parent if node.op.instance is None or node.op.instance.of != node.parent else None,
        node.superseded_by,
        node.vetoed_by,
        node.reason,
        node.judgement,
        node.restored,
        node.value,
        node.decided_by,
        node.because,
        node.artifacts,
        node.children if node.opened else None,
        node.left_out,
        node.child_run,
    )


class _NodeResults(Mapping[str, NodeResult]):
    """Results of all nodes, each made when it is looked at: a run of 100,000 nodes has few readers."""

    __slots__ = ("_made", "_nodes")

    def __init__(self, nodes: Mapping[str, NodeState]) -> None:
        self._nodes = nodes
        self._made: dict[str, NodeResult] = {}

    def __getitem__(self, name: str) -> NodeResult:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = node_result(self._nodes[name])
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def run_result(
    state: RunState,
    *,
    fault: BaseException | None = None,
    reducers: Mapping[str, Reducer] | None = None,
    outputs: Mapping[str, Any] | None = None,
) -> RunResult:
    """A run's state as a result.

    Args:
        fault: why it halted. reducers: the run's own; a key of the context whose reducer is not known here
            is left out. outputs: what the document declares, rendered.
    """
    # a run without a last word was interrupted: its process is gone
    stopped = RunReason(state.ended or state.suspended or RunReason.INTERRUPTED)
    reason = RunReason.NEEDS_RECOVERY if fault is not None else stopped
    known = {None, *REDUCERS, *(reducers or {})}
    view = {key: names for key, names in view_at_end(state).items() if state.plan.reducers.get(key) in known}
    clean = {key: names for key, names in view.items() if conflict_in(state, {key: names}) is None}
    stepped = state.steps is not None
    held: Any = outputs_scope(state)["context"] if stepped else context_mapping(state, clean, reducers)
    context, unfolded = _folded(held)
    detail = str(fault) if fault is not None else state.detail
    return RunResult(
        state.run,
        state.name,
        reason,
        "; ".join(part for part in (detail, unfolded) if part),
        _NodeResults(shown_nodes(state)),
        dict(outputs or {}),
        next_command(state, reason),
        context,
        _dropped(state),
        _spawned(state),
        tuple(state.rejected),
        dict(state.waiters),
        _total(state),
        tuple(_round(one) for one in state.rounds),
        dict(state.latest),
        artifacts=_artifacts(state),
    )


def shown_nodes(state: RunState) -> Mapping[str, NodeState]:
    """The nodes as people are told of them; of a stepped run the newest task of each node.

    Of Sends in the step that goes on each is shown by its own name.
    """
    steps = state.steps
    if steps is None:
        return state.nodes
    shown = {name: steps.last[name] for name in steps.nodes if name in steps.last}
    for name, task in steps.active.items():
        shown[name if task.send else task.node] = state.nodes[name]
    return shown


def _round(one: Round) -> RoundRecord:
    return RoundRecord(
        one.gate, one.number, one.node, one.judgement, one.verdict, one.rationale, one.moved, one.nodes,
        one.tokens, one.cost_usd, one.duration / _SECOND, one.refusals, one.allowed, one.continued, one.fresh,
    )  # fmt: skip


def _artifacts(state: RunState) -> dict[str, LeftArtifact]:
    """What the run leaves under each of its names: the last in the order in which nodes came to be."""
    wanted = {artifact.name for artifact in state.plan.artifacts}
    current = [node for node in state.nodes.values() if not state.is_over(node)]
    return {one.name: one for node in current for one in node.artifacts if one.name in wanted}


def _folded(context: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The final context, and what is said of keys that their reducers cannot fold."""
    folded: dict[str, Any] = {}
    faults = []
    for key in context:
        try:
            folded[key] = context[key]
        except BaseException as error:  # noqa: BLE001 (a reducer is its author's code)
            faults.append(f"context key {key!r} cannot be folded: {said(error, 500)}")
    return folded, "; ".join(faults)


def _spawned(state: RunState) -> tuple[str, ...]:
    if state.steps is not None:
        return ()
    planned = {operation.name for operation in state.plan.operations}
    return tuple(
        name
        for name, node in state.nodes.items()
        if name not in planned and node.rungs == 0 and node.op.instance is None and node.copies is None
    )


def _dropped(state: RunState) -> tuple[DroppedSpawn, ...]:
    dropped = [
        DroppedSpawn(reason, detail, assignee, emitter, key)
        for emitter, reason, detail, assignee, key in state.refused
    ]
    dropped += [
        DroppedSpawn(reason, "not recorded one by one", None, emitter, None, count)
        for (emitter, reason), count in state.counted_refusals.items()
    ]
    return tuple(dropped)


def _total(state: RunState) -> Usage:
    nodes: list[NodeState | Agents] = list(state.nodes.values())
    if state.steps is not None:
        nodes.append(state.steps.agents)
    priced = [node.cost_usd for node in nodes if node.cost_usd is not None]
    return Usage(
        sum(node.requests for node in nodes),
        sum(node.input_tokens for node in nodes),
        sum(node.output_tokens for node in nodes),
        sum(priced) if priced else None,
    )
