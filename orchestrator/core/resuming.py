"""Going on with a run: after a kill, a suspension, or a failure that is to be tried again (journal.md).

Settled nodes are not run again unless they are reopened by name. What was running is attempted again;
what was about to stop has stopped, because its process is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from emissions import Refused
from orchestrator.core.commands import Resume
from orchestrator.core.decisions import Decision
from orchestrator.core.dispatch import start_all
from orchestrator.core.facts import (
    AttemptGivenBack,
    BudgetRaised,
    DrainRequested,
    InstancesSettled,
    NodeDropped,
    NodeReopened,
    RunResumed,
)
from orchestrator.core.fans import left_out
from orchestrator.core.outcomes import stop_instances, stopped
from orchestrator.core.restoring import given_nodes
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import LIVE, RunReason, Status

__all__ = ["EVERY_FAILED", "can_reopen", "reopened_by", "resume"]

#: In ``Resume.reopen``: every node that failed, and every gate without a verdict.
EVERY_FAILED = "*"

_SECOND = 1_000_000_000
_UNDER_WAY = frozenset(LIVE - {Status.WAITING})
_BUSY = frozenset({Status.RUNNING, Status.STOPPING})
_WAITING = Status.WAITING


def resume(decision: Decision, command: Resume) -> None:
    """Go on; the requests of other processes follow in the same decision, before it is concluded."""
    state = decision.state
    reopened = reopened_by(state, command.reopen)
    # a failure that was stopping the run when the process died has stopped it for who tries again
    failing = state.cancelling if command.reopen and state.cancelling == RunReason.FAILED else ""
    previous = state.ended or state.suspended or failing or RunReason.INTERRUPTED
    decision.fact(RunResumed(previous, command.epoch))
    state.waits_for_answers = command.waits_for_answers
    for name, limit in command.budget.items():
        present = getattr(state.budget, name, None)
        if present is not None and limit > present:
            decision.fact(BudgetRaised(name, limit))
        else:
            decision.receipts.append(Refused("invalid", f"{name} is {present}; a budget can only be raised"))
    given_nodes(decision, command.settled)
    if _out_of_time(state):
        # said again at once, and nothing is started only to be stopped
        decision.fact(DrainRequested(RunReason.DEADLINE))
    for node in [node for node in state.nodes.values() if node.status in _BUSY]:
        if node.status is Status.RUNNING:
            decision.fact(AttemptGivenBack(node.op.name, node.attempt, str(previous)))
        elif node.status is Status.STOPPING:
            stopped(decision, node, "stopped", "")
    for one in command.settled:
        # given back above if they ran: their bodies are gone with their process
        node = state.nodes[one.node]
        if node.opened:
            # the outcome stands for all of them
            decision.fact(InstancesSettled(one.node, left_out(state, node)))
            stop_instances(decision, node, f"{one.node} was given its outcome")
    _reopen(decision, reopened)
    start_all(decision)


def _out_of_time(state: RunState) -> bool:
    limit = state.budget.wall_clock
    return limit is not None and state.at >= limit * _SECOND


def reopened_by(state: RunState, names: Iterable[str]) -> list[NodeState]:
    """The nodes that ``retry`` opens again: those named and what was skipped because of them.

    Args:
        names: failed nodes and undecided gates, or EVERY_FAILED.
    """
    wanted = dict.fromkeys(map(state.in_round, names))
    if EVERY_FAILED in wanted:
        del wanted[EVERY_FAILED]
        wanted |= {
            name: None
            for name, node in state.nodes.items()
            if node.status is Status.FAILED or node.judgement == "undecided"
        }
    if state.cancelling == RunReason.FAILED:
        # the failure had stopped the run: what it cancelled runs as well
        wanted |= {name: None for name, node in state.nodes.items() if node.status is Status.CANCELLED}
    found: dict[str, None] = {}
    queue = [name for name in wanted if name in state.nodes and can_reopen(state, state.nodes[name])]
    while queue:
        name = queue.pop()
        if name in found:
            continue
        found[name] = None
        queue += [edge.target for edge in state.nodes[name].outs if _follows(state, name, edge.target)]
        queue += left_out(state, state.nodes[name])
    return [node for name, node in state.nodes.items() if name in found] if found else []


def _follows(state: RunState, name: str, dependent: str) -> bool:
    """True if ``dependent`` was settled by what ``name`` did: skipped by it, or failed with its instance."""
    node, one = state.nodes[dependent], state.nodes[name].op.instance
    if one is not None and one.of == dependent:
        return node.status is Status.FAILED
    return node.status is Status.SKIPPED and not _in_list(state, node)


def _in_list(state: RunState, node: NodeState) -> bool:
    """True for an instance of a node that has its list: what it gives from here on is nowhere in it."""
    one = node.op.instance
    return one is not None and state.nodes[one.of].status is Status.COMPLETED


def can_reopen(state: RunState, node: NodeState) -> bool:
    """True unless it rejected (a veto is durable), its round is over, or a dependent took its failure up.

    A dependent takes a failure up when it runs with it; a ``for_each`` node, when it has its list without it.
    """
    if _in_list(state, node) or node.judgement in ("rejected", "refused") or state.is_over(node):
        return False
    return not any(state.nodes[edge.target].status in _UNDER_WAY for edge in node.outs)


def _reopen(decision: Decision, nodes: list[NodeState]) -> None:
    state = decision.state
    repeated = [node for node in nodes if node.status is Status.FAILED]
    for child in _grown_by(state, repeated) if repeated else ():
        decision.fact(NodeDropped(child, "the attempt that grew it is repeated"))
    for node in nodes:
        if node.op.name in state.nodes:
            decision.fact(NodeReopened(node.op.name, node.generation + 1, node.reason))
    for node in state.nodes.values():
        # also one that waited for what was dropped, and for nothing else
        if node.pending == 0 and node.status is _WAITING:
            decision.due(node)


def _grown_by(state: RunState, parents: list[NodeState]) -> list[str]:
    """Names of everything that these nodes grew, children before their own children last first."""
    found = dict.fromkeys(node.op.name for node in parents)
    grown: list[str] = []
    for name, node in state.nodes.items():
        # an instance that has its value keeps it: it is no part of what is repeated
        if node.op.instance is not None and node.op.instance.of == node.parent:
            continue
        if node.parent in found and name not in found:
            found[name] = None
            grown.append(name)
    return list(reversed(grown))
