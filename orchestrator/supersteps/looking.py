"""From the core's state to what people see: values, next, tasks, interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from orchestrator.core.facts import CheckpointSaved
from orchestrator.core.records import Record
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import LIVE, RunReason, Status
from orchestrator.core.supersteps.machine import SuperstepMachine
from orchestrator.core.supersteps.rules import steps_of
from orchestrator.core.supersteps.state import StepState
from orchestrator.core.supersteps.writes import written
from orchestrator.supersteps.blueprint import Blueprint
from orchestrator.supersteps.folding import folded
from orchestrator.supersteps.naming import own_run
from orchestrator.supersteps.results import Interrupt, StateSnapshot, StepResult, TaskFailure, TaskSnapshot
from orchestrator.supersteps.view import plain_state

__all__ = [
    "VERDICT",
    "Below",
    "asked",
    "failures_of",
    "history",
    "interrupts_of",
    "next_of",
    "nobody",
    "question_text",
    "result_of",
    "snapshot",
    "values_of",
]


#: The state of a child run, or None if there is none.
Below = Callable[[str], RunState | None]


def nobody(_run: str) -> None:
    """No child is looked at."""


#: Ends the id under which an undecided gate waits for a person's verdict.
VERDICT: Final = "verdict"


def question_text(value: Any, raw: bytes) -> str:
    """What is asked, as the text of a question: a plain text as it is, other data as JSON."""
    if isinstance(value, str) and isinstance(asked(value), str) and asked(value) == value:
        return value
    return raw.decode()


def asked(text: str) -> Any:
    """What :func:`question_text` was given."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def interrupts_of(state: RunState, below: Below = nobody) -> tuple[Interrupt, ...]:
    """Every open question, in the order of the tasks; those of a child stand where its task stands."""
    steps = steps_of(state)
    found = []
    for name, task in steps.active.items():
        node = state.nodes[name]
        if node.judgement == "undecided":
            text = f"a verdict: {node.rationale}"
            found.append(Interrupt(f"{name}:{VERDICT}", text, name, task.node, ""))
        if node.child_run and not node.child_ended and node.status in LIVE:
            found += _inner(name, below(own_run(state.run, task, node.child_run)), below)
        if node.status is not Status.ASKING:
            continue
        found += [
            Interrupt(f"{name}:{one.key}", asked(one.text), name, task.node, one.key)
            for one in (node.questions or {}).values()
            if one.answer is None
        ]
    return tuple(found)


def _inner(task: str, child: RunState | None, below: Below) -> Iterator[Interrupt]:
    """What a task's child asks."""
    if child is None or child.steps is None:
        return
    for one in interrupts_of(child, below):
        yield replace(one, id=f"{task}/{one.id}", namespace=(task, *one.namespace))


def failures_of(state: RunState) -> tuple[TaskFailure, ...]:
    """Every task that failed or whose write was refused, in order."""
    steps = steps_of(state)
    found = []
    for name, task in steps.active.items():
        failure = _failure(steps, state.nodes[name])
        if failure is not None:
            found.append(
                TaskFailure(name, task.node, failure.type, failure.message, state.nodes[name].attempt)
            )
    return tuple(found)


def _failure(steps: StepState, node: NodeState) -> Any:
    if node.op.name in steps.refused:
        return steps.refused[node.op.name][1]
    return node.error if node.status is Status.FAILED else None


def next_of(state: RunState) -> tuple[str, ...]:
    """Nodes that are still to run; when every task has finished and the boundary is not committed, all."""
    steps = steps_of(state)
    if not steps.open:
        return tuple(one.node for one in steps.frontier) or steps.deferred
    unfinished = tuple(
        task.node
        for name, task in steps.active.items()
        if state.nodes[name].status is not Status.COMPLETED or name in steps.refused
    )
    return unfinished or tuple(task.node for task in steps.active.values())


def values_of(blueprint: Blueprint, state: RunState, *, preview: bool = True) -> dict[str, Any]:
    """The state as data; ``preview``: with the writes of finished tasks."""
    steps = steps_of(state)
    raw = steps.channels
    if preview and steps.open:
        done = [
            (name, steps.instead.get(name, state.nodes[name].value))
            for name in steps.active
            if state.nodes[name].status is Status.COMPLETED and name not in steps.refused
        ]
        raw = folded(blueprint.channels, raw, done)
    return plain_state(blueprint.channels, raw)


def snapshot(
    blueprint: Blueprint,
    state: RunState,
    source: str,
    wall: int,
    *,
    preview: bool = True,
    below: Below = nobody,
) -> StateSnapshot:
    """How a thread stands."""
    steps = steps_of(state)
    interrupts = interrupts_of(state, below)
    tasks = tuple(_task(state, name, task.node, interrupts) for name, task in steps.active.items())
    at = datetime.fromtimestamp(wall / 1e9, UTC).isoformat(timespec="milliseconds")
    return StateSnapshot(
        values_of(blueprint, state, preview=preview), next_of(state), state.run, steps.checkpoint, steps.step,
        source, tasks, interrupts, at,
    )  # fmt: skip


def _task(state: RunState, name: str, node: str, interrupts: Iterable[Interrupt]) -> TaskSnapshot:
    steps, known = steps_of(state), state.nodes[name]
    failure = _failure(steps, known)
    result = None
    if known.status is Status.COMPLETED:
        result = {one.key: msgspec.json.decode(one.value) for one in written(known.value)}
    error = None if failure is None else TaskFailure(name, node, failure.type, failure.message, known.attempt)
    mine = tuple(one for one in interrupts if (*one.namespace, one.task)[0] == name)
    child = own_run(state.run, steps.active[name], known.child_run)
    return TaskSnapshot(name, node, known.status.value, result, error, mine, child)


def history(blueprint: Blueprint, records: Iterable[Record]) -> Iterator[StateSnapshot]:
    """A snapshot at each checkpoint, oldest first."""
    machine = SuperstepMachine()
    for record in records:
        machine.replay(record)
        saved = [fact for fact in record.facts if isinstance(fact, CheckpointSaved)]
        if saved:
            yield snapshot(blueprint, machine.state, saved[-1].source, record.wall, preview=False)


def result_of(blueprint: Blueprint, state: RunState, below: Below = nobody) -> StepResult:
    """What an invocation came to."""
    steps = steps_of(state)
    failures = failures_of(state) if steps.open else ()
    reason = RunReason(state.ended or state.suspended)
    if failures and not any(
        node.status in LIVE and node.status is not Status.ASKING for node in state.nodes.values()
    ):
        reason = RunReason.FAILED
    return StepResult(
        reason=reason,
        state=values_of(blueprint, state),
        thread_id=state.run,
        checkpoint=steps.checkpoint,
        next=next_of(state),
        interrupts=interrupts_of(state, below),
        failures=failures,
        detail=state.detail,
    )
