"""The laws of a stepped run that can be seen in its state (supersteps.md)."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.core.state import RunState
from orchestrator.core.status import TERMINAL, Status
from orchestrator.core.supersteps.state import StepState

__all__ = ["all_there", "owed", "step_laws", "tasks_of", "tokens_behind"]


def owed(state: RunState) -> bool:
    """True while the runtime owes the next command: an input, or the fold of a step that has settled."""
    return state.steps is not None and (not state.steps.given or state.steps.settled)


def tasks_of(state: RunState) -> frozenset[str]:
    """The tasks of the present step: nodes that nobody spawned."""
    return frozenset() if state.steps is None else frozenset(state.steps.active)


def all_there(state: RunState) -> bool:
    """True while every node that was ever counted still stands in the state."""
    return not state.epoch and state.steps is None


def tokens_behind(state: RunState) -> int:
    """Tokens of tasks whose step is complete, since the input."""
    if state.steps is None:
        return 0
    return state.steps.agents.input_tokens + state.steps.agents.output_tokens


def step_laws(state: RunState) -> Iterator[str]:
    """One sentence for each law of steps that ``state`` breaks."""
    steps = state.steps
    if steps is None:
        return
    if set(steps.active) != set(state.nodes):
        yield f"the step's tasks are {sorted(steps.active)}, the nodes are {sorted(state.nodes)}"
    if steps.open != bool(steps.active):
        yield f"a step is {'open' if steps.open else 'closed'} with {len(steps.active)} tasks"
    for name, task in steps.active.items():
        if task.node not in steps.nodes:
            yield f"{name} is of {task.node!r}, which is no node"
    for name in (*steps.leaving, *steps.refused, *steps.instead, *steps.agents.spawned):
        if name not in steps.active:
            yield f"{name} has an outcome and is no task of the step"
    if steps.settled and any(node.status not in TERMINAL for node in state.nodes.values()):
        yield f"step {steps.step} is to be folded and not every task of it has settled"
    if state.ended == Status.COMPLETED and (steps.open or steps.frontier or steps.arrivals):
        yield "the run completed and has work left"
    yield from _budgets(state, steps)


def _budgets(state: RunState, steps: StepState) -> Iterator[str]:
    """Caps hold at every prefix (law 4)."""
    budget = state.budget
    counts = {"steps": steps.steps, "tasks": steps.tasks, "visits": max(steps.visits.values(), default=0)}
    for name, count in counts.items():
        limit = getattr(budget, name)
        if limit is not None and count > limit:
            yield f"cap: {count} {name}, at most {limit}"
