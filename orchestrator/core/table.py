"""The transition table: the only ways from one status to another.

Rule 1: everything that changes where a node stands is in this table. What is not in it is not allowed,
and the error that says so carries the node's story.

Rule 2: a rule decides facts and *recommends* further transitions; it never carries one out. The settle
loop drains recommendations in order until there are none, so two rules never run inside each other.

Rule 3: a status leads to the same function whatever asked for it: a cancelled node is cancelled by one
function whether a person, a stopping run or a failed sibling wanted it.

A ``for_each`` node adds none either: it waits for its predecessors, then for its instances (core/fans.py).

A refusal loop adds no status: a gate that refuses with refusals left adds the nodes of a new round
(``rounds.py``) instead of vetoing, in the rule of its settling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.core import fanning, outcomes, restoring
from orchestrator.core.control import begin_asking
from orchestrator.core.decisions import Decision
from orchestrator.core.dispatch import start
from orchestrator.core.readiness import judge
from orchestrator.core.state import NodeState
from orchestrator.core.status import TERMINAL, Status
from orchestrator.errors import InternalError

__all__ = ["TRANSITIONS", "IllegalTransition", "settle"]

#: Any: the table pairs each transition with what its recommendations carry.
Rule = Callable[[Decision, NodeState, Any], None]

S = Status

TRANSITIONS: Mapping[tuple[Status, Status], Rule] = {
    (S.WAITING, S.READY): outcomes.become,
    (S.WAITING, S.SKIPPED): outcomes.become,
    (S.WAITING, S.VETOED): outcomes.become,
    (S.WAITING, S.FAILED): outcomes.fail_waiting,
    (S.WAITING, S.CANCELLED): outcomes.cancel,
    (S.WAITING, S.COMPLETED): fanning.complete_waiting,
    (S.WAITING, S.ESCALATED): restoring.restore,
    (S.READY, S.RUNNING): start,
    (S.READY, S.VETOED): outcomes.become,
    (S.READY, S.FAILED): outcomes.fail_waiting,
    (S.READY, S.CANCELLED): outcomes.cancel,
    (S.RUNNING, S.COMPLETED): outcomes.complete,
    (S.RUNNING, S.FAILED): outcomes.fail,
    (S.RUNNING, S.ESCALATED): outcomes.hand_up,
    (S.RUNNING, S.SKIPPED): outcomes.decline,
    (S.RUNNING, S.BACKING_OFF): outcomes.back_off,
    (S.RUNNING, S.ASKING): begin_asking,
    (S.RUNNING, S.STOPPING): outcomes.stop,
    (S.RUNNING, S.READY): outcomes.close_model,
    (S.STOPPING, S.CANCELLED): outcomes.cancel,
    (S.STOPPING, S.FAILED): outcomes.stop_as_failed,
    (S.STOPPING, S.READY): outcomes.give_back,
    (S.BACKING_OFF, S.READY): outcomes.ready_again,
    (S.BACKING_OFF, S.FAILED): outcomes.fail_waiting,
    (S.BACKING_OFF, S.CANCELLED): outcomes.cancel,
    (S.ASKING, S.READY): outcomes.ready_again,
    (S.ASKING, S.COMPLETED): outcomes.complete,
    (S.ASKING, S.FAILED): outcomes.fail,
    (S.ASKING, S.ESCALATED): outcomes.hand_up,
    (S.ASKING, S.SKIPPED): outcomes.decline,
    (S.ASKING, S.BACKING_OFF): outcomes.back_off,
    (S.ASKING, S.CANCELLED): outcomes.cancel,
}


class IllegalTransition(InternalError):  # noqa: N818 (it is named for what happened)
    """Raised when a rule recommends what the table does not allow.

    Attributes:
        node: the node's name. what: the transition in words.
    """

    def __init__(self, node: str, what: str) -> None:
        self.node, self.what = node, what
        super().__init__(what)


def settle(decision: Decision) -> None:
    """Carry out recommendations, first in first out, until there are none."""
    queue = decision.queue
    while queue:
        node, to, why = queue.popleft()
        if to is None:
            if node.status is not Status.WAITING or node.pending:
                continue
            to, why = judge(decision.state, node)
            if isinstance(why, fanning.Opened):
                # no other status: it waits for its instances from here on
                fanning.open_instances(decision, node, why)
                continue
        rule = TRANSITIONS.get((node.status, to))
        if rule is None:
            if _overtaken(node, to):
                continue
            what = f"{node.op.name} cannot go from {node.status.value} to {to.value}"
            raise IllegalTransition(node.op.name, what)
        rule(decision, node, why)


def _overtaken(node: NodeState, to: Status) -> bool:
    """Two recommendations of one decision may meet: the first to be carried out stands.

    A node that was stopped, vetoed or settled in the meantime no longer starts, and nothing that has
    settled settles again.
    """
    if to is Status.RUNNING:
        return node.status is not Status.WAITING
    return node.status is to or node.status in TERMINAL or node.status is Status.STOPPING
