"""Conversations of a thread: one a node, continued on every visit; a Send forks it (supersteps.md 18).

What is said is on record with the thread, so whoever drives it next goes on with it; nothing of it is
shared with other threads of the session.
"""

from __future__ import annotations

from orchestrator.agents import Branch
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.supersteps.apply_agents import speaks_on
from orchestrator.core.supersteps.rules import steps_of
from orchestrator.runtime.branching import Branches, Taken, messages_of, recorded

__all__ = ["StepBranches"]


class StepBranches(Branches):
    """A thread's branches, as one drive of it allocates them."""

    __slots__ = ()

    def __init__(self) -> None:
        """Nothing is live yet: a branch is made again from the record when somebody takes it."""
        super().__init__({})

    def _of(self, state: RunState, node: NodeState) -> Taken:
        steps = steps_of(state)
        task, fresh = steps.active[node.op.name], node.op.fresh
        name = speaks_on(steps, task, fresh=fresh)
        if name is not None:
            return Taken(self._live(state, name, node), name)
        source = steps.agents.branches.get(task.node) if task.send and not fresh else None
        name = task.name if task.send or fresh else task.node
        made = Branch(name, node.op.role, source=source)
        if source is not None:
            # as the step found it, whatever its node says in this one
            made.include(messages_of(steps.agents.begun.get(source, ())))
        self._owned[name] = made
        return Taken(made, name, source, made=True)

    def _live(self, state: RunState, name: str, node: NodeState) -> Branch:
        branch = self._owned.get(name)
        if branch is None:
            branch = self._owned[name] = Branch(name, node.op.role)
            branch.include(recorded(state, name))
        return branch
