"""``evolve`` for what roles add to a stepped run: tasks that were asked for, verdicts, conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.core.fact_base import Fact
from orchestrator.core.frames import Frame
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.supersteps import facts as s
from orchestrator.core.supersteps.agents import Agents, Said, Spawned
from orchestrator.core.supersteps.state import Activation, StepState

__all__ = ["AGENTS", "behind_us", "branch_made", "keep_prefixes", "sent", "speaks_on"]


def _agents(state: RunState) -> Agents:
    assert state.steps is not None
    return state.steps.agents


def _spawned(state: RunState, fact: s.TaskSpawned, frame: Frame) -> None:
    agents = _agents(state)
    arg = b"{}" if fact.value is None else bytes(frame.values[fact.value])
    made = Spawned(fact.task, fact.to, fact.key, arg, fact.instruction, fact.independent, fact.depth)
    agents.spawned[fact.node] = (*agents.spawned.get(fact.node, ()), made)
    agents.numbers[fact.node] = agents.numbers.get(fact.node, 0) + 1
    state.spawns += 1


def _withdrawn(state: RunState, fact: s.TasksWithdrawn, _frame: Frame) -> None:
    agents = _agents(state)
    agents.spawned[fact.node] = tuple(one for one in agents.spawned[fact.node] if one.name not in fact.tasks)


def sent(steps: StepState, entry: s.Entry) -> Activation:
    """The task of the next step that a task of this one asked for."""
    one = steps.agents.spawned[entry.task][entry.index]
    return Activation("", one.node, True, one.arg, one.key, one.instruction, one.depth)


def behind_us(agents: Agents, node: str, task: NodeState) -> None:
    """Keep what later steps have to know of a task whose step is complete."""
    if task.judgement == "rejected":
        agents.rejected[node] = None
    elif task.judgement == "approved":
        agents.rejected.pop(node, None)
    if task.ledger:
        agents.ledger.append(Said(task.op.name, node, task.op.role, tuple(task.ledger)))
    if task.requests or task.cost_usd is not None:
        agents.requests += task.requests
        agents.input_tokens += task.input_tokens
        agents.output_tokens += task.output_tokens
        if task.cost_usd is not None:
            agents.cost_usd = (agents.cost_usd or 0.0) + task.cost_usd


def speaks_on(steps: StepState, task: Activation, *, fresh: bool) -> str | None:
    """The record's name of the conversation that a task goes on with; None if it begins one."""
    return steps.agents.branches.get(task.name if fresh else task.speaker)


def keep_prefixes(state: RunState) -> None:
    """A step begins: what its Sends fork is what their nodes had said by now."""
    steps = state.steps
    assert steps is not None
    known, nodes = state.conversations, steps.nodes
    steps.agents.begun = {
        branch: known.get(branch, ()) for who, branch in steps.agents.branches.items() if who in nodes
    }


def branch_made(state: RunState, task: str, branch: str, source: str | None) -> tuple[bytes, ...]:
    """A task has a branch from here on; gives what it begins with: its source as the step found it."""
    steps = state.steps
    assert steps is not None
    one = steps.active[task]
    fresh = steps.nodes[one.node].operation.fresh
    steps.agents.branches[one.name if fresh else one.speaker] = branch
    return () if source is None else steps.agents.begun.get(source, ())


#: Any: the table pairs each kind of fact with the function that takes it.
AGENTS: Mapping[type[Fact], Callable[[Any, Any, Frame], None]] = {
    s.TaskSpawned: _spawned,
    s.TasksWithdrawn: _withdrawn,
}
