"""What the Pregel machine decides: beginning and ending steps, taking inputs, stopping and going on.

A task is a node of the run, so its life (attempts, backoff, questions, stopping) is decided by the rules
that every node shares. What stands here is what happens between tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from emissions import Refused
from orchestrator.core.closing import conclude, suspend_run
from orchestrator.core.decisions import Decision
from orchestrator.core.facts import NodeReady, RunEnded, RunSuspended
from orchestrator.core.state import RunState
from orchestrator.core.status import LIVE, RunReason, Status
from orchestrator.core.supersteps import facts as s
from orchestrator.core.supersteps.apply import names_of
from orchestrator.core.supersteps.commands import Fault
from orchestrator.core.supersteps.frontier import Selection, select, waiting_joins
from orchestrator.core.supersteps.growing import withdraw
from orchestrator.core.supersteps.state import Activation, Leaving, StepState

__all__ = [
    "advance",
    "boundary",
    "boundary_failed",
    "follow",
    "left",
    "refuse",
    "rest",
    "save",
    "steps_of",
    "stop_late",
    "suspend",
]

#: Where a task leads whose gate rejected (engine.md 31).
_NOWHERE: Final = Leaving(replaces=True)


def steps_of(state: RunState) -> StepState:
    """The stepped part of a run's state."""
    assert state.steps is not None
    return state.steps


# --- a step's end --------------------------------------------------------------------------------


def left(decision: Decision) -> None:
    """A task completed: where it leads is on record with it, unless its static edges are all."""
    command = decision.command
    node = decision.state.nodes.get(getattr(command, "node", None) or "")
    if node is None or node.status is not Status.COMPLETED or node.attempt != getattr(command, "attempt", -1):
        return
    routes = getattr(command, "routes", ())
    replaces, handled = getattr(command, "replaces", False), getattr(command, "handled", None)
    if routes or replaces or handled is not None:
        decision.fact(s.RouteSelected(node.op.name, routes, replaces, handled))
    if cached := getattr(command, "cached", ""):
        decision.fact(s.TaskCached(node.op.name, cached))


def boundary(decision: Decision, patches: Sequence[s.Patch]) -> None:
    """The step's writes are folded: the state changes, the frontier is chosen, the checkpoint is saved."""
    state = decision.state
    steps = steps_of(state)
    tasks: list[tuple[Activation, Leaving | None]] = []
    for name, task in steps.active.items():
        if state.nodes[name].judgement == "rejected":
            withdraw(decision, name, "its gate rejected")
            tasks.append((task, _NOWHERE))
        else:
            tasks.append((task, steps.leaving.get(name)))
    selection = select(steps, tasks)
    # what an operator's update let follow while the step went on
    entries = tuple(selection.entries)
    if steps.frontier:
        more = [_kept(steps, index) for index in range(len(steps.frontier))]
        known = {entry.node for entry in entries if not entry.send}
        entries = (*entries, *(one for one in more if one.send or one.node not in known))
    done = [task.node for task in steps.active.values()] if steps.after else []
    if patches:
        decision.fact(s.StateUpdated("step", steps.step, tuple(patches)))
    decision.fact(
        s.CheckpointSaved(
            steps.checkpoint + 1, steps.step, "step", entries, selection.arrivals, selection.deferred
        )
    )
    decision.fact(s.StepCompleted(steps.step))
    hit = tuple(dict.fromkeys(node for node in done if node in steps.after or "*" in steps.after))
    if hit and (entries or selection.deferred):
        _hold(decision, "after", hit)


def boundary_failed(decision: Decision, faults: Mapping[str, Fault]) -> None:
    """Writes do not fit: the step's other results stay pending, and the run fails by name."""
    for task, fault in faults.items():
        decision.fact(s.WriteRefused(task, fault.key, fault.error))
    first = next(iter(faults.values())).error
    decision.fact(RunEnded(RunReason.FAILED, f"{first.type}: {first.message}"))


def save(decision: Decision, source: str, entries: Sequence[s.Entry], *, more: bool = False) -> None:
    """A checkpoint that no step made: its frontier is given."""
    steps = steps_of(decision.state)
    number = steps.checkpoint + 1
    decision.fact(s.CheckpointSaved(number, steps.step, source, tuple(entries), more=more))


def follow(decision: Decision, node: str, entries: Sequence[s.Entry], chosen: Selection) -> None:
    """Between two steps: ``node`` leaves the frontier, and what follows it joins."""
    steps = steps_of(decision.state)
    kept = tuple(_kept(steps, index) for index, one in enumerate(steps.frontier) if one.node != node)
    known = {entry.node for entry in kept if not entry.send}
    added = tuple(entry for entry in entries if entry.send or entry.node not in known)
    decision.fact(
        s.CheckpointSaved(
            steps.checkpoint + 1, steps.step, "update", (*kept, *added), chosen.arrivals, chosen.deferred
        )
    )


def _kept(steps: StepState, index: int) -> s.Entry:
    """An entry that stays as it is, argument included."""
    one = steps.frontier[index]
    return s.Entry(one.node, one.send, index=index, key=one.key, stays=True)


# --- going on ------------------------------------------------------------------------------------


def advance(decision: Decision) -> None:
    """After a command: fold a step that has settled, begin the next, or say why nothing goes on."""
    state = decision.state
    if state.ended or state.suspended or not state.run:
        return
    steps = steps_of(state)
    if not steps.given:
        return
    if not steps.open:
        _begin(decision, steps)
    elif state.live or state.failed_unhandled or state.undecided or state.cancelling:
        if not state.running:
            conclude(decision)
    elif steps.refused:
        first = next(iter(steps.refused.values()))[1]
        decision.fact(RunEnded(RunReason.FAILED, f"{first.type}: {first.message}"))
    elif not steps.settled:
        decision.fact(s.StepSettled(steps.step))


def _begin(decision: Decision, steps: StepState) -> None:
    state = decision.state
    if not steps.frontier:
        _finish(decision, steps)
        return
    if state.cancelling:
        decision.fact(RunEnded(RunReason.CANCELLED, state.cancel_detail))
        return
    if state.draining:
        decision.fact(RunSuspended(state.draining, {}, _next(steps)))
        return
    if state.paused:
        return
    over = _over_budget(state, steps)
    if over:
        decision.fact(RunSuspended(RunReason.BUDGET_EXHAUSTED, {}, over))
        return
    if steps.before and not steps.held:
        found = [one.node for one in steps.frontier if one.node in steps.before or "*" in steps.before]
        if found:
            _hold(decision, "before", tuple(dict.fromkeys(found)))
            return
    names = names_of(steps.frontier, steps.step + 1)
    decision.fact(s.StepStarted(steps.step + 1, tuple(names)))
    for name in names:
        decision.recommend(state.nodes[name], Status.READY, NodeReady(name))


def _hold(decision: Decision, when: str, nodes: tuple[str, ...]) -> None:
    decision.fact(s.BreakpointReached(when, nodes))
    decision.fact(RunSuspended(RunReason.INTERRUPTED, {}, f"breakpoint {when} {', '.join(nodes)}"))


def _finish(decision: Decision, steps: StepState) -> None:
    if steps.agents.rejected:
        decision.fact(RunEnded(RunReason.GATE_REJECTED, ", ".join(steps.agents.rejected)))
        return
    waiting = [f"{target} waits for {', '.join(missing)}" for target, missing in waiting_joins(steps)]
    if waiting:
        decision.fact(RunSuspended(RunReason.STUCK, {}, "; ".join(waiting)))
    else:
        conclude(decision)


def _next(steps: StepState) -> str:
    names = ", ".join(dict.fromkeys(one.node for one in steps.frontier))
    return f"next: {names}"[:500]


def _over_budget(state: RunState, steps: StepState) -> str:
    """The name of the limit that the next step would exceed, or nothing."""
    budget = state.budget
    if budget.steps is not None and steps.steps + 1 > budget.steps:
        return "steps"
    if budget.tasks is not None and steps.tasks + steps.children.tasks + len(steps.frontier) > budget.tasks:
        return "tasks"
    if budget.visits is not None:
        coming: dict[str, int] = {}
        for one in steps.frontier:
            coming[one.node] = coming.get(one.node, 0) + 1
        for node, count in coming.items():
            if steps.visits.get(node, 0) + count > budget.visits:
                return "visits"
    return ""


def rest(decision: Decision) -> None:
    """After an edit of a stopped thread: it stops again, and says what it waits for."""
    state = decision.state
    steps = steps_of(state)
    if steps.open and (state.live == 0 and (state.failed_unhandled or steps.refused)):
        decision.fact(RunEnded(RunReason.FAILED, "edited; what failed is still to be run again"))
    elif steps.open and state.asking:
        suspend(decision, RunReason.AWAITING_ANSWER, "")
    elif steps.open and state.undecided:
        suspend(decision, RunReason.GATE_UNDECIDED, "")
    elif steps.open or steps.frontier or steps.deferred:
        suspend(decision, RunReason.INTERRUPTED, _next(steps) if steps.frontier else "")
    else:
        decision.fact(RunEnded(RunReason.COMPLETED))


def suspend(decision: Decision, reason: str, detail: str) -> None:
    """Stop with what is unsettled named."""
    waiters = {
        name: "an answer" if node.status is Status.ASKING else "the run to go on"
        for name, node in decision.state.nodes.items()
        if node.status in LIVE or node.judgement == "undecided"
    }
    decision.fact(RunSuspended(reason, waiters, detail))


def refuse(decision: Decision, detail: str) -> None:
    """Answer a command that cannot be carried out; nothing has changed."""
    decision.receipts.append(Refused("invalid", detail))


def stop_late(decision: Decision) -> None:
    """The grace that running siblings of a failed task have is over: they are given back."""
    state = decision.state
    if state.failed_unhandled and not state.cancelling and not state.draining:
        suspend_run(decision, RunReason.DRAINED, "a sibling failed, and the grace is over")
