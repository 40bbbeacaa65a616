"""What one rehearsed run showed: counted from its state when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from orchestrator.core.context import conflict_in, view_at_end, view_of
from orchestrator.core.expressions import compile_expression
from orchestrator.core.fans import FOR_EACH_ERROR
from orchestrator.core.scopes import edge_scope
from orchestrator.core.state import EdgeState, NodeState, RunState
from orchestrator.core.status import Status
from orchestrator.errors import OrchestratorError

__all__ = ["Fault", "Observed", "edge_name", "max_of", "observe", "refusals_of", "when_name"]

#: How nodes fail that were made to fail: by their stand-in, by a time limit, by what became
#: of an escalation, by a plan that its stand-in spoiled.
_REHEARSED: Final = frozenset(
    {"RehearsedFailure", "TimeoutError", "DeadlineExceeded", "GaveUp", "EscalationRefused", "PlanError"}
)
_CONFLICT: Final = "ContextConflictError"
_REFUSAL_OF: Final = {
    "spawns": "max_spawn_exceeded",
    "depth": "depth",
    "escalations": "escalation_exhausted",
}
#: What ``core.fans`` says of a list that is longer than it may be.
_TOO_MANY: Final = "and max is"
#: What stands in every failure that a stand-in raises.
_PLAYED: Final = "rehearsal:"


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure that nobody played: the flow's own."""

    node: str
    type: str
    message: str


@dataclass(slots=True)
class Observed:
    """One rehearsed run.

    Attributes:
        seed: of the rehearsal. mood: how its cast behaved. reason: why it stopped.
        nodes: how many there were. depth: generations below a planned node. active: nodes at once.
        outcomes: node -> how it settled, with why. ran: nodes that began.
        gates: gate -> whether it opened. conditions: name of a condition -> how it was judged.
        rounds: gate -> rounds that it took. conflicts: context key -> its writers, as they are told.
        faults: failures that nobody played.
        instances: node -> how many it had of ``for_each``.
        used: budget -> how much of it. refused: budget -> requests that it refused.
        ungated: (node, gate) of nodes that ran while a gate before them had no say, because work failed.
        broken: laws that did not hold. spoiled: nodes that were made to leave out what they promise.
    """

    seed: int
    mood: str
    reason: str = ""
    nodes: int = 0
    depth: int = 0
    active: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)
    gates: dict[str, bool] = field(default_factory=dict)
    conditions: dict[str, set[bool]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    conflicts: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    instances: dict[str, int] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    ungated: set[tuple[str, str]] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    spoiled: set[str] = field(default_factory=set)


def when_name(node: str, text: str) -> str:
    """What the condition of a node is called."""
    return f"{node} when {text.strip()}"


def max_of(node: str) -> str:
    """What the limit of a ``for_each`` node is called."""
    return f"max of {node}"


def refusals_of(gate: str) -> str:
    """What the limit of a gate's refusal loop is called."""
    return f"refusals of {gate}"


def edge_name(source: str, target: str, text: str) -> str:
    """What the condition of an edge is called."""
    return f"{source} -> {target} when {text.strip()}"


def observe(found: Observed, state: RunState, names: frozenset[str]) -> None:
    """Fill in what a run came to.

    Args:
        found: with seed and mood. state: of the run, at its end. names: the planned nodes.
    """
    found.reason = str(state.ended or state.suspended)
    found.nodes = len(state.nodes)
    found.depth = max((node.generations for node in state.nodes.values()), default=0)
    for node in state.nodes.values():
        name = _planned(node, names)
        found.outcomes[node.op.name] = _outcome(node)
        if _began(node):
            found.ran.add(name)
        if node.op.instance is not None:
            found.instances[name] = max(found.instances.get(name, 0), node.op.instance.index)
        if node.op.gate is not None and node.judgement is not None:
            found.gates[name] = found.gates.get(name, False) or node.judgement == "approved"
        for condition, held in _conditions(state, node, name):
            found.conditions.setdefault(condition, set()).add(held)
        _failure(found, state, node, name)
        found.ungated.update((name, gate) for gate in _passed_by(state, node) if {name, gate} <= names)
    conflict = conflict_in(state, view_at_end(state))
    if conflict is not None:
        found.conflicts[conflict.key] = str(conflict)
    _budgets(found, state)


def _planned(node: NodeState, names: frozenset[str]) -> str:
    """The planned node that a node stands for: itself, or the one whose work it took over."""
    if node.copies is not None:
        return node.copies
    if node.op.instance is not None:
        return node.op.instance.of.partition("@")[0]
    return node.origin if node.rungs and node.origin in names else node.op.name


def _began(node: NodeState) -> bool:
    return bool(node.attempt) or node.opened


def _outcome(node: NodeState) -> str:
    why = f"{node.error.type}: {node.error.message}" if node.error is not None else node.reason
    told = f": {why}" if why and node.status is not Status.COMPLETED else ""
    judged = f" ({node.judgement})" if node.judgement is not None else ""
    return f"{node.status.value}{judged}{told}"


def _conditions(state: RunState, node: NodeState, name: str) -> Iterator[tuple[str, bool]]:
    """How conditions that lead to a node were judged; one that could not be is a fault of its node."""
    when = node.op.when
    if when is not None and (_began(node) or node.reason == f"condition was false: {when}"):
        yield when_name(name, when), _began(node)
    for edge in node.ins:
        held = _held(state, edge)
        if held is not None:
            source = state.nodes[edge.spec.source]
            yield edge_name(source.copies or source.op.name, name, edge.spec.when or ""), held


def _held(state: RunState, edge: EdgeState) -> bool | None:
    """Whether the condition of an edge held; None if it has none or nobody asked."""
    source = state.nodes[edge.source]
    if edge.spec.when is None or source.status.value not in edge.spec.accept:
        return None
    try:
        return compile_expression(edge.spec.when).evaluate_bool(edge_scope(state, source))
    except OrchestratorError:
        return None


def _passed_by(state: RunState, node: NodeState) -> Iterator[str]:
    """Gates that a node that ran did not wait for: skipped, because something before them failed."""
    for edge in node.ins if node.attempt else ():
        gate = state.nodes[edge.source]
        if gate.op.gate is not None and gate.status is Status.SKIPPED and _broke_down(state, gate):
            yield gate.op.name


def _broke_down(state: RunState, node: NodeState) -> bool:
    """Whether a node was skipped for a failure, and not because a condition was false."""
    while node.status is Status.SKIPPED and node.blocked_by and node.reason.startswith("blocked by"):
        node = state.nodes[node.blocked_by]
    return node.status in (Status.FAILED, Status.CANCELLED)


def _failure(found: Observed, state: RunState, node: NodeState, name: str) -> None:
    error = node.error
    if error is None or node.status is not Status.FAILED:
        return
    conflict = conflict_in(state, view_of(state, node)) if error.type == _CONFLICT else None
    played = (
        error.type in _REHEARSED
        or _PLAYED in error.message
        or node.op.name in found.spoiled
        or (node.opened and error.type == FOR_EACH_ERROR)  # an instance failed: it tells itself why
    )
    if conflict is not None:
        found.conflicts[conflict.key] = str(conflict)
    elif error.type == FOR_EACH_ERROR and _TOO_MANY in error.message:
        found.refused[max_of(name)] = 1
    elif not played:
        found.faults.append(Fault(name, error.type, error.message))


def _budgets(found: Observed, state: RunState) -> None:
    for passed in state.rounds:
        found.rounds[passed.gate] = max(found.rounds.get(passed.gate, 0), passed.number)
        found.used[refusals_of(passed.gate)] = found.rounds[passed.gate] - 1
    for node in state.nodes.values():
        if node.spent:
            found.refused[refusals_of(node.copies or node.op.name)] = 1
    found.used |= {max_of(name): count for name, count in found.instances.items()}
    found.used |= {
        "spawns": state.spawns,
        "depth": found.depth,
        "escalations": state.escalations,
        "concurrency": found.active,
        "wall_clock": state.at / 1e9,
    }
    for budget, reason in _REFUSAL_OF.items():
        told = sum(1 for _, why, *_ in state.refused if why == reason)
        counted = sum(count for (_, why), count in state.counted_refusals.items() if why == reason)
        found.refused[budget] = told + counted
