"""How a node leaves a status: counters, slots, resources, and letting go of its dependents."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = [
    "BRANCH_PREFIX",
    "accept_failures",
    "count_out",
    "drop_request",
    "free",
    "leave",
    "leave_status",
    "let_go",
]

#: Resources with this prefix are held from start to settling, asking and backing off included.
BRANCH_PREFIX = "branch:"

_BUSY = (Status.RUNNING, Status.STOPPING)
_RUNNING = Status.RUNNING


def leave_status(state: RunState, node: NodeState) -> None:
    """Take the node out of the counters of its present status."""
    status = node.status
    if status in _BUSY:
        state.running -= 1
        if node.op.flow is None:
            state.slots -= 1
        else:
            state.including -= 1
        if node.holds:
            _give_back(state, node, keep=BRANCH_PREFIX)
    elif status is Status.READY:
        # one that waits for a suspended child run is ready and in no queue
        state.ready.pop(node.op.name, None)
        node.held = ""
    elif status is Status.BACKING_OFF:
        state.backing_off -= 1
    elif status is Status.ASKING:
        state.asking -= 1
        node.asked_for += state.at - node.asked_at
        asked = node.questions or {}
        # what nobody answered is not asked any more
        node.questions = {key: one for key, one in asked.items() if one.answer is not None}


def leave(state: RunState, node: NodeState, status: Status, at: int) -> None:
    """Settle the node: it keeps nothing and is never live again in this generation."""
    if node.status is _RUNNING:
        # by far the most frequent way to settle
        state.running -= 1
        if node.op.flow is None:
            state.slots -= 1
        else:
            state.including -= 1
    else:
        leave_status(state, node)
    if node.holds:
        _give_back(state, node, keep=None)
    node.status = status
    node.settled_at = at
    state.live -= 1
    early = node.pending > 0
    if node.early is not early:
        # a field is read for much less than it is written, and most nodes settle in time
        node.early = early
        state.cut_short = state.cut_short or early
    if node.emitted or node.sightings is not None:
        # identities only tell repeated emissions of a running node apart
        node.identities = node.sightings = None
        if node.escalation is not None:
            drop_request(state, node)
    if node.refusals:
        node.refusals = None


def drop_request(state: RunState, node: NodeState) -> None:
    """The attempt is over: its request for a higher tier was carried out, or counts no more."""
    if node.escalation is not None:
        node.escalation = None
        state.escalating -= 1


def let_go(state: RunState, node: NodeState) -> None:
    """Nobody waits for this node any more (a held gate has settled and has not let go)."""
    node.released = True
    nodes = state.nodes
    for edge in node.outs:
        nodes[edge.target].pending -= 1


def accept_failures(state: RunState, names: Iterable[str]) -> None:
    """Somebody goes on with these failures: they do not make the run fail."""
    for name in names:
        source = state.nodes[name]
        if not source.handled:
            source.handled = True
            state.failed_unhandled -= 1


def count_out(state: RunState, node: NodeState) -> None:
    """The node's present attempt was no try: it is not counted, and the next one is told what it was told."""
    node.given_back += 1
    for note in state.steers:
        note.left_by(node.op.name, node.attempt)


def free(state: RunState, node: NodeState) -> None:
    """The node holds nothing any more, its branch included."""
    if node.holds:
        _give_back(state, node, keep=None)


def _give_back(state: RunState, node: NodeState, keep: str | None) -> None:
    kept = tuple(name for name in node.holds if keep is not None and name.startswith(keep))
    for name in node.holds:
        if name not in kept:
            state.used[name] -= 1
    node.holds = kept
