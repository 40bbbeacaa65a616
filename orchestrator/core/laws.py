"""The laws that can be seen in a state: ``check(state)`` lists what is broken, [] if nothing is.

The checker counts everything anew and trusts no counter. It runs after every command in tests, after
every recovery and in ``doctor``; :class:`Watch` is its cheap form for long runs. What can only be seen
in the order of facts is in ``fact_laws``, whose :func:`check_facts` is named here too.

States are checked between commands: inside a decision a node may be due and not judged yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from orchestrator.core.dispatch import CHILD, SLOT, over_budget, place_of
from orchestrator.core.fact_laws import check_facts
from orchestrator.core.facts import Fact
from orchestrator.core.node_laws import at_rest, breaches_of, check_node
from orchestrator.core.order import cycle_in
from orchestrator.core.resources import missing, resources_of
from orchestrator.core.round_laws import rounds_breaches
from orchestrator.core.settling import BRANCH_PREFIX
from orchestrator.core.spec import UNLIMITED
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import ENDED, LIVE, SUSPENDED, RunReason, Status
from orchestrator.core.supersteps.laws import all_there, owed, step_laws, tasks_of, tokens_behind

__all__ = ["Watch", "check", "check_facts", "check_node"]

_BUSY = (Status.RUNNING, Status.STOPPING)

Breaches = Iterator[str]
#: Nodes that are not at rest: the others are counted nowhere.
Nodes = Sequence[NodeState]


def check(state: RunState, *, folded: bool = False) -> list[str]:
    """Every law that ``state`` breaks, one sentence each; [] for a state that keeps them all.

    Args:
        folded: the state was folded from records and has not gone on: who waits in which queue is not
            recorded, it is found again when every ready node is tried.
    """
    nodes = state.nodes
    laws = [law for law in _RUN_LAWS if not (folded and law is _starting)]
    others = [node for name, node in nodes.items() if not at_rest(nodes, node) or node.op.name != name]
    broken = [breach for law in laws for breach in law(state, others)]
    for node in others:
        broken += breaches_of(state, node)
    broken += _mirrored(state)
    broken += _acyclic(state)
    return broken


class Watch:
    """Checks a run while it goes on: what each command touched, and everything at every so many commands.

    A run of 10,000 nodes is then checked in time linear in its commands (engine.md, Measuring).
    """

    __slots__ = ("_commands", "_every", "_state")

    def __init__(self, state: RunState, every: int = 100) -> None:
        """``every``: commands between two full checks."""
        self._state, self._every, self._commands = state, every, 0

    def __call__(self, facts: Sequence[Fact]) -> list[str]:
        """What the command that led to ``facts`` has broken, as far as this call looks."""
        self._commands += 1
        state = self._state
        if self._commands % self._every == 0 or state.ended or state.suspended:
            return check(state)
        touched = dict.fromkeys(getattr(fact, "node", None) for fact in facts)
        nodes = (state.nodes.get(name) for name in touched if name is not None)
        return [breach for node in nodes if node is not None for breach in check_node(state, node)]


# --- the run: counters ---------------------------------------------------------------------------


def _counters(state: RunState, nodes: Nodes) -> Breaches:
    """One truth: every counter is what a recount gives (law 1)."""
    statuses = Counter(node.status for node in nodes)
    unplanned = [state.nodes[name] for name in state.nodes.keys() - _planned(state)]
    grown = [node for node in unplanned if node.copies is None]
    successors = {node.superseded_by for node in nodes}
    recount: dict[str, int] = {
        "live": sum(statuses[status] for status in LIVE),
        "running": sum(statuses[status] for status in _BUSY),
        "slots": sum(node.status in _BUSY and node.op.flow is None for node in nodes),
        "including": sum(node.status in _BUSY and node.op.flow is not None for node in nodes),
        "backing_off": statuses[Status.BACKING_OFF],
        "asking": statuses[Status.ASKING],
        "undecided": sum(node.judgement == "undecided" for node in nodes),
        "failed_unhandled": sum(node.status is Status.FAILED and not node.handled for node in nodes),
        "escalating": sum(node.escalation is not None for node in nodes),
        "waiting_steers": sum(steer.delivered_to is None for steer in state.steers),
        "tokens": sum(node.input_tokens + node.output_tokens for node in nodes) + tokens_behind(state),
    }
    for name, count in recount.items():
        if getattr(state, name) != count:
            yield f"counter {name} is {getattr(state, name)}, a recount gives {count}"
    # numbers that are given once and never again: a node that a retry dropped has used its own up
    given = {
        "spawns": sum(node.op.name not in successors and node.op.instance is None for node in grown)
        + sum(node.child_used[0] for node in nodes),
        "injected": sum(node.parent is None for node in grown),
        "escalations": sum(node.superseded_by is not None for node in nodes)
        + sum(node.child_used[1] for node in nodes),
    }
    for name, count in given.items():
        if getattr(state, name) < count or (all_there(state) and getattr(state, name) != count):
            yield f"counter {name} is {getattr(state, name)}, a recount gives {count}"


def _collections(state: RunState, nodes: Nodes) -> Breaches:
    """One truth: every collection names the nodes whose own field says so (law 1)."""
    ready = {node.op.name for node in nodes if node.status is Status.READY and not node.held}
    if set(state.ready) != ready:
        yield f"ready holds {sorted(state.ready)}, by status it is {sorted(ready)}"
    rejected = sorted(node.op.name for node in nodes if node.judgement == "rejected")
    if sorted(state.rejected) != rejected:
        yield f"rejected holds {sorted(state.rejected)}, by judgement it is {rejected}"
    used = Counter(name for node in nodes for name in node.holds)
    if {name: count for name, count in state.used.items() if count} != used:
        yield f"used is {state.used}, what nodes hold gives {dict(used)}"
    written = {key for node in nodes for key in node.writes or ()}
    if set(state.written) != written:
        yield f"written is {sorted(state.written)}, nodes wrote {sorted(written)}"
    children = Counter(node.parent for node in nodes if node.parent is not None)
    named = (state.nodes[name] for name in children if name in state.nodes)
    for node in {node.op.name: node for node in (*nodes, *named)}.values():
        count = children[node.op.name]
        if node.children < count or (not state.epoch and node.children != count):
            yield f"{node.op.name}: children is {node.children}, {count} nodes name it"
    for name, node in state.nodes.items():
        if node.op.name != name:
            yield f"the node under {name!r} calls itself {node.op.name!r}"


def _planned(state: RunState) -> frozenset[str]:
    return frozenset(operation.name for operation in state.plan.operations) | tasks_of(state)


def _mirrored(state: RunState) -> Breaches:
    """Every edge stands once among its source's outs and once among its target's ins."""
    # identity is what is asked here: two equal edges between two nodes are two edges
    nodes = state.nodes.values()
    known = {id(edge) for node in nodes for edge in node.outs if edge.source == node.op.name}
    if known == {id(edge) for node in nodes for edge in node.ins if edge.target == node.op.name} and (
        sum([len(node.outs) for node in nodes]) == sum([len(node.ins) for node in nodes]) == len(known)
    ):
        return
    outs = {id(edge): (edge, node) for node in state.nodes.values() for edge in node.outs}
    ins = {id(edge): (edge, node) for node in state.nodes.values() for edge in node.ins}
    for key, (edge, node) in outs.items():
        if edge.source != node.op.name:
            yield f"edge {edge.source} -> {edge.target} stands among the outs of {node.op.name}"
        if key not in ins:
            yield f"edge {edge.source} -> {edge.target} is unknown to its target"
    for key, (edge, node) in ins.items():
        if edge.target != node.op.name:
            yield f"edge {edge.source} -> {edge.target} stands among the ins of {node.op.name}"
        if key not in outs:
            yield f"edge {edge.source} -> {edge.target} is unknown to its source"


def _acyclic(state: RunState) -> Breaches:
    """No node waits for itself (law 5)."""
    nodes = state.nodes
    places = dict(zip(nodes, range(len(nodes)), strict=True))
    back = (1 for name, place in places.items() for edge in nodes[name].outs if places[edge.target] <= place)
    if next(back, None) is None:
        # as in most graphs: each edge leads to a node that came later
        return
    path = cycle_in({name: [edge.target for edge in node.outs] for name, node in nodes.items()})
    if path is not None:
        yield f"acyclic: {' -> '.join(path)}"


# --- the run: caps, starting, stopping -----------------------------------------------------------


def _capacity(state: RunState, resource: str) -> int:
    """Of a resource that nothing declares there is none."""
    return 1 if resource.startswith(BRANCH_PREFIX) else state.plan.limits.get(resource, 0)


def _caps(state: RunState, _nodes: Nodes) -> Breaches:
    """Caps hold at every prefix (law 4)."""
    budget = state.budget
    limit = UNLIMITED if budget.concurrency is None else budget.concurrency
    for what, count, cap in (
        ("spawns", state.spawns, budget.spawns),
        ("escalations", state.escalations + state.escalating, budget.escalations),
        ("slots", state.slots, limit),
        ("child runs", state.including, limit),
    ):
        if count > cap:
            yield f"cap: {count} {what}, at most {cap}"
    for resource, count in state.used.items():
        if not 0 <= count <= _capacity(state, resource):
            yield f"cap: {count} of {resource} taken, there are {_capacity(state, resource)}"


def _starting(state: RunState, _nodes: Nodes) -> Breaches:
    """Nothing ready can start, and each knows whom to be woken by (no wake-up is lost)."""
    if state.paused or state.draining or state.cancelling or over_budget(state):
        return
    if state.ended or state.suspended:
        return
    limit = UNLIMITED if state.budget.concurrency is None else state.budget.concurrency
    full = {resource for resource, count in state.used.items() if count >= _capacity(state, resource)}
    full |= {place for place, count in ((SLOT, state.slots), (CHILD, state.including)) if count >= limit}
    # who waits for a slot only will take what it needs with it, and passes its call on if it does not
    waiting = (*state.parked.get(SLOT, ()), *state.parked.get(CHILD, ()))
    called = [state.nodes[name] for name in waiting if name in state.ready]
    spoken_for = {resource for node in called for resource in resources_of(state, node)}
    heard = {name for resource in full | spoken_for for name in state.parked.get(resource, ())}
    for name in state.ready:
        place = place_of(state.nodes[name])
        if place not in full and missing(state, state.nodes[name]) is None:
            free = limit - (state.slots if place == SLOT else state.including)
            yield f"{name} is ready, {free} slots are free and nothing holds it"
        elif name not in heard:
            yield f"{name} is ready and waits in no queue that will be woken"


def _stopping(state: RunState, nodes: Nodes) -> Breaches:
    """Ended means that every node settled; a run that cannot go on says so (laws 11, 12)."""
    if state.ended and state.suspended:
        yield f"the run is ended ({state.ended}) and suspended ({state.suspended})"
    if state.ended:
        if state.ended not in ENDED:
            yield f"{state.ended} is no reason to end"
        if state.live:
            yield f"the run ended with {state.live} nodes unsettled"
        if state.undecided and not state.cancelling:
            yield f"the run ended with {state.undecided} gates undecided"
        if state.ended == RunReason.COMPLETED and (state.failed_unhandled or state.rejected):
            yield "the run completed with an unhandled failure or a rejecting gate"
    elif state.suspended:
        if state.suspended not in SUSPENDED:
            yield f"{state.suspended} is no reason to suspend"
        if state.running:
            yield f"the run is suspended while {state.running} nodes run"
        held = {n.op.name for n in nodes if n.status in LIVE or n.judgement == "undecided"}
        if set(state.waiters) != held:
            yield f"suspended with waiters {sorted(state.waiters)}, unsettled are {sorted(held)}"
    elif state.run and not (state.running or state.backing_off or state.paused or _waits_for_a_person(state)):
        yield "nothing runs, nothing is due, and the run has neither ended nor been suspended"


def _waits_for_a_person(state: RunState) -> bool:
    if not state.asking:
        return owed(state)
    asked = (one for node in state.nodes.values() for one in (node.questions or {}).values())
    return state.waits_for_answers or any(one.answer is None and one.expires_at for one in asked)


def _rounds(state: RunState, _nodes: Nodes) -> Breaches:
    return rounds_breaches(state)


def _steps(state: RunState, _nodes: Nodes) -> Breaches:
    return step_laws(state)


_RUN_LAWS: Sequence[Callable[[RunState, Nodes], Breaches]] = (
    *(_counters, _collections, _caps, _starting, _stopping),
    *(_rounds, _steps),
)
