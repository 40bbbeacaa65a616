"""The laws of one node: what is broken in it, each linear in its edges.

Most nodes of a large run have completed without anything out of the ordinary. :func:`at_rest` knows them by
one look; it says no where it is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from orchestrator.core.round_laws import refused_breaches
from orchestrator.core.settling import BRANCH_PREFIX
from orchestrator.core.spec import NAME_LIMIT, Operation, Retry
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import TERMINAL, Status

__all__ = ["at_rest", "breaches_of", "check_node"]

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
_COMPLETED = Status.COMPLETED

Breaches = Iterator[str]


def check_node(state: RunState, node: NodeState) -> list[str]:
    """The laws of one node: linear in its edges."""
    return [] if at_rest(state.nodes, node) else breaches_of(state, node)


def breaches_of(state: RunState, node: NodeState) -> list[str]:
    """What every law says of one node."""
    return [f"{node.op.name}: {breach}" for law in _NODE_LAWS for breach in law(state, node)]


def at_rest(nodes: Mapping[str, NodeState], node: NodeState) -> bool:
    """True for a planned node that completed at its first attempt and has nothing that a law speaks of.

    No law of one node is broken in it. It counts nowhere but among the completed, and in no collection.
    """
    name = node.op.name
    if node.status is not _COMPLETED or not node.released or node.pending or node.attempt != 1:
        return False
    if node.ledger or node.emitted or node.holds or node.children or node.handled or node.vetoed_by:
        return False
    if node.refused or node.spent or node.opened or node.left_out or node.rungs or node.given_back:
        return False
    if node.depth or node.elements_above or node.questions or node.writes or node.generation != 1:
        return False
    if (
        node.parent is not None
        or node.copies is not None
        or node.judgement is not None
        or node.error is not None
        or node.escalation is not None
        or node.superseded_by is not None
        or node.origin != name
        or node.child_used != _NONE_USED
        or node.input_tokens
        or node.output_tokens
        or not _ordinary(node.op)
    ):
        return False
    for edge in node.ins:  # noqa: SIM110 (a generator for each of a million nodes costs more than this)
        if not nodes[edge.source].released:
            return False
    return True


_NONE_USED = (0, 0)


def _ordinary(operation: Operation) -> bool:
    """No gate, no list, not one of a list; it may be tried once, and its name keeps to the limit."""
    return (
        operation.gate is None
        and (operation.retry is None or operation.retry.attempts >= _ONCE)
        and operation.for_each is None
        and operation.instance is None
        and len(operation.name) <= NAME_LIMIT
    )


def _pending(state: RunState, node: NodeState) -> Breaches:
    """A node waits for exactly the predecessors that have not let go."""
    owed = sum(not state.nodes[edge.source].released for edge in node.ins)
    if node.pending != owed:
        yield f"pending is {node.pending}, {owed} predecessors have not let go"
    # a task that is to run again waits for its thread to go on
    rests = state.steps is not None and state.suspended
    if node.status is Status.WAITING and node.pending == 0 and not rests:
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
