"""``evolve`` for facts about the child runs of a run, and about plans that are made while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestrator.core import facts as f
from orchestrator.core.apply_growth import link
from orchestrator.core.births import Birth
from orchestrator.core.frames import Frame
from orchestrator.core.settling import count_out, drop_request, leave_status
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status
from orchestrator.core.supersteps.children import call_begun, call_ended, count_tasks, memory_key

__all__ = ["INCLUDING"]


def _started(state: RunState, fact: f.ChildRunStarted, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.child_run, node.child_ended = fact.run, ""
    # a fork has another child than its origin, whose shares it leaves
    spawns, escalations = node.share
    node.share = (fact.spawns, fact.escalations)
    _count(state, fact.node, fact.spawns - spawns, fact.escalations - escalations)
    if state.steps is not None:
        call_begun(state.steps.children, fact)


def _held(state: RunState, fact: f.ChildRunHeld, frame: Frame) -> None:
    node = state.nodes[fact.node]
    leave_status(state, node)
    count_out(state, node)
    # ready, and in no queue: it starts when the run goes on
    node.status, node.held = Status.READY, fact.reason
    node.ready_at = frame.at
    if state.steps is not None:
        count_tasks(state.steps.children, fact)


def _ended(state: RunState, fact: f.ChildRunEnded, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    spawns, escalations = node.share
    node.child_ended, node.share = fact.reason, (0, 0)
    _count(state, fact.node, fact.spawns - spawns, fact.escalations - escalations)
    if state.steps is not None:
        task = state.steps.active[fact.node]
        call_ended(state.steps.children, memory_key(task.node, task.name, send=task.send), fact)


def _count(state: RunState, name: str, spawns: int, escalations: int) -> None:
    node = state.nodes[name]
    before = node.child_used
    node.child_used = (before[0] + spawns, before[1] + escalations)
    state.spawns += spawns
    state.escalations += escalations


def _planned(state: RunState, fact: f.NodesPlanned, _frame: Frame) -> None:
    # born after every planned node, and after what was injected before
    first = len(state.plan.operations) + state.injected
    for number, operation in enumerate(fact.operations):
        state.nodes[operation.name] = NodeState(operation, Birth(first + number), operation.name)
    for edge in fact.edges:
        link(state, edge)
    state.live += len(fact.operations)
    operations, edges = (*state.plan.operations, *fact.operations), (*state.plan.edges, *fact.edges)
    state.plan = msgspec.structs.replace(state.plan, operations=operations, edges=edges)


def _plan_refused(state: RunState, fact: f.PlanRefused, frame: Frame) -> None:
    node = state.nodes[fact.node]
    leave_status(state, node)
    drop_request(state, node)
    node.given_back += 1
    node.plan_faults = fact.faults
    node.status, node.ready_at = Status.READY, frame.at
    state.ready[fact.node] = None


INCLUDING: Mapping[type[f.Fact], Callable[[RunState, Any, Frame], None]] = {
    f.NodesPlanned: _planned,
    f.PlanRefused: _plan_refused,
    f.ChildRunStarted: _started,
    f.ChildRunHeld: _held,
    f.ChildRunEnded: _ended,
}
