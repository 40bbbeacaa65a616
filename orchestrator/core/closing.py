"""How a run stops: cancelled, drained, suspended, or ended because every node has settled."""

from __future__ import annotations

from orchestrator.core.context import conflict_in, view_at_end
from orchestrator.core.decisions import Decision
from orchestrator.core.dispatch import over_budget
from orchestrator.core.facts import (
    CancelRequested,
    DrainRequested,
    RunEnded,
    RunSuspended,
    SteerUndelivered,
)
from orchestrator.core.including import held_reasons
from orchestrator.core.refusing import total_outside
from orchestrator.core.resources import closed
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import LIVE, PRECEDENCE, RunReason, Status

__all__ = ["conclude", "stop_run", "suspend_run"]

_WAITING = frozenset({Status.WAITING, Status.READY, Status.BACKING_OFF, Status.ASKING})


def stop_run(decision: Decision, reason: str, detail: str) -> None:
    """Stop for good: what waits is settled in this decision, what runs is told to stop."""
    state = decision.state
    if state.cancelling:
        return
    decision.fact(CancelRequested(reason, detail))
    for node in list(state.nodes.values()):
        if node.status is Status.RUNNING:
            decision.recommend(node, Status.STOPPING, (Status.CANCELLED, detail or reason))
        elif node.status in _WAITING:
            decision.recommend(node, Status.CANCELLED, detail or reason)


def suspend_run(decision: Decision, reason: str, detail: str) -> None:
    """Stop so that it can go on: running attempts are given back, nothing new starts."""
    state = decision.state
    decision.fact(DrainRequested(reason))
    for node in list(state.nodes.values()):
        if node.status is Status.RUNNING:
            decision.recommend(node, Status.STOPPING, (Status.READY, detail or reason))


def conclude(decision: Decision) -> None:
    """After everything has settled down: has the run ended, or can it not go on?"""
    state = decision.state
    if state.ended or state.suspended or not state.run:
        return
    if state.live == 0 and (state.undecided == 0 or state.cancelling):
        total_outside(decision)
        _close(decision)
        reason, detail = _ended(state)
        decision.fact(RunEnded(reason, detail))
        return
    if state.running or (state.backing_off and not state.draining and not state.cancelling):
        return
    halted = _suspended(state)
    if halted is not None:
        waiters = {
            node.op.name: _waits_for(state, node)
            for node in state.nodes.values()
            if node.status in LIVE or node.judgement == "undecided"
        }
        total_outside(decision)
        decision.fact(RunSuspended(halted, waiters, over_budget(state) or "; ".join(state.closed.values())))


def _close(decision: Decision) -> None:
    for steer in decision.state.steers:
        if steer.delivered_to is None:
            decision.fact(SteerUndelivered(steer.id, steer.text))


def _ended(state: RunState) -> tuple[str, str]:
    """The reason of an ended run by precedence: cancelled, failed, refusals, gates, completed."""
    if state.cancelling == "cancelled":
        return RunReason.CANCELLED, state.cancel_detail
    conflict = conflict_in(state, view_at_end(state))
    if state.failed_unhandled or state.cancelling:
        return RunReason.FAILED, state.cancel_detail
    if conflict is not None:
        return RunReason.FAILED, f"ContextConflictError: {conflict}"
    spent = [name for name in state.rejected if state.nodes[name].spent]
    if spent:
        return RunReason.REFUSALS_EXHAUSTED, ", ".join(_gave_up(state.nodes[name]) for name in spent)
    if state.rejected:
        return RunReason.GATE_REJECTED, ", ".join(state.rejected)
    absent = _absent(state)
    if absent is not None:
        return RunReason.FAILED, absent
    return RunReason.COMPLETED, ""


def _absent(state: RunState) -> str | None:
    """The first file that the run had to leave and no node of it left, in words."""
    required = [one.name for one in state.plan.artifacts if one.required]
    if not required:
        return None
    current = (node for node in state.nodes.values() if not state.is_over(node))
    left = {one.name for node in current for one in node.artifacts}
    missing = next((name for name in required if name not in left), None)
    return None if missing is None else f"no node left the artifact {missing!r}, which the run must leave"


def _gave_up(gate: NodeState) -> str:
    plural = "" if gate.refused == 1 else "s"
    return f"{gate.op.name} gave up after {gate.refused} refusal{plural}"


def _suspended(state: RunState) -> str | None:
    """Why a run in which nothing runs cannot go on, or None if it can or waits for a person."""
    if state.cancelling:
        return None
    if state.draining:
        return state.draining
    if any(closed(state, state.nodes[name]) for name in state.ready):
        return RunReason.QUOTA
    if over_budget(state) is not None and state.ready:
        return RunReason.BUDGET_EXHAUSTED
    if state.paused or (state.asking and (state.waits_for_answers or _expires(state))):
        return None
    reasons = held_reasons(state)
    if state.asking:
        reasons.add(RunReason.AWAITING_ANSWER)
    if state.undecided:
        reasons.add(RunReason.GATE_UNDECIDED)
    return next((reason for reason in PRECEDENCE if reason in reasons), RunReason.STUCK)


def _expires(state: RunState) -> bool:
    """True if time alone will answer an open question."""
    asking = Status.ASKING
    return any(
        question.answer is None and question.expires_at
        for node in state.nodes.values()
        if node.status is asking
        for question in (node.questions or {}).values()
    )


def _waits_for(state: RunState, node: NodeState) -> str:
    if node.judgement == "undecided":
        return f"a verdict: {node.rationale}"
    if node.held:
        return f"run {node.child_run}, which is suspended: {node.held}"
    if node.status is Status.ASKING:
        open_questions = [q.key for q in (node.questions or {}).values() if q.answer is None]
        return f"an answer to {', '.join(open_questions)}"
    if node.status is Status.WAITING:
        owed = [edge.source for edge in node.ins if not state.nodes[edge.source].released]
        return f"{', '.join(owed)}"
    return "the run to go on"
