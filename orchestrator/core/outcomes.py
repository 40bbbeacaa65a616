"""How nodes settle: completed, failed, escalated, skipped by choice, stopped, attempted again."""

from __future__ import annotations

from emissions import Refused
from orchestrator.core.casting import cast_plan, refuse_plan
from orchestrator.core.closing import stop_run
from orchestrator.core.commands import AttemptStopped, Finish
from orchestrator.core.decisions import Decision, Why
from orchestrator.core.dispatch import wake
from orchestrator.core.escalation import escalate
from orchestrator.core.facts import (
    ArtifactsLeft,
    AttemptGivenBack,
    BranchExtended,
    CancelIgnored,
    ContextWritten,
    EdgesJudged,
    Fact,
    Failure,
    InstancesSettled,
    ModelClosed,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeReady,
    NodeRetryScheduled,
    NodeSkipped,
    NodeStopping,
    ResultStale,
)
from orchestrator.core.fans import instances, left_out
from orchestrator.core.gates import judge_gate
from orchestrator.core.proposals import carry_out, take_with
from orchestrator.core.refusing import total_refusals
from orchestrator.core.resources import model_of, resources_of
from orchestrator.core.spec import Retry
from orchestrator.core.spending import usage_recorded
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import TERMINAL, Status

__all__ = [
    "after",
    "back_off",
    "become",
    "cancel",
    "close_model",
    "complete",
    "decline",
    "fail",
    "fail_waiting",
    "finish",
    "give_back",
    "hand_up",
    "ready_again",
    "record_usage",
    "release_dependents",
    "settle_failed",
    "stop",
    "stop_as_failed",
    "stop_instances",
    "stopped",
    "would_retry",
]

_SECOND = 1_000_000_000
_COMPLETED = "completed"
_ALIVE = (Status.RUNNING, Status.STOPPING, Status.ASKING)


def finish(decision: Decision, command: Finish) -> None:
    """An attempt ended by itself: take what it carried, then settle the node or try again."""
    node = decision.state.nodes[command.node]
    decision.cause = node.started_seq
    record_usage(decision, command)
    # one that asks has a body that runs: it may stop waiting for the answer and end
    if node.attempt != command.attempt or node.status not in _ALIVE:
        decision.fact(ResultStale(command.node, command.attempt, command.outcome))
        return
    for said in command.said:
        fact = BranchExtended(said.branch, command.node, command.attempt, said.messages, said.kept)
        decision.fact(fact)
    if node.status is Status.STOPPING:
        # it was told to stop: what it gave in the last moment comes too late
        decision.fact(ResultStale(command.node, command.attempt, command.outcome))
        _settle_stopped(decision, node)
        return
    if command.emissions:
        for place, emission in enumerate(command.emissions):
            take_with(decision, node, emission, command.proposals, place)
    if command.outcome == _COMPLETED and not (node.escalation or node.gave_up or command.only_escalation):
        to = Status.COMPLETED
    else:
        to = _target(decision.state, node, command)
    if to is Status.COMPLETED and node.op.casting is not None and refuse_plan(decision, node, command):
        return
    if command.predicates and to in TERMINAL:
        decision.fact(EdgesJudged(node.op.name, command.predicates))
    decision.recommend(node, to, command)


def _target(state: RunState, node: NodeState, command: Finish) -> Status:
    if command.outcome == "quota":
        return Status.READY
    if command.outcome == "not_applicable":
        return Status.SKIPPED
    if command.outcome == "failed" and would_retry(state, node, command.error, permanent=command.permanent):
        return Status.BACKING_OFF
    if node.escalation is not None:
        return Status.ESCALATED
    if command.outcome == "failed" or node.gave_up or command.only_escalation:
        return Status.FAILED
    return Status.COMPLETED


def would_retry(state: RunState, node: NodeState, error: Failure | None, *, permanent: bool = False) -> bool:
    """True if a failure of the present attempt leads to another one."""
    retry = node.op.retry
    if retry is None or permanent or state.cancelling:
        return False
    if node.attempt - node.given_back >= retry.attempts:
        return False
    return not retry.on or (error is not None and error.type in retry.on)


def record_usage(decision: Decision, command: Finish | AttemptStopped) -> None:
    """What the attempt's model calls cost, whatever came of it."""
    if command.usage is not None:
        decision.fact(usage_recorded(command.node, command.attempt, command.usage))


# --- (running, ...) ----------------------------------------------------------------------------


def complete(decision: Decision, node: NodeState, command: Finish) -> None:
    """(running, completed): the attempt gave its value; a gate is judged in the same decision."""
    if command.writes:
        for write in command.writes:
            decision.fact(ContextWritten(node.op.name, write.key, write.value, write.leaves, write.replace))
    if command.proposals:
        carry_out(decision, node, [one for one in command.proposals if one.emission is None])
    if node.refusals:
        total_refusals(decision, node)
    freed = node.holds
    if node.op.casting is not None:
        cast_plan(decision, node)
    if command.artifacts:
        decision.fact(ArtifactsLeft(command.node, command.attempt, command.artifacts))
    decision.fact(NodeCompleted(command.node, command.attempt, command.value, command.restored))
    if node.op.gate is not None:
        judge_gate(decision, node, command.gate_verdict)
    after(decision, node, freed)


def fail(decision: Decision, node: NodeState, command: Finish) -> None:
    """(running, failed): the last attempt failed, gave up, or asked for a tier that it cannot have."""
    error = command.error
    if error is None:
        error = _gave_up(decision, node, command.attempt)
    if command.proposals:
        carry_out(decision, node, [one for one in command.proposals if one.emission is None])
    settle_failed(decision, node, error)


def _gave_up(decision: Decision, node: NodeState, attempt: int) -> Failure:
    """The error of a role that did not raise: it gave up, or could not go on without a higher tier."""
    if node.gave_up:
        return Failure("GaveUp", node.gave_up, attempt)
    refused = [receipt for receipt in decision.receipts if isinstance(receipt, Refused)]
    why = f"{refused[-1].reason}: {refused[-1].detail}" if refused else "its request was refused"
    return Failure("EscalationRefused", why, attempt)


def settle_failed(decision: Decision, node: NodeState, error: Failure) -> None:
    """Settle a node as failed, from whichever status it has."""
    if node.refusals:
        total_refusals(decision, node)
    freed = _freed(decision.state, node)
    decision.fact(NodeFailed(node.op.name, node.attempt, error))
    judge_gate(decision, node, None, f"it failed: {error.type}: {error.message}"[:500])
    after(decision, node, freed)
    if node.op.stop_on_failure:
        stop_run(decision, "failed", f"{node.op.name} failed and on_failure is stop")


def back_off(decision: Decision, node: NodeState, command: Finish) -> None:
    """(running, backing_off): the attempt failed, another one follows."""
    retry = node.op.retry or Retry()
    freed = node.holds
    delay = int(retry.delay(command.attempt, command.draw) * _SECOND)
    error = command.error or Failure("Error", "", command.attempt)
    decision.fact(NodeRetryScheduled(node.op.name, command.attempt, error, delay))
    wake(decision, freed)
    if delay == 0:
        decision.recommend(node, Status.READY)


def hand_up(decision: Decision, node: NodeState, command: Finish) -> None:
    """(running, escalated): a child, one tier higher, takes the node's place in the graph."""
    if command.proposals:
        carry_out(decision, node, [one for one in command.proposals if one.emission is None])
    if node.refusals:
        total_refusals(decision, node)
    freed = node.holds
    escalate(decision, node, command.value)
    after(decision, node, freed)


def decline(decision: Decision, node: NodeState, command: Finish) -> None:
    """(running, skipped): the role said that the node is not applicable."""
    freed = node.holds
    reason = command.error.message if command.error is not None else "not applicable"
    decision.fact(NodeSkipped(node.op.name, reason or "not applicable"))
    judge_gate(decision, node, None, "it was not applicable")
    after(decision, node, freed)


# --- stopping ----------------------------------------------------------------------------------


def stop(decision: Decision, node: NodeState, why: Why) -> None:
    """(running, stopping): the attempt is told to stop; the fact says what the node will settle as."""
    settles, reason = why if isinstance(why, tuple) else (Status.CANCELLED, str(why or ""))
    decision.fact(NodeStopping(node.op.name, node.attempt, settles, reason))


def stopped(decision: Decision, node: NodeState, how: str, detail: str) -> None:
    """An attempt that was told to stop has stopped, or was left behind."""
    if how == "ignored":
        decision.fact(CancelIgnored(node.op.name, node.attempt, detail))
    _settle_stopped(decision, node)


def _settle_stopped(decision: Decision, node: NodeState) -> None:
    """What the stop was for; an attempt that was to be given back is cancelled if the run is by now."""
    to, state = Status(node.settles), decision.state
    if to is Status.READY and state.cancelling:
        decision.recommend(node, Status.CANCELLED, state.cancel_detail or state.cancelling)
    else:
        decision.recommend(node, to)


def cancel(decision: Decision, node: NodeState, why: Why) -> None:
    """(anything live, cancelled): a person, or a run that stops, wanted it; what ran has stopped."""
    if node.refusals:
        total_refusals(decision, node)
    freed = _freed(decision.state, node)
    reason = why if isinstance(why, str) else node.reason
    decision.fact(NodeCancelled(node.op.name, reason))
    after(decision, node, freed)
    stop_instances(decision, node, f"{node.op.name} was cancelled")


def stop_instances(decision: Decision, node: NodeState, why: str) -> None:
    """The node has settled without them: what is left of its instances is cancelled."""
    for one in instances(decision.state, node):
        if one.status is Status.RUNNING:
            decision.recommend(one, Status.STOPPING, (Status.CANCELLED, why))
        elif one.status not in TERMINAL and one.status is not Status.STOPPING:
            decision.recommend(one, Status.CANCELLED, why)


def stop_as_failed(decision: Decision, node: NodeState, _why: Why) -> None:
    """(stopping, failed): its deadline passed."""
    settle_failed(decision, node, Failure("DeadlineExceeded", node.reason, node.attempt))


def give_back(decision: Decision, node: NodeState, _why: Why) -> None:
    """(stopping, ready): the attempt was stopped through no fault of the node."""
    freed = node.holds
    decision.fact(AttemptGivenBack(node.op.name, node.attempt, node.reason))
    wake(decision, freed)
    decision.recommend(node, Status.RUNNING)


def close_model(decision: Decision, node: NodeState, command: Finish) -> None:
    """(running, ready): no model takes its calls; the attempt is given back, its role's nodes wait."""
    freed = node.holds
    error = command.error or Failure("QuotaError", "", command.attempt)
    decision.fact(AttemptGivenBack(node.op.name, node.attempt, "quota"))
    decision.fact(ModelClosed(node.op.name, model_of(node), error.message))
    wake(decision, freed)


def fail_waiting(decision: Decision, node: NodeState, why: Why) -> None:
    """(waiting | ready | backing_off, failed): a condition or its context is at fault, or it is too late."""
    if node.opened:
        decision.fact(InstancesSettled(node.op.name, left_out(decision.state, node)))
    if isinstance(why, NodeFailed):
        settle_failed(decision, node, why.error)
    else:
        settle_failed(decision, node, Failure("DeadlineExceeded", str(why), node.attempt))


# --- before running ----------------------------------------------------------------------------


def become(decision: Decision, node: NodeState, fact: Fact) -> None:
    """(waiting, ready | skipped | vetoed): all above it let go and it was judged, or somebody vetoed it."""
    freed = () if node.status is Status.WAITING else _freed(decision.state, node)
    decision.fact(fact)
    if node.status is Status.READY:
        decision.recommend(node, Status.RUNNING)
    else:
        after(decision, node, freed)


def ready_again(decision: Decision, node: NodeState, _why: Why) -> None:
    """(backing_off | asking, ready): the delay is over, or every question has its answer."""
    decision.fact(NodeReady(node.op.name))
    decision.recommend(node, Status.RUNNING)


def _freed(state: RunState, node: NodeState) -> tuple[str, ...]:
    """What others may have when the node settles: what it holds, or the resources whose queue called it."""
    return resources_of(state, node) if node.status is Status.READY else node.holds


def after(decision: Decision, node: NodeState, freed: tuple[str, ...]) -> None:
    """What every settling leads to: freed resources wake waiters, dependents become due."""
    if decision.state.parked:
        wake(decision, freed)
    if node.released:
        release_dependents(decision, node)


def release_dependents(decision: Decision, node: NodeState) -> None:
    """Each dependent for which this was the last predecessor is due."""
    nodes = decision.state.nodes
    for edge in node.outs:
        target = nodes[edge.target]
        if target.pending == 0 and target.status is Status.WAITING:
            decision.due(target)
