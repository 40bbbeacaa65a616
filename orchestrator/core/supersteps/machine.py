"""The Pregel machine: ``handle(command) -> decision``, beside the graph machine and behind the same kernel.

A thread is one run. Its steps admit tasks, which are nodes of the run without edges; the rules of every node
decide their lives. When the last task of a step has settled the runtime folds its writes and says
``Boundary`` with the channels that change: the core calls no function of a user, so a replay needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from emissions import Refused
from orchestrator.core import commands as c
from orchestrator.core import control
from orchestrator.core.closing import stop_run
from orchestrator.core.decisions import Decision
from orchestrator.core.facts import GraphPlanned, NodeCompleted, NodeReopened, RunResumed, RunStarted
from orchestrator.core.machine import HANDLERS, GraphMachine, control_in
from orchestrator.core.resuming import resume
from orchestrator.core.status import LIVE, RunReason, Status
from orchestrator.core.supersteps import commands as sc
from orchestrator.core.supersteps import facts as s
from orchestrator.core.supersteps import rules
from orchestrator.core.supersteps.frontier import select
from orchestrator.core.supersteps.growing import withdraw
from orchestrator.core.supersteps.plan import END
from orchestrator.core.supersteps.state import Activation, Leaving, Routed
from orchestrator.core.table import settle

__all__ = ["SuperstepMachine"]


def _open(decision: Decision, command: sc.Open) -> None:
    decision.fact(
        RunStarted(
            command.run, command.plan.name, definition=command.definition,
            parent=command.parent, parent_node=command.parent_node,
        )
    )  # fmt: skip
    decision.fact(GraphPlanned(command.plan))
    decision.fact(s.StepsPlanned(command.steps))
    decision.state.waits_for_answers = command.waits_for_answers


def _take_input(decision: Decision, command: sc.TakeInput) -> None:
    state = decision.state
    steps = rules.steps_of(state)
    if steps.frontier or steps.open:
        if not command.replace:
            rules.refuse(decision, "the thread has pending work")
            return
        _stopped(decision, command.epoch)
        _cancel_all(decision, "replaced by a new input")
    else:
        _stopped(decision, command.epoch)
    if command.steps is not None or command.budget is not None:
        decision.fact(s.StepsPlanned(command.steps or steps.plan, budget=command.budget))
    steps.before, steps.after = command.before, command.after
    decision.fact(s.StateUpdated("input", steps.step, command.patches, queued=command.queued))
    rules.save(decision, "input", _entries(decision, command.routes, steps.plan.entry))


def _stopped(decision: Decision, epoch: int) -> None:
    """Go on behind whatever stopped the thread before."""
    state = decision.state
    previous = state.ended or state.suspended
    if previous:
        decision.fact(RunResumed(previous, epoch))
    elif rules.steps_of(state).given:
        decision.fact(RunResumed(RunReason.INTERRUPTED, epoch))


def _cancel_all(decision: Decision, why: str) -> None:
    for node in list(decision.state.nodes.values()):
        if node.status is Status.RUNNING:
            decision.recommend(node, Status.STOPPING, (Status.CANCELLED, why))
            decision.recommend(node, Status.CANCELLED, why)
        elif node.status in LIVE:
            decision.recommend(node, Status.CANCELLED, why)
    settle(decision)


def _entries(
    decision: Decision, routes: Sequence[s.Route], targets: Sequence[str] = ()
) -> tuple[s.Entry, ...]:
    """A frontier that no task chose: plain ``targets`` first, then ``routes``."""
    entries: dict[object, s.Entry] = {target: s.Entry(target) for target in targets if target != END}
    for number, route in enumerate(routes):
        if route.to == END:
            continue
        if route.send:
            entries[number] = s.Entry(route.to, send=True, value=route.value, key=route.key)
        else:
            entries.setdefault(route.to, s.Entry(route.to))
    return tuple(entries.values())


def _boundary(decision: Decision, command: sc.Boundary) -> None:
    steps = rules.steps_of(decision.state)
    if steps.settled and steps.step == command.step:
        rules.boundary(decision, command.patches)


def _boundary_failed(decision: Decision, command: sc.BoundaryFailed) -> None:
    steps = rules.steps_of(decision.state)
    if steps.settled and steps.step == command.step:
        rules.boundary_failed(decision, command.faults)


def _go_on(decision: Decision, command: sc.GoOn) -> None:
    state = decision.state
    steps = rules.steps_of(state)
    steps.before, steps.after = command.before, command.after
    reopen = () if command.goes or not command.reopen else _again(decision, command)
    waits = command.waits_for_answers
    going = c.Resume(command.time, command.epoch, command.budget, (), reopen, waits_for_answers=waits)
    resume(decision, going)
    for name in reopen:
        withdraw(decision, name, "what asked for it runs again", independent=True)
    if command.steps is not None or command.rename:
        decision.fact(s.StepsPlanned(command.steps or steps.plan, command.rename))
    if command.enqueue is not None:
        decision.fact(s.InputQueued(command.enqueue))
    if command.patches:
        decision.fact(s.StateUpdated("update", steps.step, command.patches))
        decision.fact(s.CheckpointSaved(steps.checkpoint + 1, steps.step, "update", keeps=True))
    if command.goes:
        _cancel_all(decision, "a goto replaces what was pending")
        rules.save(decision, "update", _entries(decision, command.routes))
        return
    if steps.open:
        unsettled = tuple(name for name in steps.active if state.nodes[name].status in LIVE)
        decision.fact(s.StepStarted(steps.step, unsettled, resumed=True))
        if steps.settled:
            # it was to be folded when the process died
            decision.fact(s.StepSettled(steps.step))
    for given in command.answers:
        control.answer(decision, c.Answer(given.task, given.key or None, given.value))
    for request in command.requests:
        control_in(decision, request)
    if not command.answers and command.reopen:
        for node in list(state.nodes.values()):
            if node.status is Status.ASKING:
                decision.recommend(node, Status.READY)


def _again(decision: Decision, command: sc.GoOn) -> tuple[str, ...]:
    """Tasks that run again: what failed or was cancelled, and gates for which nobody gives a verdict."""
    judged = {one.task for one in command.answers if not one.key}
    return tuple(
        name
        for name, node in decision.state.nodes.items()
        if name not in judged
        and (node.status in {Status.FAILED, Status.CANCELLED} or node.judgement == "undecided")
    )


def _edit(decision: Decision, command: sc.Edit) -> None:
    state = decision.state
    steps = rules.steps_of(state)
    _stopped(decision, command.epoch)
    if not command.as_node:
        decision.fact(s.StateUpdated("update", steps.step, command.patches))
        decision.fact(s.CheckpointSaved(steps.checkpoint + 1, steps.step, "update", keeps=True))
    elif command.as_node == END:
        _cancel_all(decision, "an operator ended the run")
        decision.fact(s.StateUpdated("update", steps.step, command.patches, END))
        rules.save(decision, "update", ())
    else:
        _as_node(decision, command)
    rules.rest(decision)


def _as_node(decision: Decision, command: sc.Edit) -> None:
    """As if ``as_node`` had written this: its edges are followed, and it leaves the frontier."""
    state = decision.state
    steps = rules.steps_of(state)
    node = command.as_node
    decision.fact(s.StateUpdated("update", steps.step, command.patches, node))
    routed = tuple(
        Routed(r.to, r.send, None if r.value is None else bytes(decision.values[r.value]), r.key)
        for r in command.routes
    )
    chosen = select(steps, [(Activation("", node), Leaving(routed, command.replaces))])
    values = {index: route.value for index, route in enumerate(command.routes)}
    entries = tuple(
        entry if not entry.send else s.Entry(entry.node, send=True, value=values[entry.index], key=entry.key)
        for entry in chosen.entries
    )
    number = steps.checkpoint + 1
    if not steps.open:
        rules.follow(decision, node, entries, chosen)
        return
    for name, task in steps.active.items():
        if task.node == node and state.nodes[name].status is not Status.COMPLETED:
            _settle_given(decision, name)
    decision.fact(s.CheckpointSaved(number, steps.step, "update", entries, more=True))


def _settle_given(decision: Decision, name: str) -> None:
    """A task whose writes an operator gave: it is done, and leads nowhere by itself."""
    state = decision.state
    node = state.nodes[name]
    if node.status not in LIVE:
        decision.fact(NodeReopened(name, node.generation + 1, "an operator gave its result"))
    if node.status is not Status.WAITING and node.status in LIVE:
        decision.recommend(node, Status.CANCELLED, "an operator gave its result")
        settle(decision)
        decision.fact(NodeReopened(name, node.generation + 1, "an operator gave its result"))
    decision.fact(NodeCompleted(name, node.attempt, None, restored=True))
    decision.fact(s.RouteSelected(name, replaces=True))


def _resolve(decision: Decision, command: sc.Resolve) -> None:
    steps = rules.steps_of(decision.state)
    if command.node not in steps.refused:
        rules.refuse(decision, f"{command.node} has no refused write")
        return
    _stopped(decision, command.epoch)
    decision.fact(s.WriteResolved(command.node, command.how, command.value))
    if command.how == "rerun":
        node = decision.state.nodes[command.node]
        withdraw(decision, command.node, "what asked for it runs again", independent=True)
        decision.fact(NodeReopened(command.node, node.generation + 1, "its write was refused"))
    rules.rest(decision)


def _elapsed(decision: Decision, command: c.Elapsed) -> None:
    if command.timer == "siblings":
        state = decision.state
        if state.failed_unhandled and state.asking:
            rules.stop_late(decision)
        elif state.failed_unhandled:
            stop_run(decision, RunReason.FAILED, "a task failed, and the grace of its siblings is over")
        return
    control.elapsed(decision, command)


def _no_inject(decision: Decision, command: c.Inject) -> None:
    rules.refuse(decision, "a stepped run takes no injected node; update its state instead")


#: Any: the table pairs each command with the function that takes it.
_HANDLERS: Mapping[type[c.Command], Callable[[Decision, Any], None]] = {
    **HANDLERS,
    sc.Open: _open,
    sc.TakeInput: _take_input,
    sc.Boundary: _boundary,
    sc.BoundaryFailed: _boundary_failed,
    sc.GoOn: _go_on,
    sc.Edit: _edit,
    sc.Resolve: _resolve,
    c.Elapsed: _elapsed,
    c.Inject: _no_inject,
}
#: Commands by which a thread that has stopped goes on, or is looked after.
_TO_STOPPED = frozenset({sc.Open, sc.TakeInput, sc.GoOn, sc.Edit, sc.Resolve})


class SuperstepMachine(GraphMachine):
    """A run in steps: every task of a step reads one snapshot, writes are seen in the next.

    Attributes:
        state: what is true now. Read it; only the machine changes it.
    """

    __slots__ = ()

    def handle(self, command: c.Command, at: int, values: Sequence[bytes] = ()) -> Decision:
        """Decide one command; the facts are applied when this returns.

        Raises:
            InternalError: a rule asked for what the table does not allow; the run must halt.
        """
        state = self.state
        state.at = at
        decision = Decision(state, command, at, values, self._queue)
        kind = type(command)
        if kind not in _TO_STOPPED:
            if state.ended or state.suspended:
                control.too_late(decision, command)
                return decision
            node = getattr(command, "node", None)
            if node is not None and node not in state.nodes:
                # of a step that is behind us: what it says now says nothing
                decision.receipts.append(Refused("unknown_node", f"{node!r} is no task of the present step"))
                return decision
        _HANDLERS[kind](decision, command)
        settle(decision)
        if kind is c.Finish:
            rules.left(decision)
        while True:
            count = len(decision.facts)
            rules.advance(decision)
            settle(decision)
            if len(decision.facts) == count or state.running or rules.steps_of(state).settled:
                return decision
