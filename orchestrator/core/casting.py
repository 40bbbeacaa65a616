"""Planner-cast runs: what a planner's TaskAssignments come to, all of what is wrong with them at once.

The tasks become planned nodes in the decision in which the planner completes: they are no spawns, and a
run that goes on does not ask the planner again (roles.md, TaskAssignment is the one plan format).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.core.commands import Finish
from orchestrator.core.decisions import Decision
from orchestrator.core.dispatch import wake
from orchestrator.core.facts import Failure, NodesPlanned, PlanRefused
from orchestrator.core.order import cycle_in
from orchestrator.core.payloads import GROWING, AssignmentPayload, read_assignment
from orchestrator.core.spec import DOCUMENT_ACCEPTS, Casting, Edge, Operation, RoleSpec, name_fault
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = ["cast_plan", "plan_faults", "refuse_plan"]

_TASK = "TaskAssignment"


def refuse_plan(decision: Decision, node: NodeState, command: Finish) -> bool:
    """Return a plan with faults to its planner once, then fail the planner naming them.

    Returns:
        False if there is nothing wrong with it.
    """
    casting = node.op.casting
    faults = () if casting is None else plan_faults(decision.state, node, casting)
    if not faults:
        return False
    if node.plan_faults:
        message = f"the plan was refused twice: {'; '.join(faults)}"
        failure = Failure("PlanError", message, command.attempt)
        failed = Finish(command.node, command.attempt, "failed", error=failure)
        decision.recommend(node, Status.FAILED, failed)
        return True
    freed = node.holds
    decision.fact(PlanRefused(command.node, command.attempt, faults))
    wake(decision, freed)
    decision.recommend(node, Status.RUNNING)
    return True


def plan_faults(state: RunState, node: NodeState, casting: Casting) -> tuple[str, ...]:
    """Everything that is wrong with the plan of a node's present attempt, one sentence each."""
    return tuple(_faults(state, casting, _tasks(node)))


def _tasks(node: NodeState) -> list[AssignmentPayload]:
    return [
        read_assignment(one.payload)
        for one in node.ledger
        if one.kind == _TASK and one.attempt == node.attempt
    ]


def _faults(state: RunState, casting: Casting, tasks: Sequence[AssignmentPayload]) -> Iterator[str]:
    if not tasks:
        yield "it holds no task; emit a TaskAssignment for each"
    if len(tasks) > casting.max_nodes:
        yield f"it holds {len(tasks)} tasks, at most {casting.max_nodes} are allowed (max_nodes)"
    names = [task.name for task in tasks]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{names.count(name)} tasks are called {name!r}"
        if name in state.nodes:
            yield f"a node {name!r} exists already"
        wrong = name_fault(name)
        if wrong is not None:
            yield wrong
    for task in tasks:
        if task.assignee not in casting.assignees:
            known = ", ".join(sorted(casting.assignees)) or "none"
            yield f"{task.name}: there is no assignee {task.assignee!r}; there are {known}"
        for other in task.depends_on:
            if other not in names:
                yield f"{task.name} depends on {other!r}, which is no task of the plan"
    path = cycle_in({task.name: [one for one in task.depends_on if one in names] for task in tasks})
    if path is not None:
        yield f"tasks wait for each other: {' -> '.join(path)}"


def cast_plan(decision: Decision, node: NodeState) -> None:
    """Make the planned nodes of a plan without faults; those that depend on no other follow the planner."""
    casting = node.op.casting
    if casting is None:
        return
    roles = decision.state.roles
    tasks = _tasks(node)
    operations = tuple(_operation(task, roles[task.assignee], casting) for task in tasks)
    edges = tuple(
        Edge(source=source, target=task.name, accept=DOCUMENT_ACCEPTS)
        for task in tasks
        for source in dict.fromkeys(task.depends_on or (node.op.name,))
    )
    decision.fact(NodesPlanned(node.op.name, operations, edges))


def _operation(task: AssignmentPayload, role: RoleSpec, casting: Casting) -> Operation:
    emits = None
    if role.name not in casting.reactive and any(kind in GROWING for kind in role.emits):
        emits = tuple(kind for kind in role.emits if kind not in GROWING)
    return Operation(
        name=task.name,
        role=role.name,
        parameters=task.inputs,
        instruction=task.instruction,
        emits=emits,
        needs="all",
        retry=role.retry,
        timeout=role.timeout,
        speaks=role.speaks,
        models=role.models,
    )
