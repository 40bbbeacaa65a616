"""``evolve`` for the facts of the Pregel machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestrator.core.births import Birth
from orchestrator.core.fact_base import Fact
from orchestrator.core.frames import Frame
from orchestrator.core.settling import free, leave_status
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import TERMINAL, Status
from orchestrator.core.supersteps import facts as s
from orchestrator.core.supersteps.agents import Agents
from orchestrator.core.supersteps.apply_agents import AGENTS, behind_us, keep_prefixes, sent, speaks_on
from orchestrator.core.supersteps.plan import reach_of
from orchestrator.core.supersteps.state import Activation, Leaving, Routed, StepState, task_name
from orchestrator.core.supersteps.writes import behind, only_write

__all__ = ["STEPS", "names_of"]


def _of(state: RunState) -> StepState:
    assert state.steps is not None
    return state.steps


def _planned(state: RunState, fact: s.StepsPlanned, _frame: Frame) -> None:
    if state.steps is None:
        state.steps = StepState()
    steps = state.steps
    steps.plan = fact.plan
    steps.nodes = {node.name: node for node in fact.plan.nodes}
    steps.reach = reach_of(fact.plan)
    state.roles = {role.name: role for role in fact.plan.roles}
    if fact.budget is not None:
        state.budget = fact.budget
        state.metered = fact.budget.tokens is not None or fact.budget.cost_usd is not None
    if fact.renamed:
        _rename(steps, fact.renamed)


def _rename(steps: StepState, names: Mapping[str, str]) -> None:
    """What waits to run is called by its new name; identities of tasks stay as they are."""

    def renamed(one: Activation) -> Activation:
        return msgspec.structs.replace(one, node=names.get(one.node, one.node))

    steps.frontier = tuple(renamed(one) for one in steps.frontier)
    steps.active = {name: renamed(one) for name, one in steps.active.items()}
    steps.deferred = tuple(names.get(name, name) for name in steps.deferred)
    steps.visits = {names.get(name, name): count for name, count in steps.visits.items()}


def _updated(state: RunState, fact: s.StateUpdated, frame: Frame) -> None:
    steps = _of(state)
    for patch in fact.patches:
        if patch.task:
            new = only_write(steps.instead.get(patch.task, state.nodes[patch.task].value), patch.key)
        else:
            new = None if patch.value is None else frame.values[patch.value]
        if new is None:
            steps.channels.pop(patch.key, None)
        elif patch.append:
            steps.channels[patch.key] = behind(steps.channels[patch.key], bytes(new))
        else:
            steps.channels[patch.key] = bytes(new)
        steps.versions[patch.key] = steps.checkpoint + 1
    if fact.source == "input":
        steps.given = True
        # an input that nobody queued replaces what waited
        steps.queue = steps.queue[1:] if fact.queued else ()
        steps.steps = steps.tasks = steps.children.tasks = 0
        steps.visits = {}


def _selected(state: RunState, fact: s.RouteSelected, frame: Frame) -> None:
    routes = tuple(
        Routed(
            route.to, route.send, None if route.value is None else bytes(frame.values[route.value]), route.key
        )
        for route in fact.routes
    )
    _of(state).leaving[fact.node] = Leaving(routes, fact.replaces, fact.handled)


def _cached(state: RunState, _fact: s.TaskCached, _frame: Frame) -> None:
    """It was a visit of its node, and no run of a task."""
    _of(state).tasks -= 1


def _saved(state: RunState, fact: s.CheckpointSaved, frame: Frame) -> None:
    steps = _of(state)
    steps.checkpoint = fact.checkpoint
    if fact.keeps:
        return
    steps.frontier = tuple(_activation(steps, entry, frame) for entry in fact.frontier)
    steps.arrivals = dict(fact.arrivals)
    steps.deferred = fact.deferred
    steps.held = False
    if not fact.more:
        _clear(state, steps)
    if fact.source == "input":
        state.spawns, state.tokens, state.cost_usd = 0, 0, 0.0
        steps.agents = Agents(branches=steps.agents.branches)


def _activation(steps: StepState, entry: s.Entry, frame: Frame) -> Activation:
    if entry.stays:
        return steps.frontier[entry.index]
    if entry.spawned:
        return sent(steps, entry)
    if entry.task:
        arg = steps.leaving[entry.task].routes[entry.index].arg
    else:
        arg = None if entry.value is None else bytes(frame.values[entry.value])
    return Activation("", entry.node, entry.send, arg, entry.key)


def _clear(state: RunState, steps: StepState) -> None:
    """The step is behind us: its tasks have settled and are no longer looked at."""
    for name in steps.active:
        node = state.nodes.pop(name, None)
        if node is None:
            continue
        steps.last[steps.active[name].node] = node
        behind_us(steps.agents, steps.active[name].node, node)
        if node.status not in TERMINAL:
            leave_status(state, node)
            free(state, node)
            state.live -= 1
        if node.status is Status.FAILED and not node.handled:
            state.failed_unhandled -= 1
        if node.judgement == "undecided":
            state.undecided -= 1
        if name in state.rejected:
            state.rejected.remove(name)
    steps.active = {}
    steps.agents.spawned, steps.agents.numbers = {}, {}
    steps.leaving, steps.refused, steps.instead = {}, {}, {}
    steps.children.calls, steps.children.counted = {}, {}
    steps.open = steps.settled = False


def names_of(frontier: tuple[Activation, ...], step: int) -> list[str]:
    """The names of a frontier's tasks in step ``step``."""
    numbers: dict[str, int] = {}
    names = []
    for one in frontier:
        number = numbers.get(one.node, 0)
        if one.send and one.key is None:
            numbers[one.node] = number + 1
        names.append(task_name(one.node, step, send=one.send, number=number, key=one.key))
    return names


def _started(state: RunState, fact: s.StepStarted, _frame: Frame) -> None:
    steps = _of(state)
    if fact.resumed:
        return
    steps.step = fact.step
    steps.open, steps.settled = True, False
    steps.steps += 1
    for place, (name, one) in enumerate(zip(fact.active, steps.frontier, strict=True)):
        steps.active[name] = msgspec.structs.replace(one, name=name)
        operation = msgspec.structs.replace(steps.nodes[one.node].operation, name=name)
        node = state.nodes[name] = NodeState(operation, Birth(place), name)
        if operation.speaks:
            node.branch = speaks_on(steps, steps.active[name], fresh=operation.fresh)
        steps.visits[one.node] = steps.visits.get(one.node, 0) + 1
    if steps.agents.branches:
        keep_prefixes(state)
    steps.tasks += len(fact.active)
    state.live += len(fact.active)
    steps.frontier = ()


def _settled(state: RunState, _fact: s.StepSettled, _frame: Frame) -> None:
    _of(state).settled = True


def _refused(state: RunState, fact: s.WriteRefused, _frame: Frame) -> None:
    steps = _of(state)
    steps.settled = False
    steps.refused[fact.node] = (fact.key, fact.error)


def _resolved(state: RunState, fact: s.WriteResolved, frame: Frame) -> None:
    steps = _of(state)
    steps.refused.pop(fact.node, None)
    if fact.how == "rerun":
        steps.leaving.pop(fact.node, None)
    else:
        steps.instead[fact.node] = None if fact.value is None else bytes(frame.values[fact.value])


def _breakpoint(state: RunState, _fact: s.BreakpointReached, _frame: Frame) -> None:
    _of(state).held = True


def _queued(state: RunState, fact: s.InputQueued, frame: Frame) -> None:
    steps = _of(state)
    steps.queue = (*steps.queue, bytes(frame.values[fact.value]))


def _nothing(_state: RunState, _fact: Fact, _frame: Frame) -> None:
    """A fact that is news and changes nothing."""


#: Any, because each function takes its own kind of fact: the table is what pairs them.
STEPS: Mapping[type[Fact], Callable[[Any, Any, Frame], None]] = {
    s.StepsPlanned: _planned,
    s.StepStarted: _started,
    s.StepSettled: _settled,
    s.StepCompleted: _nothing,
    s.StateUpdated: _updated,
    s.RouteSelected: _selected,
    s.TaskCached: _cached,
    s.CheckpointSaved: _saved,
    s.WriteRefused: _refused,
    s.WriteResolved: _resolved,
    s.BreakpointReached: _breakpoint,
    s.InputQueued: _queued,
    **AGENTS,
}
