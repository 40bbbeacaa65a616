"""From ready to running: pause, slots, limits, branches. First in, first out, nothing scans a queue.

A node parks in the queue of the first resource that is missing. Whoever frees a resource takes the
head of its queue; a node that then lacks something else parks there and the next head is tried.
"""

from __future__ import annotations

from collections import deque

from orchestrator.core.decisions import Decision, Why
from orchestrator.core.facts import NodePaused, NodeStarted
from orchestrator.core.resources import missing
from orchestrator.core.spec import UNLIMITED
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = ["over_budget", "start", "start_all", "wake"]

_SLOT = "slot"


def start(decision: Decision, node: NodeState, _why: Why = None) -> None:
    """(ready, running): begin the next attempt if nothing holds it back."""
    state = decision.state
    if state.paused or state.draining or state.cancelling or (state.metered and over_budget(state)):
        if state.paused and node.paused_in != state.pauses:
            decision.fact(NodePaused(node.op.name))
        return
    limit = state.budget.concurrency
    if state.slots >= (UNLIMITED if limit is None else limit):
        _park(state, _SLOT, node)
        return
    if state.plan.limits or node.op.branch is not None or node.branch is not None:
        lacking = missing(state, node)
        if lacking is not None:
            _park(state, lacking, node)
            _wake_one(decision, _SLOT)
            return
    decision.fact(NodeStarted(node.op.name, node.attempt + (not node.resumes)))


def over_budget(state: RunState) -> str | None:
    """The name of a summed budget that is spent, or None."""
    budget = state.budget
    if budget.tokens is not None and state.tokens >= budget.tokens:
        return "tokens"
    if budget.cost_usd is not None and state.cost_usd >= budget.cost_usd:
        return "cost_usd"
    return None


def wake(decision: Decision, freed: tuple[str, ...]) -> None:
    """A slot and ``freed`` resources have become free: their first waiters try again."""
    if decision.state.parked:
        for resource in (*freed, _SLOT):
            _wake_one(decision, resource)


def start_all(decision: Decision) -> None:
    """Try every ready node in order, as after a pause."""
    decision.state.parked.clear()
    for name in decision.state.ready:
        decision.recommend(decision.state.nodes[name], Status.RUNNING)


def _park(state: RunState, resource: str, node: NodeState) -> None:
    queue = state.parked.get(resource)
    if queue is None:
        queue = state.parked[resource] = deque()
    queue.append(node.op.name)


def _wake_one(decision: Decision, resource: str) -> None:
    state = decision.state
    queue = state.parked.get(resource)
    while queue:
        node = state.nodes[queue.popleft()]
        if node.status is Status.READY:
            decision.recommend(node, Status.RUNNING)
            return
