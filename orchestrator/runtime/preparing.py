"""Between the start of an attempt and its body: a branch to speak on, and notes to attend to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.agents.branches import answered
from orchestrator.core.commands import BranchJoined, BranchMade, SaidIn, TakeSteers
from orchestrator.core.state import NodeState, SteerState
from orchestrator.core.status import Status
from orchestrator.runtime.branching import encoded, takes_branch
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.values import NotExactError

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["leave_branch", "needs_preparation", "prepare", "said_by"]


def needs_preparation(engine: Engine, node: NodeState) -> bool:
    """True if the node takes a branch or there are notes to deliver."""
    state = engine.state
    return state.waiting_steers > 0 or takes_branch(node) or bool(state.steers and _notes_of(engine, node))


def _notes_of(engine: Engine, node: NodeState) -> list[SteerState]:
    """What the present attempt was told: also what it has from one that was given back."""
    name, attempt = node.op.name, node.attempt
    return [n for n in engine.state.steers if n.delivered_to == name and n.attempt == attempt]


async def prepare(engine: Engine, node: NodeState, turn: RoleTurn) -> bool:
    """Give the turn its branch and its notes; False if it was stopped meanwhile."""
    if takes_branch(node):
        await _take_branch(engine, node, turn)
    if engine.state.waiting_steers:
        engine.tell(TakeSteers(node.op.name, turn.attempt))
        await engine.kernel.durable(engine.kernel.submitted)
    taken = _notes_of(engine, node)
    if taken:
        turn.notes = [(note.time, note.text) for note in taken]
        for note in taken:
            turn.tell(note.text)
    if node.status is Status.RUNNING and node.attempt == turn.attempt:
        return True
    engine.stopped(node, turn, ignored=False)
    return False


async def _take_branch(engine: Engine, node: NodeState, turn: RoleTurn) -> None:
    taken = await engine.branches.take(engine.state, node)
    turn.branch, turn.spoken_as = taken.branch, taken.name
    values = [encoded(taken.unrecorded)] if taken.unrecorded else []
    if taken.made:
        position, fresh = (0 if values else None), node.op.fresh
        made = BranchMade(taken.name, node.op.name, taken.source, position, fresh)
        engine.tell(made, values)
    elif values:
        engine.tell(BranchJoined(taken.name, node.op.name, 0), values)
    turn.chunks = len(engine.state.conversations.get(taken.name, ()))


def said_by(turn: RoleTurn, values: list[bytes], *, failed: bool) -> tuple[SaidIn, ...]:
    """What a turn said on its branch, for the command that settles it; the positions are in ``values``.

    Of a failed turn what was answered is kept. ``turn.kept`` holds how many messages stay.

    Raises:
        NotExactError: a message holds what JSON cannot; of a failed turn such a tail is left out.
    """
    turn.kept = 0
    tail = () if turn.branch is None else tuple(turn.branch.tail)
    if not tail:
        return ()
    count = 0 if turn.traceless else answered(tail) if failed else len(tail)
    said: list[SaidIn] = []
    for part, kept in ((tail[:count], True), (tail[count:], False)):
        if not part:
            continue
        try:
            values.append(encoded(part))
        except NotExactError:
            if not failed:
                raise
            return ()
        said.append(SaidIn(turn.spoken_as, len(values) - 1, kept))
    turn.kept = count
    return tuple(said)


def leave_branch(engine: Engine, turn: RoleTurn) -> None:
    """The turn is over, in whatever way: its branch keeps what is on record of it."""
    if turn.branch is not None and turn.branch.taken:
        chunks = engine.state.conversations.get(turn.spoken_as, ())
        engine.branches.leave(turn.branch, turn.kept if len(chunks) > turn.chunks else 0)
