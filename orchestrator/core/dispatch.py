"""From ready to running: pause, slots, limits, branches. First in, first out, nothing scans a queue.

A node parks in the queue of the first resource that is missing. Whoever frees a resource takes the
head of its queue; a node that then lacks something else parks there and the next head is tried.

A node that includes a flow holds no slot while its child runs: what it waits for could need that very slot,
or wait for hours for a person. Child runs are counted beside the slots, as many at once as there are slots.
"""

from __future__ import annotations

from collections import deque

from orchestrator.core.decisions import Decision, Why
from orchestrator.core.facts import NodePaused, NodeStarted
from orchestrator.core.resources import capacity, closed, missing, resources_of
from orchestrator.core.spec import UNLIMITED
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = ["CHILD", "SLOT", "over_budget", "place_of", "start", "start_all", "wake"]

SLOT = "slot"
#: What a node takes whose work is a run of its own.
CHILD = "child"


def place_of(node: NodeState) -> str:
    """What a node takes while it runs, beside its resources: a slot, or the place of a child run."""
    return SLOT if node.op.flow is None else CHILD


def start(decision: Decision, node: NodeState, why: Why = None) -> None:
    """(ready, running): begin the next attempt if nothing holds it back.

    ``why`` is the resource at the head of whose queue the node stood: it keeps that place.
    """
    state = decision.state
    if state.paused or state.draining or state.cancelling or (state.metered and over_budget(state)):
        if state.paused and node.paused_in != state.pauses:
            decision.fact(NodePaused(node.op.name))
        return
    if closed(state, node):
        return
    place = place_of(node)
    if _taken(state, place) >= _limit(state):
        _park(state, place, node, first=why == place)
        return
    if state.plan.limits or node.op.branch is not None or node.branch is not None:
        lacking = missing(state, node)
        if lacking is not None:
            _park(state, lacking, node, first=why == lacking)
            wake(decision, resources_of(state, node))
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
    """A slot and ``freed`` resources may have become free: their first waiters try again.

    A waiter for a resource takes the slot that came with it, so that the first in the queue for slots
    is not called in vain.
    """
    state = decision.state
    if not state.parked:
        return
    woken = False
    for resource in freed:
        if state.used.get(resource, 0) < capacity(state, resource):
            woken = _wake_one(decision, resource) or woken
    limit = _limit(state)
    if not woken and state.slots < limit:
        _wake_one(decision, SLOT)
    if state.including < limit:
        _wake_one(decision, CHILD)


def start_all(decision: Decision) -> None:
    """Try every ready node in order, as after a pause."""
    decision.state.parked.clear()
    for name in decision.state.ready:
        decision.recommend(decision.state.nodes[name], Status.RUNNING)


def _taken(state: RunState, place: str) -> int:
    return state.slots if place == SLOT else state.including


def _limit(state: RunState) -> int:
    limit = state.budget.concurrency
    return UNLIMITED if limit is None else limit


def _park(state: RunState, resource: str, node: NodeState, *, first: bool) -> None:
    queue = state.parked.get(resource)
    if queue is None:
        queue = state.parked[resource] = deque()
    if first:
        queue.appendleft(node.op.name)
    else:
        queue.append(node.op.name)


def _wake_one(decision: Decision, resource: str) -> bool:
    state = decision.state
    queue = state.parked.get(resource)
    while queue:
        node = state.nodes[queue.popleft()]
        if node.status is Status.READY:
            decision.recommend(node, Status.RUNNING, resource)
            return True
    return False
