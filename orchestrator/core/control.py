"""What people and timers ask of a run: pause, drain, cancel, steer, answer, inject, deadlines."""

from __future__ import annotations

from math import isfinite

import msgspec

from emissions import Accepted, Refused
from orchestrator.core import commands as c
from orchestrator.core.closing import stop_run, suspend_run
from orchestrator.core.decisions import Decision
from orchestrator.core.dispatch import start_all, wake
from orchestrator.core.emitting import take
from orchestrator.core.facts import (
    BranchCreated,
    BranchExtended,
    BudgetRaised,
    DrainRequested,
    QuestionAnswered,
    QuestionAsked,
    ResultStale,
    RunPaused,
    RunUnpaused,
    SteerDelivered,
    StepMemoised,
)
from orchestrator.core.gates import as_verdict, decide_gate
from orchestrator.core.growth import inject
from orchestrator.core.outcomes import record_usage, release_dependents, stopped
from orchestrator.core.proposals import take_note, take_with
from orchestrator.core.refusing import refuse, refuse_growth
from orchestrator.core.state import NodeState
from orchestrator.core.status import TERMINAL, RunReason, Status

__all__ = [
    "EXPIRED",
    "answer",
    "ask",
    "attempt_stopped",
    "begin_asking",
    "branch_joined",
    "branch_made",
    "cancel_node_or_run",
    "drain",
    "elapsed",
    "emit",
    "inject_node",
    "memoise",
    "pause",
    "raise_budget",
    "steer",
    "take_steers",
    "too_late",
    "unpause",
]

#: Who answers with the default when nobody did in time.
EXPIRED = "expired"

#: Statuses of a live node whose deadline does not count: it is told to stop already, or a person thinks.
_UNTIMED = frozenset({Status.STOPPING, Status.ASKING})

#: A budget that can be raised, and the field's type in words for the refusal.
_RAISABLE = frozenset(
    {"spawns", "depth", "escalations", "concurrency", "tokens", "cost_usd", "wall_clock"}
    | {"steps", "visits", "tasks"}
)


def emit(decision: Decision, command: c.Emit) -> None:
    """A running node emits."""
    node = decision.state.nodes[command.node]
    decision.cause = node.started_seq
    if node.attempt != command.attempt or node.status not in (Status.RUNNING, Status.ASKING):
        detail = f"attempt {command.attempt} of {command.node} is not running"
        decision.receipts.append(refuse(decision, node, command.emission, "not_running", detail))
    elif command.failed:
        decision.receipts.append(refuse(decision, node, command.emission, "handler_error", command.failed))
    elif command.proposals:
        take_with(decision, node, command.emission, command.proposals)
    else:
        take(decision, node, command.emission)


def attempt_stopped(decision: Decision, command: c.AttemptStopped) -> None:
    """An attempt has stopped, was left behind, or was never started."""
    node = decision.state.nodes[command.node]
    decision.cause = node.started_seq
    record_usage(decision, command)
    if node.status is Status.STOPPING and node.attempt == command.attempt:
        stopped(decision, node, command.how, command.detail)
    else:
        decision.fact(ResultStale(command.node, command.attempt, command.how))


def elapsed(decision: Decision, command: c.Elapsed) -> None:
    """A timer fired; one that is no longer of interest is ignored."""
    state = decision.state
    if command.timer == "wall_clock":
        if not state.cancelling:
            suspend_run(decision, RunReason.DEADLINE, "the run's wall_clock budget is used up")
        return
    node = state.nodes[command.node or ""]
    if command.timer == "backoff":
        if node.status is Status.BACKING_OFF and node.attempt == command.attempt:
            decision.recommend(node, Status.READY)
        return
    if command.asks != node.asks or node.status in TERMINAL or node.status in _UNTIMED:
        return
    why = f"its deadline of {node.op.deadline} s passed"
    if node.status is Status.RUNNING:
        decision.recommend(node, Status.STOPPING, (Status.FAILED, why))
    else:
        decision.recommend(node, Status.FAILED, why)


def pause(decision: Decision, _command: c.Pause) -> None:
    """Pausing twice is pausing once."""
    if not decision.state.paused:
        decision.fact(RunPaused())


def unpause(decision: Decision, _command: c.Unpause) -> None:
    """Let go what the pause holds; nothing happens to a run that is not paused."""
    if decision.state.paused:
        decision.fact(RunUnpaused())
        start_all(decision)


def drain(decision: Decision, _command: c.Drain) -> None:
    """Finish what runs, start nothing, suspend."""
    if not decision.state.draining and not decision.state.cancelling:
        decision.fact(DrainRequested())


def cancel_node_or_run(decision: Decision, command: c.Cancel) -> None:
    """Stop a node, the run, or (``suspend``) the process's work on it."""
    if command.suspend is not None:
        suspend_run(decision, command.suspend, command.reason)
    elif command.node is None:
        stop_run(decision, RunReason.CANCELLED, command.reason)
    else:
        node = decision.state.resolve(command.node)
        if node is None:
            decision.receipts.append(Refused("unknown_node", f"{command.node!r} is no node of this run"))
        elif node.status in TERMINAL or node.status is Status.STOPPING:
            decision.receipts.append(Refused("too_late", f"{node.name} is {node.status.value}"))
        else:
            _cancel_one(decision, node, command.reason or "cancelled by request")
            decision.receipts.append(Accepted(node.name))


def _cancel_one(decision: Decision, node: NodeState, reason: str) -> None:
    if node.status is Status.RUNNING:
        decision.recommend(node, Status.STOPPING, (Status.CANCELLED, reason))
    else:
        decision.recommend(node, Status.CANCELLED, reason)


def raise_budget(decision: Decision, command: c.RaiseBudget) -> None:
    """A lower or equal limit is refused: a budget only grows."""
    present = getattr(decision.state.budget, command.name, None) if command.name in _RAISABLE else None
    sound = type(command.limit) in (int, float) and isfinite(command.limit)
    if present is None or not sound or command.limit <= present:
        detail = f"{command.name} is {present}; a budget can only be raised"
        decision.receipts.append(Refused("invalid", detail))
        return
    decision.fact(BudgetRaised(command.name, command.limit))
    decision.receipts.append(Accepted())
    start_all(decision)


def steer(decision: Decision, command: c.Steer) -> None:
    """Take an operator's note, unless it is for a node that has settled."""
    decision.receipts.append(take_note(decision, command.text, command.time, command.target))


def take_steers(decision: Decision, command: c.TakeSteers) -> None:
    """A node is about to be invoked: it takes what is addressed to it and what is for the next node."""
    one = decision.state.nodes[command.node].op.instance
    meant = (None, command.node, command.node if one is None else one.of)
    for note in decision.state.steers:
        if note.delivered_to is None and note.target in meant:
            decision.fact(SteerDelivered(note.id, command.node, command.attempt))


def inject_node(decision: Decision, command: c.Inject) -> None:
    """Somebody outside adds a node."""
    state = decision.state
    if state.ended or state.suspended:
        detail = f"the run is over ({state.ended or state.suspended})"
        decision.receipts.append(Refused("not_running", detail))
    elif state.cancelling or state.draining:
        refused = refuse_growth(decision, None, "closing", "the run is stopping")
        decision.receipts.append(refused)
    else:
        decision.receipts.append(inject(decision, None, command.proposal))


def ask(decision: Decision, command: c.Ask) -> None:
    """A running node asks; a question that has its answer is not asked again."""
    node = decision.state.nodes[command.node]
    decision.cause = node.started_seq
    if node.attempt != command.attempt or node.status not in (Status.RUNNING, Status.ASKING):
        detail = f"attempt {command.attempt} of {command.node} is not running"
        decision.receipts.append(Refused("not_running", detail))
        return
    known = (node.questions or {}).get(command.key)
    if node.status is Status.RUNNING and (known is None or known.answer is None):
        decision.recommend(node, Status.ASKING, command)
    elif known is None:
        decision.fact(_question(node, command))
    decision.receipts.append(Accepted(node.op.name))


def begin_asking(decision: Decision, node: NodeState, command: c.Ask) -> None:
    """(running, asking): the node holds no slot while it waits."""
    freed = node.holds
    decision.fact(_question(node, command))
    wake(decision, freed)


def _question(node: NodeState, command: c.Ask) -> QuestionAsked:
    return QuestionAsked(
        node.op.name, command.attempt, command.key, command.question, command.choices, command.schema,
        command.default, command.expires,
    )  # fmt: skip


def answer(decision: Decision, command: c.Answer) -> None:
    """Answer a node's question, or decide an undecided gate."""
    node = decision.state.resolve(command.node)
    if node is None:
        decision.receipts.append(Refused("unknown_node", f"{command.node!r} is no node of this run"))
        return
    if command.key is None:
        verdict = decision.values[command.value].decode().strip('"')
        wrong = decide_gate(decision, node, verdict, command.by, command.because)
        if wrong is None:
            release_dependents(decision, node)
        decision.receipts.append(Accepted(node.name) if wrong is None else Refused("invalid", wrong))
        return
    question = (node.questions or {}).get(command.key)
    if question is None or question.answer is not None or node.status is not Status.ASKING:
        detail = f"{node.name} has no open question {command.key!r}"
        decision.receipts.append(Refused("invalid", detail))
        return
    given = msgspec.json.decode(decision.values[command.value])
    if node.op.inquiry is not None and node.op.gate is not None:
        given = as_verdict(given)
    if question.choices and command.by != EXPIRED and given not in question.choices:
        detail = f"{given!r} is not one of {', '.join(question.choices)}"
        decision.receipts.append(Refused("invalid", detail))
        return
    decision.fact(QuestionAnswered(node.op.name, command.key, command.value, command.by, command.because))
    decision.receipts.append(Accepted(node.name))
    if all(other.answer is not None for other in (node.questions or {}).values()):
        decision.recommend(node, Status.READY)


def too_late(decision: Decision, command: c.Command) -> None:
    """A command after the end: answered and without effect. The run's last fact stays its last."""
    state = decision.state
    detail = f"the run is over ({state.ended or state.suspended})"
    decision.receipts.append(Refused("not_running", detail))


def memoise(decision: Decision, command: c.Memoise) -> None:
    """Keep a sub-step's result for later attempts; one of an attempt that is over helps nobody."""
    node = decision.state.nodes[command.node]
    if node.attempt == command.attempt and node.status not in TERMINAL:
        decision.fact(StepMemoised(command.node, command.key, command.value))


def branch_made(decision: Decision, command: c.BranchMade) -> None:
    """The session made a branch for a node."""
    decision.fact(
        BranchCreated(command.branch, command.node, command.source, command.messages, command.fresh)
    )


def branch_joined(decision: Decision, command: c.BranchJoined) -> None:
    """A node takes a branch whose beginning this run has not on record."""
    decision.fact(BranchExtended(command.branch, command.node, 0, command.messages))
