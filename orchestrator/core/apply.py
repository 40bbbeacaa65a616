"""``evolve``: the only code that changes state. Recovery is these functions over the journal.

Each fact has one function here or in ``apply_growth``; a fact without one is a bug that a test finds.
A frame is whatever carries the fact: it knows the time and the values (a decision while it is being
made, a record when it is read back).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestrator.core import facts as f
from orchestrator.core.apply_growth import GROWTH
from orchestrator.core.apply_including import INCLUDING
from orchestrator.core.apply_resuming import RESUMING
from orchestrator.core.apply_rounds import EXHAUSTED, ROUNDS, judged
from orchestrator.core.apply_talking import TALKING
from orchestrator.core.births import Birth
from orchestrator.core.frames import Frame
from orchestrator.core.loops import loops_of
from orchestrator.core.resources import resources_of
from orchestrator.core.settling import accept_failures, count_out, drop_request, leave, leave_status, let_go
from orchestrator.core.state import EdgeState, NodeState, Question, RunState, SteerState
from orchestrator.core.status import PRECEDENCE, Status
from orchestrator.core.supersteps.apply import STEPS

__all__ = ["APPLY", "apply"]

#: Looked up once: Python 3.11 finds a member of an enumeration as slowly as it writes three fields.
_WAITING, _READY, _RUNNING = Status.WAITING, Status.READY, Status.RUNNING
_ASKING, _COMPLETED = Status.ASKING, Status.COMPLETED


def apply(state: RunState, fact: f.Fact, frame: Frame) -> None:
    """Change ``state`` as ``fact`` says."""
    state.facts += 1
    APPLY[type(fact)](state, fact, frame)


# --- run ---------------------------------------------------------------------------------------


def _run_started(state: RunState, fact: f.RunStarted, _frame: Frame) -> None:
    state.run, state.name = fact.run, fact.name
    state.definition, state.origin = fact.definition, fact.origin
    state.forked_at, state.change = fact.at, fact.change
    state.parent, state.parent_node = fact.parent, fact.parent_node


def _graph_planned(state: RunState, fact: f.GraphPlanned, _frame: Frame) -> None:
    plan = fact.plan
    state.plan, state.budget = plan, plan.budget
    state.roles = {role.name: role for role in plan.roles}
    nodes = state.nodes
    for number, operation in enumerate(plan.operations):
        nodes[operation.name] = NodeState(operation, Birth(number), operation.name)
    outs: dict[str, list[EdgeState]] = {}
    ins: dict[str, list[EdgeState]] = {}
    for edge in plan.edges:
        link = EdgeState(edge.source, edge.target, edge)
        outs.setdefault(edge.source, []).append(link)
        ins.setdefault(edge.target, []).append(link)
    for name, links in outs.items():
        nodes[name].outs = nodes[name].onward = tuple(links)
    for name, links in ins.items():
        nodes[name].ins, nodes[name].pending = tuple(links), len(links)
    state.live = len(plan.operations)
    state.loops = loops_of(plan.operations, plan.edges)
    state.metered = plan.budget.tokens is not None or plan.budget.cost_usd is not None


def _run_paused(state: RunState, _fact: f.RunPaused, _frame: Frame) -> None:
    state.paused = True
    state.pauses += 1


def _run_unpaused(state: RunState, _fact: f.RunUnpaused, _frame: Frame) -> None:
    state.paused = False


def _drain_requested(state: RunState, fact: f.DrainRequested, _frame: Frame) -> None:
    reasons = [reason for reason in (state.draining, fact.reason) if reason]
    state.draining = min(reasons, key=_weight)


def _weight(reason: str) -> int:
    """The place of a reason among those of which the first is told; an unknown one comes last."""
    return next((place for place, known in enumerate(PRECEDENCE) if known == reason), len(PRECEDENCE))


def _cancel_requested(state: RunState, fact: f.CancelRequested, _frame: Frame) -> None:
    state.cancelling, state.cancel_detail = fact.reason, fact.detail


def _budget_raised(state: RunState, fact: f.BudgetRaised, _frame: Frame) -> None:
    limit = fact.limit if fact.name in {"cost_usd", "wall_clock"} else int(fact.limit)
    state.budget = msgspec.structs.replace(state.budget, **{fact.name: limit})


def _run_suspended(state: RunState, fact: f.RunSuspended, _frame: Frame) -> None:
    state.suspended, state.detail, state.waiters = fact.reason, fact.detail, fact.waiters


def _run_ended(state: RunState, fact: f.RunEnded, _frame: Frame) -> None:
    state.ended, state.detail = fact.reason, fact.detail


# --- a node's way ------------------------------------------------------------------------------


def _node_ready(state: RunState, fact: f.NodeReady, frame: Frame) -> None:
    node = state.nodes[fact.node]
    if node.status is not _WAITING:
        leave_status(state, node)
    # an answered question goes on with the attempt that asked it
    resumes = node.status is _ASKING and not node.parted
    if node.resumes is not resumes:
        node.resumes = resumes
    node.status = _READY
    node.ready_at = frame.at
    state.ready[fact.node] = None
    if fact.handles:
        accept_failures(state, fact.handles)


def _node_paused(state: RunState, fact: f.NodePaused, _frame: Frame) -> None:
    state.nodes[fact.node].paused_in = state.pauses


def _node_started(state: RunState, fact: f.NodeStarted, frame: Frame) -> None:
    node = state.nodes[fact.node]
    del state.ready[fact.node]
    node.status = _RUNNING
    if node.resumes:
        node.resumes = False
    if fact.attempt != node.attempt:
        if node.attempt:
            _forget_attempt(node)
        node.attempt = fact.attempt
        if fact.attempt == 1 or (node.generation > 1 and not node.started_at):
            node.started_at = frame.at
    node.started_seq = state.facts
    state.running += 1
    if node.op.flow is None:
        state.slots += 1
    else:
        state.including += 1
    if state.plan.limits or node.op.branch is not None or node.branch is not None:
        wanted = resources_of(state, node)
        for name in wanted:
            if name not in node.holds:
                state.used[name] = state.used.get(name, 0) + 1
        node.holds = wanted


def _forget_attempt(node: NodeState) -> None:
    node.sightings = node.verdicts = None
    node.gave_up = ""
    node.parted = False


def _node_stopping(state: RunState, fact: f.NodeStopping, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.status = Status.STOPPING
    node.settles, node.reason = fact.settles, fact.reason


def _edges_judged(state: RunState, fact: f.EdgesJudged, _frame: Frame) -> None:
    for edge in state.nodes[fact.node].outs:
        if edge.spec.predicate is not None and edge.spec.predicate in fact.results:
            edge.judged = fact.results[edge.spec.predicate]


def _retry_scheduled(state: RunState, fact: f.NodeRetryScheduled, frame: Frame) -> None:
    node = state.nodes[fact.node]
    leave_status(state, node)
    node.status = Status.BACKING_OFF
    node.error = fact.error
    node.backoff_until = frame.at + fact.delay
    node.verdicts = None
    drop_request(state, node)
    state.backing_off += 1


def _given_back(state: RunState, fact: f.AttemptGivenBack, frame: Frame) -> None:
    node = state.nodes[fact.node]
    leave_status(state, node)
    drop_request(state, node)
    count_out(state, node)
    node.status = Status.READY
    node.settles = node.reason = ""
    node.ready_at = frame.at
    state.ready[fact.node] = None


def _artifacts_left(state: RunState, fact: f.ArtifactsLeft, _frame: Frame) -> None:
    state.nodes[fact.node].artifacts = fact.artifacts


def _completed(state: RunState, fact: f.NodeCompleted, frame: Frame) -> None:
    node = state.nodes[fact.node]
    if fact.value is not None:
        node.value = frame.values[fact.value]
    elif node.value is not None:
        node.value = None
    if node.error is not None:
        node.error = None
    if node.restored is not fact.restored:
        node.restored = fact.restored
    leave(state, node, _COMPLETED, frame.at)
    if node.op.gate is None:
        let_go(state, node)


def _failed(state: RunState, fact: f.NodeFailed, frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.error, node.restored = fact.error, fact.restored
    leave(state, node, Status.FAILED, frame.at)
    # what fails in a round that is over is nobody's failure any more
    node.handled = state.is_over(node)
    state.failed_unhandled += not node.handled
    if node.op.gate is None:
        let_go(state, node)


def _skipped(state: RunState, fact: f.NodeSkipped, frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.reason, node.blocked_by, node.restored = fact.reason, fact.blocked_by, fact.restored
    ran = node.status in {Status.RUNNING, Status.STOPPING}
    leave(state, node, Status.SKIPPED, frame.at)
    if node.op.gate is None or not ran:
        let_go(state, node)


def _vetoed(state: RunState, fact: f.NodeVetoed, frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.vetoed_by, node.reason, node.restored = fact.gates, fact.reason, fact.restored
    leave(state, node, Status.VETOED, frame.at)
    let_go(state, node)


def _cancelled(state: RunState, fact: f.NodeCancelled, frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.reason, node.restored = fact.reason, fact.restored
    leave(state, node, Status.CANCELLED, frame.at)
    let_go(state, node)


# --- gates -------------------------------------------------------------------------------------


def _gate_approved(state: RunState, fact: f.GateApproved, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    judged(state, node, "approved", fact)
    let_go(state, node)


def _gate_rejected(state: RunState, fact: f.GateRejected, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.rationale = fact.rationale
    node.spent = fact.cause == EXHAUSTED
    state.rejected.append(fact.node)
    judged(state, node, "rejected", fact)
    let_go(state, node)


def _gate_undecided(state: RunState, fact: f.GateUndecided, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.judgement, node.rationale = "undecided", fact.why
    state.undecided += 1


# --- people and things -------------------------------------------------------------------------


def _asked(state: RunState, fact: f.QuestionAsked, frame: Frame) -> None:
    node = state.nodes[fact.node]
    if node.status is not Status.ASKING:
        leave_status(state, node)
        node.status = Status.ASKING
        node.asks += 1
        node.asked_at = frame.at
        state.asking += 1
    default = None if fact.default is None else frame.values[fact.default]
    questions = {} if node.questions is None else node.questions
    question = Question(node.name, fact.key, fact.question, fact.choices, fact.schema, default)
    question.expires_at = frame.at + fact.expires if fact.expires else 0
    questions[fact.key] = question
    node.questions = questions


def _answered(state: RunState, fact: f.QuestionAnswered, frame: Frame) -> None:
    questions = state.nodes[fact.node].questions or {}
    question = questions[fact.key]
    question.answer, question.by, question.because = frame.values[fact.value], fact.by, fact.because


def _steer_received(state: RunState, fact: f.SteerReceived, _frame: Frame) -> None:
    state.steers.append(SteerState(fact.id, fact.text, fact.time, fact.target))
    state.waiting_steers += 1


def _steer_delivered(state: RunState, fact: f.SteerDelivered, _frame: Frame) -> None:
    note = state.steers[fact.id - 1]
    note.delivered_to, note.attempt = fact.node, fact.attempt
    state.waiting_steers -= 1


def _memoised(state: RunState, fact: f.StepMemoised, frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.steps = {} if node.steps is None else node.steps
    node.steps[fact.key] = frame.values[fact.value]


def _nothing(_state: RunState, _fact: f.Fact, _frame: Frame) -> None:
    """A fact that is news and changes nothing."""


#: Any, because each function takes its own kind of fact: the table is what pairs them.
APPLY: Mapping[type[f.Fact], Callable[[RunState, Any, Frame], None]] = {
    f.RunStarted: _run_started,
    f.GraphPlanned: _graph_planned,
    f.RunPaused: _run_paused,
    f.RunUnpaused: _run_unpaused,
    f.DrainRequested: _drain_requested,
    f.CancelRequested: _cancel_requested,
    f.BudgetRaised: _budget_raised,
    f.RunSuspended: _run_suspended,
    f.RunEnded: _run_ended,
    f.NodeReady: _node_ready,
    f.NodePaused: _node_paused,
    f.NodeStarted: _node_started,
    f.NodeStopping: _node_stopping,
    f.EdgesJudged: _edges_judged,
    f.NodeRetryScheduled: _retry_scheduled,
    f.AttemptGivenBack: _given_back,
    f.ArtifactsLeft: _artifacts_left,
    f.NodeCompleted: _completed,
    f.NodeFailed: _failed,
    f.NodeSkipped: _skipped,
    f.NodeVetoed: _vetoed,
    f.NodeCancelled: _cancelled,
    f.CancelIgnored: _nothing,
    f.ResultStale: _nothing,
    f.EmissionRefused: _nothing,
    f.EmissionRepeated: _nothing,
    f.ChangeRefused: _nothing,
    f.NodeSpawned: _nothing,
    f.SteerUndelivered: _nothing,
    f.GateApproved: _gate_approved,
    f.GateRejected: _gate_rejected,
    f.GateUndecided: _gate_undecided,
    f.QuestionAsked: _asked,
    f.QuestionAnswered: _answered,
    f.SteerReceived: _steer_received,
    f.SteerDelivered: _steer_delivered,
    f.StepMemoised: _memoised,
    **GROWTH,
    **TALKING,
    **RESUMING,
    **INCLUDING,
    **ROUNDS,
    **STEPS,
}
