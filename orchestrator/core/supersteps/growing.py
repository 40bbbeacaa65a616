"""What emissions do in a stepped run (engine.md 31): a request to grow becomes a Send at the boundary.

Whether an emission is granted at all is decided where that is decided for every run, in ``core.emitting``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from emissions import Refused
from orchestrator.core.commands import EmissionIn
from orchestrator.core.decisions import Decision
from orchestrator.core.escalation import request_escalation
from orchestrator.core.payloads import read_assignment, read_escalation, read_spawn
from orchestrator.core.refusing import refuse, refuse_growth
from orchestrator.core.spec import RoleSpec
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.supersteps.facts import TaskSpawned, TasksWithdrawn
from orchestrator.core.supersteps.state import StepState, task_name

__all__ = ["STEP_ACTS", "withdraw"]

#: A published instruction is cut here, as in a graph; the request in the ledger holds the whole.
_LIMIT = 100_000
#: Of a SpawnRequest: what only a graph has, and why a step does not need it.
_ONLY_IN_GRAPHS = (
    "a stepped run has no {}: the task runs in the next step, what it writes is read in the one after"
)


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A task that somebody wants, before it was checked."""

    assignee: str | None
    verb: str = "operate"
    instruction: str = ""
    parameters: bytes = b"{}"
    independent: bool = False
    reason: str = ""
    key: str | None = None
    fault: str = ""


def _spawn(decision: Decision, node: NodeState, emission: EmissionIn, payload: bytes) -> str | Refused:
    try:
        request = read_spawn(payload)
    except msgspec.ValidationError as error:
        return refuse_growth(decision, node, "invalid", f"SpawnRequest: {error}", key=emission.key)
    orders = [name for name in ("after", "before", "inherit") if getattr(request, name)]
    asked = _Asked(
        request.assignee, request.operation, request.instruction, bytes(request.parameters),
        request.independent, request.reason or "", request.key, " and no ".join(orders),
    )  # fmt: skip
    return _send(decision, node, asked)


def _assign(decision: Decision, node: NodeState, _emission: EmissionIn, payload: bytes) -> str | Refused:
    task = read_assignment(payload)
    fault = "depends_on" if task.depends_on else ""
    asked = _Asked(task.assignee, "operate", task.instruction, bytes(task.inputs), key=task.name, fault=fault)
    return _send(decision, node, asked)


def _send(decision: Decision, emitter: NodeState, asked: _Asked) -> str | Refused:
    """Check everything, then let the task be sent; a refusal leaves no trace but itself."""
    state = decision.state
    steps = _steps(state)
    target, fault = _fault(state, steps, emitter, asked)
    if fault is not None:
        return refuse_growth(decision, emitter, *fault, assignee=asked.assignee, key=asked.key)
    task = steps.active[emitter.op.name]
    agents = steps.agents
    number = agents.numbers.get(task.name, 0) + 1
    key = f"{task.node}{task.name.removeprefix(f'{task.node}@{steps.step}').replace('.', '-', 1)}-{number}"
    name = task_name(target, steps.step + 1, send=True, number=0, key=key)
    decision.fact(
        TaskSpawned(
            emitter.op.name, name, target, key, asked.assignee, decision.value(asked.parameters),
            asked.instruction[:_LIMIT], asked.reason, asked.independent, task.depth + 1,
        )
    )  # fmt: skip
    return name


def _fault(
    state: RunState, steps: StepState, emitter: NodeState, asked: _Asked
) -> tuple[str, tuple[str, str] | None]:
    """The node that is meant, and the first check that fails as reason and detail."""
    budget = state.budget
    if state.spawns >= budget.spawns:
        text = f"all {budget.spawns} spawns of this run are used; raise budget.spawns to allow more"
        return "", ("max_spawn_exceeded", text)
    pending = sum(map(len, steps.agents.spawned.values()))
    if budget.tasks is not None and steps.tasks + pending >= budget.tasks:
        text = f"all {budget.tasks} tasks of this run are used or asked for; raise budget.tasks to allow more"
        return "", ("max_spawn_exceeded", text)
    if asked.fault:
        return "", ("invalid", _ONLY_IN_GRAPHS.format(asked.fault))
    if state.cancelling:
        return "", ("closing", "the run is ending")
    depth = steps.active[emitter.op.name].depth
    if depth >= budget.depth:
        text = f"{emitter.name} is {depth} generations below a planned task; budget.depth is {budget.depth}"
        return "", ("depth", text)
    target, fault = _target(steps, emitter, asked.assignee)
    if fault:
        return "", ("unknown_assignee", fault)
    operation = steps.nodes[target].operation
    role = state.roles.get(operation.role or "")
    if role is not None and (fault_of_role := _role_fault(state, role, asked.verb)) is not None:
        return "", fault_of_role
    return target, None


def _role_fault(state: RunState, role: RoleSpec, verb: str) -> tuple[str, str] | None:
    allowed = state.budget.assignees
    if allowed is not None and role.name not in allowed:
        return "assignee_not_allowed", f"budget.assignees does not list {role.name!r}"
    if verb not in role.verbs:
        return "verb_not_allowed", f"{role.name!r} performs {', '.join(role.verbs)}, not {verb!r}"
    return None


def _target(steps: StepState, emitter: NodeState, asked: str | None) -> tuple[str, str]:
    """The node that an assignee means, by its own name or by its role; or what is wrong with it."""
    own = steps.active[emitter.op.name].node
    if asked is None or asked in steps.nodes:
        return asked or own, ""
    found = [name for name, node in steps.nodes.items() if node.operation.role == asked]
    if len(found) == 1 or own in found:
        return (own if own in found else found[0]), ""
    if found:
        return "", f"{asked!r} performs {', '.join(found)}; name the node that is meant"
    return "", f"{asked!r} is no node of this graph and performs none; nodes: {', '.join(steps.nodes)}"


def _escalate(
    decision: Decision, node: NodeState, emission: EmissionIn, payload: bytes
) -> str | Refused | None:
    """A notice and a give-up are what they are in a graph; there is no tier to hand a task up to."""
    if read_escalation(payload).effective_route == "higher_tier":
        detail = (
            f"{node.name} is a task of a step: nothing waits for it that another tier could be spliced to; "
            "let an edge or a Command lead to a node with a stronger model"
        )
        return refuse(decision, node, emission, "no_higher_tier", detail)
    return request_escalation(decision, node, emission, payload)


def withdraw(decision: Decision, task: str, reason: str, *, independent: bool = False) -> None:
    """Let tasks that ``task`` asked for not be sent; ``independent``: those that depend on nobody as well."""
    asked = _steps(decision.state).agents.spawned.get(task, ())
    names = tuple(one.name for one in asked if independent or not one.independent)
    if names:
        decision.fact(TasksWithdrawn(task, names, reason))


def _steps(state: RunState) -> StepState:
    assert state.steps is not None
    return state.steps


#: As in a graph: each gives the name of the task that it made, None, or the refusal.
STEP_ACTS: Mapping[str, Callable[[Decision, NodeState, EmissionIn, bytes], str | Refused | None]] = {
    "SpawnRequest": _spawn,
    "TaskAssignment": _assign,
    "EscalationRequest": _escalate,
}
