"""The laws that can be seen in a state: ``check(state)`` lists what is broken, [] if nothing is.

The checker counts everything anew and trusts no counter. It runs after every command in tests, after
every recovery and in ``doctor``; :class:`Watch` is its cheap form for long runs. What can only be seen
in the order of facts is in ``fact_laws``, whose :func:`check_facts` is named here too.

States are checked between commands: inside a decision a node may be due and not judged yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from orchestrator.core.dispatch import SLOT, over_budget
from orchestrator.core.fact_laws import check_facts
from orchestrator.core.facts import Fact
from orchestrator.core.order import cycle_in
from orchestrator.core.resources import missing, resources_of
from orchestrator.core.round_laws import refused_breaches, rounds_breaches
from orchestrator.core.settling import BRANCH_PREFIX
from orchestrator.core.spec import NAME_LIMIT, UNLIMITED, Retry
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import ENDED, LIVE, SUSPENDED, TERMINAL, RunReason, Status
from orchestrator.core.supersteps.laws import all_there, owed, step_laws, tasks_of, tokens_behind

__all__ = ["Watch", "check", "check_facts", "check_node"]

#: So many tiers above where it began may one piece of work stand (kernel.md 4).
_TIERS = 2

_BUSY = (Status.RUNNING, Status.STOPPING)
#: Statuses in which a node has not let go of what depends on it, whatever its gate says.
#: Made once: a large run that is resumed asks millions of times.
_SETTLED_OR_WAITING = TERMINAL | {Status.WAITING}
_NO_REQUEST = TERMINAL | {Status.WAITING, Status.BACKING_OFF}
_UNDER_WAY = frozenset({*_BUSY, Status.ASKING, Status.BACKING_OFF})
_BUSY_OR_SETTLED = TERMINAL | set(_BUSY)
_ONCE = Retry().attempts
_NEVER_STARTED = (Status.WAITING, Status.VETOED, Status.CANCELLED)

Breaches = Iterator[str]


def check(state: RunState, *, folded: bool = False) -> list[str]:
    """Every law that ``state`` breaks, one sentence each; [] for a state that keeps them all.

    Args:
        folded: the state was folded from records and has not gone on: who waits in which queue is not
            recorded, it is found again when every ready node is tried.
    """
    laws = [law for law in _RUN_LAWS if not (folded and law is _starting)]
    broken = [breach for law in laws for breach in law(state)]
    for node in state.nodes.values():
        broken += check_node(state, node)
    broken += _mirrored(state)
    path = cycle_in({name: [edge.target for edge in node.outs] for name, node in state.nodes.items()})
    if path is not None:
        broken.append(f"acyclic: {' -> '.join(path)}")
    return broken


def check_node(state: RunState, node: NodeState) -> list[str]:
    """The laws of one node: linear in its edges."""
    return [f"{node.op.name}: {breach}" for law in _NODE_LAWS for breach in law(state, node)]


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


def _counters(state: RunState) -> Breaches:
    """One truth: every counter is what a recount gives (law 1)."""
    nodes = state.nodes.values()
    statuses = Counter(node.status for node in nodes)
    planned = _planned(state)
    grown = [node for node in nodes if node.op.name not in planned and node.copies is None]
    successors = {node.superseded_by for node in nodes}
    recount: dict[str, int] = {
        "live": sum(statuses[status] for status in LIVE),
        "running": sum(statuses[status] for status in _BUSY),
        "slots": sum(statuses[status] for status in _BUSY),
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


def _collections(state: RunState) -> Breaches:
    """One truth: every collection names the nodes whose own field says so (law 1)."""
    nodes = state.nodes.values()
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
    for node in nodes:
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


# --- the run: caps, starting, stopping -----------------------------------------------------------


def _capacity(state: RunState, resource: str) -> int:
    """Of a resource that nothing declares there is none."""
    return 1 if resource.startswith(BRANCH_PREFIX) else state.plan.limits.get(resource, 0)


def _caps(state: RunState) -> Breaches:
    """Caps hold at every prefix (law 4)."""
    budget = state.budget
    limit = UNLIMITED if budget.concurrency is None else budget.concurrency
    for what, count, cap in (
        ("spawns", state.spawns, budget.spawns),
        ("escalations", state.escalations + state.escalating, budget.escalations),
        ("slots", state.slots, limit),
    ):
        if count > cap:
            yield f"cap: {count} {what}, at most {cap}"
    for resource, count in state.used.items():
        if not 0 <= count <= _capacity(state, resource):
            yield f"cap: {count} of {resource} taken, there are {_capacity(state, resource)}"


def _starting(state: RunState) -> Breaches:
    """Nothing ready can start, and each knows whom to be woken by (no wake-up is lost)."""
    if state.paused or state.draining or state.cancelling or over_budget(state):
        return
    if state.ended or state.suspended:
        return
    limit = UNLIMITED if state.budget.concurrency is None else state.budget.concurrency
    full = {resource for resource, count in state.used.items() if count >= _capacity(state, resource)}
    if state.slots >= limit:
        full.add(SLOT)
    # who waits for a slot only will take what it needs with it, and passes its call on if it does not
    called = [state.nodes[name] for name in state.parked.get(SLOT, ()) if name in state.ready]
    spoken_for = {resource for node in called for resource in resources_of(state, node)}
    heard = {name for resource in full | spoken_for for name in state.parked.get(resource, ())}
    for name in state.ready:
        if SLOT not in full and missing(state, state.nodes[name]) is None:
            yield f"{name} is ready, {limit - state.slots} slots are free and nothing holds it"
        elif name not in heard:
            yield f"{name} is ready and waits in no queue that will be woken"


def _stopping(state: RunState) -> Breaches:
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
        held = {n.op.name for n in state.nodes.values() if n.status in LIVE or n.judgement == "undecided"}
        if set(state.waiters) != held:
            yield f"suspended with waiters {sorted(state.waiters)}, unsettled are {sorted(held)}"
    elif state.run and not (state.running or state.backing_off or state.paused or _waits_for_a_person(state)):
        yield "nothing runs, nothing is due, and the run has neither ended nor been suspended"


def _waits_for_a_person(state: RunState) -> bool:
    if not state.asking:
        return owed(state)
    asked = (one for node in state.nodes.values() for one in (node.questions or {}).values())
    return state.waits_for_answers or any(one.answer is None and one.expires_at for one in asked)


_RUN_LAWS: Sequence[Callable[[RunState], Breaches]] = (
    *(_counters, _collections, _caps, _starting, _stopping),
    *(rounds_breaches, step_laws),
)


# --- one node ------------------------------------------------------------------------------------


def _pending(state: RunState, node: NodeState) -> Breaches:
    """A node waits for exactly the predecessors that have not let go."""
    owed = sum(not state.nodes[edge.source].released for edge in node.ins)
    if node.pending != owed:
        yield f"pending is {node.pending}, {owed} predecessors have not let go"
    if node.status is Status.WAITING and node.pending == 0:
        yield "it waits and nothing is owed to it"
    if node.pending and node.status not in _SETTLED_OR_WAITING:
        yield f"it is {node.status.value} and {node.pending} predecessors have not let go"
    if node.early and node.status not in TERMINAL:
        yield "it counts as settled early and has not settled"


def _letting_go(_state: RunState, node: NodeState) -> Breaches:
    """A node has let go when it has settled, an undecided gate not even then (law 7)."""
    settled = node.status in TERMINAL
    if node.released and not settled:
        yield f"it has let go and is {node.status.value}"
    if settled and not node.released and node.judgement != "undecided":
        yield "it has settled and has not let go"
    if node.judgement == "undecided" and node.released:
        yield "it is undecided and has let go"
    if node.judgement is not None and (node.op.gate is None or not settled):
        yield f"it is {node.judgement} and {'no gate' if node.op.gate is None else 'has not settled'}"
    judged = node.status in (Status.COMPLETED, Status.FAILED)
    if node.op.gate is not None and judged and node.judgement is None:
        yield "it is a gate that settled and was not judged"


def _veto(state: RunState, node: NodeState) -> Breaches:
    """Nothing below a rejecting gate or a vetoed node has started (law 6)."""
    if (node.status is Status.VETOED) != bool(node.vetoed_by) and not node.restored:
        yield f"it is {node.status.value} with vetoed_by {node.vetoed_by}"
    if node.status is not Status.VETOED and node.judgement != "rejected":
        return
    for edge in node.outs:
        target = state.nodes[edge.target]
        started = target.attempt > target.given_back
        if not target.restored and (started or target.status not in _NEVER_STARTED):
            yield f"{edge.target} depends on it and is {target.status.value} at attempt {target.attempt}"


def _outcome(_state: RunState, node: NodeState) -> Breaches:
    """What a node holds is what its status allows."""
    status = node.status
    if node.value is not None and status not in (Status.COMPLETED, Status.ESCALATED):
        yield f"it is {status.value} and has a value"
    if status is Status.FAILED and node.error is None:
        yield "it failed without an error"
    if status is Status.COMPLETED and node.error is not None:
        yield "it completed with an error"
    if node.handled and status is not Status.FAILED:
        yield f"its failure is handled and it is {status.value}"
    if status is Status.STOPPING and node.settles not in (Status.CANCELLED, Status.FAILED, Status.READY):
        yield f"it is stopping and settles as {node.settles!r}"
    if node.escalation is not None and status in _NO_REQUEST:
        yield f"it is {status.value} and still asks for a higher tier"
    if len(node.ledger) != node.emitted:
        yield f"{node.emitted} emissions were accepted, {len(node.ledger)} are in the ledger"
    if node.ledger and [entry.number for entry in node.ledger] != list(range(1, node.emitted + 1)):
        yield "the numbers of its ledger have a gap"
    for question in (node.questions or {}).values():
        if question.answer is None and status is Status.READY:
            yield f"it is ready and {question.key!r} has no answer"


def _attempts(_state: RunState, node: NodeState) -> Breaches:
    """Attempts are numbered from 1, bounded by the retry, and hold what they took only while they run."""
    tries = _ONCE if node.op.retry is None else node.op.retry.attempts
    if node.attempt - node.given_back > tries:
        yield f"attempt {node.attempt} with {node.given_back} given back, at most {tries}"
    if node.attempt < 1 and node.status in _UNDER_WAY:
        yield f"it is {node.status.value} before its first attempt"
    if node.status is Status.WAITING and node.attempt > node.given_back:
        yield f"it waits at attempt {node.attempt}"
    if not node.holds:
        return
    kept = [name for name in node.holds if name.startswith(BRANCH_PREFIX)]
    if node.status in TERMINAL:
        yield f"it has settled and holds {node.holds}"
    elif node.status not in _BUSY_OR_SETTLED and len(kept) != len(node.holds):
        yield f"it is {node.status.value} and holds {node.holds}"


def _family(state: RunState, node: NodeState) -> Breaches:
    """Names, parents, depth and tiers (laws 3 and 4)."""
    if len(node.op.name) > NAME_LIMIT:
        yield f"its name has {len(node.op.name)} characters, at most {NAME_LIMIT}"
    parent = None if node.parent is None else state.nodes.get(node.parent)
    if node.parent is not None and parent is None:
        yield f"its parent {node.parent!r} is no node"
    if parent is None:
        if node.depth or node.origin != node.op.name:
            yield f"it has no parent, depth {node.depth} and origin {node.origin!r}"
    else:
        spliced = parent.superseded_by == node.op.name
        if node.depth != parent.depth + (not spliced) or node.origin != parent.origin:
            yield f"depth {node.depth} and origin {node.origin!r} do not follow from {node.parent}"
        if spliced and node.rungs != parent.rungs + 1:
            yield f"it is {node.rungs} tiers up, its emitter {parent.rungs}"
    if node.generations > state.budget.depth:
        yield f"it is {node.generations} generations down, at most {state.budget.depth}"
    if node.rungs > _TIERS:
        yield f"it is {node.rungs} tiers up, at most {_TIERS}"
    if node.superseded_by is not None and node.status is not Status.ESCALATED:
        yield f"{node.superseded_by} took its place and it is {node.status.value}"
    if node.superseded_by is not None and node.superseded_by not in state.nodes:
        yield f"{node.superseded_by} took its place and is no node"
    if node.status is Status.ESCALATED and node.superseded_by is None and not node.restored:
        yield "it escalated and nobody took its place"


def _instances(state: RunState, node: NodeState) -> Breaches:
    """A ``for_each`` node makes no attempt, has at most ``max`` instances and settles after them."""
    each, one = node.op.for_each, node.op.instance
    if each is None:
        if node.opened or node.left_out:
            yield "it has instances and no for_each"
    elif node.attempt or node.status not in _SETTLED_OR_WAITING:
        yield f"it has for_each and is {node.status.value} at attempt {node.attempt}"
    elif node.children > each.max:
        yield f"it has {node.children} instances, at most {each.max}"
    elif node.opened and node.status in (Status.COMPLETED, Status.FAILED) and not node.restored:
        open_ = [edge.source for edge in node.ins if state.nodes[edge.source].status not in TERMINAL]
        if open_ and node.status is Status.COMPLETED:
            yield f"it has its list and {', '.join(open_)} have not settled"
    if one is not None and (one.of not in state.nodes or one.index < 1):
        yield f"it is instance {one.index} of {one.of!r}"


_NODE_LAWS: Sequence[Callable[[RunState, NodeState], Breaches]] = (
    _pending,
    _letting_go,
    _veto,
    refused_breaches,
    _outcome,
    _attempts,
    _family,
    _instances,
)
