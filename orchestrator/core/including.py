"""Included flows: a node whose work is a run of its own, the child (kernel.md 8, flows.md).

The child's budgets are shares of its parent's: what it may spawn and escalate is counted here when it
begins, and what it has left over is given back when it ends. While the child is suspended, the node
is ready and held: it starts again when the run goes on.
"""

from __future__ import annotations

from emissions import Accepted, Refused
from orchestrator.core import commands as c
from orchestrator.core.decisions import Decision
from orchestrator.core.dispatch import wake
from orchestrator.core.facts import ChildRunEnded, ChildRunHeld, ChildRunStarted
from orchestrator.core.spending import usage_recorded
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = ["child_ended", "child_held", "child_started", "held_reasons"]


def child_started(decision: Decision, command: c.ChildStarted) -> None:
    """A node begins a child run; one that goes on with its child says so by nothing."""
    node = _running(decision, command.node, command.attempt)
    if node is None:
        return
    state = decision.state
    # the task of a step goes on with the child that failed under it
    if node.child_run != command.run or (node.child_ended and state.steps is not None):
        spawns = min(command.spawns, state.budget.spawns - state.spawns)
        left = state.budget.escalations - state.escalations - state.escalating
        shares = max(0, spawns), max(0, min(command.escalations, left))
        decision.fact(
            ChildRunStarted(
                command.node, command.attempt, command.run, command.flow, *shares, command.checkpoint
            )
        )
    decision.receipts.append(Accepted(command.node))


def child_held(decision: Decision, command: c.ChildHeld) -> None:
    """A node's child run was suspended: the attempt is given back, and the node waits for a resume."""
    node = _running(decision, command.node, command.attempt)
    if node is None:
        return
    freed = node.holds
    decision.fact(
        ChildRunHeld(
            command.node, command.attempt, command.run, command.reason, command.detail, command.tasks
        )
    )  # fmt: skip
    wake(decision, freed)


def child_ended(decision: Decision, command: c.ChildEnded) -> None:
    """A node's child run has ended: what it used counts here. Its outcome settles the node by ``Finish``."""
    node = decision.state.nodes[command.node]
    decision.cause = node.started_seq
    if node.child_run != command.run or node.child_ended:
        return
    usage = command.usage
    if usage.requests or usage.input_tokens or usage.output_tokens or usage.cost_usd is not None:
        decision.fact(usage_recorded(command.node, command.attempt, usage))
    decision.fact(
        ChildRunEnded(
            command.node, command.run, command.reason, command.spawns, command.escalations,
            command.tasks, command.checkpoint,
        )
    )  # fmt: skip


def _running(decision: Decision, name: str, attempt: int) -> NodeState | None:
    """The node of an attempt that runs; None, and a refusal, if it was stopped meanwhile."""
    node = decision.state.nodes[name]
    decision.cause = node.started_seq
    if node.status is Status.RUNNING and node.attempt == attempt:
        return node
    decision.receipts.append(Refused("not_running", f"attempt {attempt} of {name} is not running"))
    return None


def held_reasons(state: RunState) -> set[str]:
    """Why children are suspended that nodes wait for."""
    return {node.held for node in state.nodes.values() if node.held}
