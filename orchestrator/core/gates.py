"""Gates: one total map from verdicts to what they do, judged once, when the gate settles (kernel.md 5)."""

from __future__ import annotations

from collections.abc import Mapping

from emissions import VerdictValue
from orchestrator.core.apply_rounds import EXHAUSTED
from orchestrator.core.decisions import Decision
from orchestrator.core.facts import GateApproved, GateRefused, GateRejected, GateUndecided, NodeVetoed
from orchestrator.core.rounds import end_round, send_back
from orchestrator.core.spec import Gate, Undecided
from orchestrator.core.state import NodeState
from orchestrator.core.status import Status

__all__ = [
    "APPROVE",
    "GATE_VERDICT",
    "REJECT",
    "as_verdict",
    "decide_gate",
    "gate_verdict",
    "judge_gate",
    "person_decides",
]

#: The key of the operation-graph seed's gate contract, and its two values.
GATE_VERDICT = "gate_verdict"
REJECT = "reject"
APPROVE = "approve"

#: What each verdict does where a gate says nothing else. Total: a test fails if a member is missing.
_DEFAULT: Mapping[VerdictValue, bool] = {
    VerdictValue.APPROVE: False,
    VerdictValue.APPROVE_WITH_FIXES: False,
    VerdictValue.REQUEST_CHANGES: False,
    VerdictValue.REJECT: True,
}


def gate_verdict(gate: Gate, verdict: VerdictValue | str) -> str | None:
    """What a verdict sets ``gate_verdict`` to at this gate: ``reject``, or None, which opens it.

    Raises:
        ValueError: it is not one of the four verdicts.
    """
    value = VerdictValue(verdict)
    refuses = value.value in gate.refuse_on or (_DEFAULT[value] and not gate.refuse_on)
    return REJECT if refuses else None


def judge_gate(decision: Decision, node: NodeState, top_level: str | None, why: str = "") -> None:
    """Judge a gate that has just settled; nothing happens to a node that is no gate.

    Args:
        top_level: the value's ``gate_verdict``, which counts where no Verdict was given.
        why: how the gate settled, if not by completing.
    """
    gate = node.op.gate
    if gate is None:
        return
    by, because = _person(node)
    verdicts = dict.fromkeys(node.verdicts or ())
    if why:
        _undecided(decision, node, gate, why)
    elif len(verdicts) > 1:
        _undecided(decision, node, gate, f"its verdicts contradict: {', '.join(verdicts)}")
    elif verdicts:
        (verdict,) = verdicts
        if gate_verdict(gate, verdict) == REJECT:
            _refuse(
                decision, node, GateRefused(node.op.name, verdict, node.rationale, by=by, because=because)
            )
        else:
            _open(decision, node, GateApproved(node.op.name, verdict, by=by, because=because))
    elif top_level == REJECT:
        _refuse(decision, node, GateRefused(node.op.name, None, cause=GATE_VERDICT))
    elif top_level == APPROVE:
        _open(decision, node, GateApproved(node.op.name, None))
    else:
        _undecided(decision, node, gate, "it gave no readable verdict")


def _person(node: NodeState) -> tuple[str | None, str]:
    """Who gave the verdict of a gate that a person settles, and why; nobody at any other gate."""
    answered = [one for one in (node.questions or {}).values() if one.answer is not None]
    if node.op.inquiry is None or not answered:
        return None, ""
    return answered[-1].by, answered[-1].because


def _refuse(decision: Decision, node: NodeState, refused: GateRefused) -> None:
    """Send the work back while refusals are left; else veto what depends on it.

    A gate whose outcome was known before the run keeps its verdict (S48): there is no work to send back.
    """
    if (node.attempt or refused.by is not None) and send_back(decision, node, refused):
        return
    gate = node.op.gate
    spent = gate is not None and gate.refusals and node.refused >= gate.refusals
    decision.fact(
        GateRejected(
            refused.node, refused.verdict, refused.rationale, EXHAUSTED if spent else refused.cause,
            refused.by, refused.because,
        )
    )  # fmt: skip
    end_round(decision, node)
    if decision.state.cut_short:
        _overtake(decision, node)


def _overtake(decision: Decision, gate: NodeState) -> None:
    """Veto what is ready below a gate that has only now rejected, before it starts (law 6).

    It can be ready, because a node between them was cancelled while it still waited for the gate.
    """
    nodes = decision.state.nodes
    stack, seen = [gate], {gate.op.name}
    while stack:
        for edge in stack.pop().outs:
            node = nodes[edge.target]
            if edge.target in seen:
                continue
            seen.add(edge.target)
            stack.append(node)
            began = node.attempt and (node.generation == 1 or node.started_at)
            if node.status is Status.READY and not began:
                why = NodeVetoed(edge.target, (gate.op.name,), f"rejected by {gate.op.name}")
                decision.recommend(node, Status.VETOED, why)


def _open(decision: Decision, node: NodeState, approved: GateApproved) -> None:
    decision.fact(approved)
    end_round(decision, node)


def _undecided(decision: Decision, node: NodeState, gate: Gate, why: str) -> None:
    """Undecided does not open: hold (default), or what the flow's author chose."""
    if gate.on_undecided is Undecided.REJECT:
        _refuse(decision, node, GateRefused(node.op.name, None, why, cause="undecided"))
    elif gate.on_undecided is Undecided.PASS:
        _open(decision, node, GateApproved(node.op.name, None, because=f"on_undecided: pass ({why})"))
    else:
        decision.fact(GateUndecided(node.op.name, why))


def as_verdict(given: object) -> object:
    """The verdict that somebody means, however it is spelled; what is none stays as it is."""
    try:
        return VerdictValue(given).value  # type: ignore[arg-type]
    except ValueError:
        return given


def decide_gate(decision: Decision, node: NodeState, verdict: str, by: str, because: str) -> str | None:
    """A person decides an undecided gate; what is wrong with that, or None."""
    gate = node.op.gate
    if gate is None or node.judgement != "undecided":
        return f"{node.name} is not an undecided gate"
    return person_decides(decision, node, verdict, by, because)


def person_decides(decision: Decision, node: NodeState, verdict: str, by: str, because: str) -> str | None:
    """A person's verdict at a gate that has just settled or is undecided; what is wrong with it, or None."""
    gate = node.op.gate
    if gate is None:
        return f"{node.name} is no gate"
    try:
        value = VerdictValue(verdict).value
    except ValueError:
        return f"{verdict!r} is not one of {', '.join(VerdictValue)}"
    if gate_verdict(gate, value) == REJECT:
        _refuse(decision, node, GateRefused(node.op.name, value, because, by=by, because=because))
    else:
        _open(decision, node, GateApproved(node.op.name, value, by=by, because=because))
    return None
