"""Calling the graph of a node: a thread of its own below the one that calls, the child (supersteps.md 14).

The child's id is made from its parent's and the task, so an attempt that follows a crash, a question or a
failure finds the same child and goes on with it. It runs inside its task: it is cancelled with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from emissions import Refused
from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.records import Record
from orchestrator.core.spec import Budget
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import RunReason
from orchestrator.errors import ExecutionError
from orchestrator.runtime.wiring import HELD
from orchestrator.supersteps.leaving import commands_of, given_by
from orchestrator.supersteps.looking import failures_of
from orchestrator.supersteps.naming import call_run, memory_of, memory_run
from orchestrator.supersteps.telling import update_of
from orchestrator.supersteps.view import plain_state
from orchestrator.supersteps.words import Answers, Command, Overwrite

if TYPE_CHECKING:
    from orchestrator.supersteps.driving import Driver
    from orchestrator.supersteps.engine import StepEngine
    from orchestrator.supersteps.threads import Thread
    from orchestrator.supersteps.turns import StepTurn

__all__ = ["ChildRunError", "Followed", "call"]

_PAGE: Final = 256
_SUMMED: Final = ("tasks", "tokens", "cost_usd")


class ChildRunError(ExecutionError):
    """Raised in the task that called a graph when the child did not complete.

    Attributes:
        run: the child's id. reason: how it ended. failures: its failed tasks.
    """

    def __init__(self, run: str, reason: str, failures: Sequence[Any], detail: str) -> None:
        self.run, self.reason, self.failures = run, reason, tuple(failures)
        what = "; ".join(map(str, failures)) or detail or "see callboard show"
        super().__init__(f"run {run} ended {reason}: {what}")


class Followed:
    """A live child: what is done to its parent is done to it."""

    def __init__(self, engine: StepEngine) -> None:
        self.engine = engine

    def pause(self) -> None:
        """Start no more of its tasks."""
        self.engine.tell(c.Pause())

    def resume(self) -> None:
        """Go on after a pause."""
        self.engine.tell(c.Unpause())

    def drain(self) -> None:
        """Finish the step and stop."""
        self.engine.tell(c.Drain())


async def call(driver: Driver, engine: StepEngine, node: NodeState, turn: StepTurn) -> Any:
    """Drive the child of a task to its stop.

    Args:
        driver: of the child's graph.

    Returns:
        The Commands that the task gives, or HELD if the child was suspended.

    Raises:
        ChildRunError: it ended in another way than completed.
    """
    task, root = turn.task, engine.root
    calls = engine.steps.children.calls
    remembers = engine.blueprint.nodes[task.node].child_memory == "thread"
    key = memory_of(task)
    run = memory_run(engine.run_id, key) if remembers else call_run(engine.run_id, task)
    if engine.depth >= root.state.budget.depth:
        detail = f"depth: {engine.depth} graphs call each other here; grant depth to go deeper"
        engine.tell(c.ChildHeld(turn.node, turn.attempt, run, RunReason.BUDGET_EXHAUSTED, detail))
        return HELD
    if task.name not in calls:
        memory = engine.steps.children.memories.get(key) if remembers else None
        driver.rewind(run, 0 if memory is None else memory.checkpoint)
    with driver.threads.owned(run, driver.blueprint.name) as thread:
        before = calls.get(task.name, thread.checkpoint)
        await _announce(engine, turn, run, driver.blueprint.name, before)
        given = thread.checkpoint > before
        state = thread.machine.state
        # what a child that failed has used was counted then
        counted = given_by(_since_input(thread)).usage if node.child_ended and given else c.Usage()
        if not (given and state.ended == RunReason.COMPLETED):
            if given and _waits_on(engine, task.name, state.suspended):
                return _held(engine, turn, run, state)
            child = await _begun(driver, engine, turn, thread, given=given)
            await _followed(engine, turn, child)
            if child.kernel.fault is not None:
                raise ExecutionError(f"run {run} halted: {child.kernel.fault}")
            state = child.state
        if not state.ended:
            return _held(engine, turn, run, state)
        return _ended(driver, engine, turn, thread, counted)


def _held(engine: StepEngine, turn: StepTurn, run: str, state: RunState) -> Any:
    """The child is suspended, and so is its task."""
    tasks = 0 if state.steps is None else state.steps.tasks + state.steps.children.tasks
    engine.tell(c.ChildHeld(turn.node, turn.attempt, run, state.suspended, state.detail, tasks))
    return HELD


async def _announce(engine: StepEngine, turn: StepTurn, run: str, name: str, before: int) -> None:
    """The parent has the child on record before the child has its input."""
    receipts = engine.tell(c.ChildStarted(turn.node, turn.attempt, run, name, checkpoint=before))
    if receipts and isinstance(receipts[-1], Refused):
        raise ExecutionError(f"run {run} was not started: {receipts[-1].detail}")
    await engine.kernel.durable(engine.kernel.submitted)


def _waits_on(engine: StepEngine, task: str, suspended: str) -> bool:
    """True if the child waits for a person, and this drive has answers for others only."""
    waits = suspended in {RunReason.AWAITING_ANSWER, RunReason.GATE_UNDECIDED}
    return waits and bool(engine.answered) and task not in engine.answers


async def _begun(
    driver: Driver, engine: StepEngine, turn: StepTurn, thread: Thread, *, given: bool
) -> StepEngine:
    """The child's engine, with its input, or with what lets it go on."""
    share = _share(engine)
    if not given:
        what: Any = _input(driver, engine, turn)
        grant: Mapping[str, float] = {}
    else:
        answers = engine.answers.pop(turn.node, None)
        what = Command(resume=None if answers is None else Answers(answers))
        grant = _raised(thread, engine, share)
        if thread.machine.state.ended and _changed(driver, engine, turn, thread):
            # what it failed on was put right above: it begins again with that
            what, grant = _input(driver, engine, turn), {}
    return await driver.child(engine, turn.node, thread, what, (share, grant))


def _input(driver: Driver, engine: StepEngine, turn: StepTurn) -> dict[str, Any]:
    """What the child is given: what was sent, or the keys that both graphs have."""
    if turn.task.send:
        given = msgspec.json.decode(turn.task.arg or b"null")
        return dict(given) if isinstance(given, dict) else {"arg": given}
    own, above = driver.blueprint.channels, engine.blueprint.channels
    shared = {key: channel for key, channel in above.items() if key in own and own[key].tracked}
    state = plain_state(shared, {key: raw for key, raw in turn.snapshot.items() if key in shared})
    if engine.blueprint.nodes[turn.task.node].child_memory == "call":
        return state
    # what it remembers of a shared key the parent has as well
    return {key: Overwrite(value) for key, value in state.items()}


def _changed(driver: Driver, engine: StepEngine, turn: StepTurn, thread: Thread) -> bool:
    """True if the parent's state is another one than the child began with."""
    if turn.task.send or engine.blueprint.nodes[turn.task.node].child_memory != "call":
        return False
    first = _since_input(thread)[0]
    update = next(fact for fact in first.facts if isinstance(fact, f.StateUpdated))
    began = {one.key: bytes(first.values[one.value]) for one in update.patches if one.value is not None}
    return began != update_of(driver.blueprint, {}, _input(driver, engine, turn), "input")[2]


def _share(engine: StepEngine) -> Budget:
    """What a child may use: its own number of steps, and what is left of what the whole tree has."""
    state = engine.state
    budget, steps = state.budget, engine.steps
    used = {"tasks": steps.tasks + steps.children.tasks, "tokens": state.tokens, "cost_usd": state.cost_usd}

    def left(name: str) -> Any:
        limit = getattr(budget, name)
        return None if limit is None else max(0, limit - used[name])

    return Budget(
        depth=budget.depth,
        spawns=budget.spawns,
        concurrency=budget.concurrency,
        tasks=left("tasks"),
        tokens=left("tokens"),
        cost_usd=left("cost_usd"),
    )


def _raised(thread: Thread, engine: StepEngine, share: Budget) -> dict[str, float]:
    """What a child that goes on may use more of: what its parent has left by now, and what was granted."""
    state = thread.machine.state
    steps = state.steps
    assert steps is not None
    used = {"tasks": steps.tasks + steps.children.tasks, "tokens": state.tokens, "cost_usd": state.cost_usd}
    grant: dict[str, float] = {}
    for name in _SUMMED:
        present, left = getattr(state.budget, name), getattr(share, name)
        if present is None or left is None:
            continue
        # what a child that is suspended has used of the others is not counted above yet
        more = left + (used[name] if name == "tasks" or state.ended else 0) - present
        if more > 0:
            # a grant of tasks counts from what is used, the others from the limit
            grant[name] = left if name == "tasks" else more
    if state.suspended == RunReason.BUDGET_EXHAUSTED:
        grant |= {name: more for name, more in engine.grant.items() if name in {"steps", "visits"}}
    return grant


async def _followed(engine: StepEngine, turn: StepTurn, child: StepEngine) -> None:
    """Run a child; what is done to its parent meanwhile is done to it."""
    engine.family.children[turn.node] = Followed(child)
    engine.root.tree[child.run_id] = child
    if engine.root.seen is not None:
        engine.root.seen.append(child)
    try:
        await child.run()
    finally:
        engine.family.children.pop(turn.node, None)
        engine.root.tree.pop(child.run_id, None)


def _since_input(thread: Thread) -> list[Record]:
    """The records of a thread from its last input on."""
    found: list[Record] = []
    stop = len(thread.journal)
    while stop > 0:
        start = max(0, stop - _PAGE)
        page = list(thread.journal.read(start, stop))
        for number in range(len(page) - 1, -1, -1):
            if any(isinstance(one, f.StateUpdated) and one.source == "input" for one in page[number].facts):
                return [*page[number:], *found]
        found, stop = [*page, *found], start
    return found


def _ended(
    driver: Driver, engine: StepEngine, turn: StepTurn, thread: Thread, counted: c.Usage
) -> list[Command]:
    """Count what the child used, and give what it comes to."""
    state = thread.machine.state
    steps = state.steps
    assert steps is not None
    given = given_by(_since_input(thread))
    completed = state.ended == RunReason.COMPLETED
    engine.tell(
        c.ChildEnded(
            turn.node,
            turn.attempt,
            thread.id,
            state.ended,
            usage=_less(given.usage, counted),
            tasks=steps.tasks + steps.children.tasks,
            # a child that failed is remembered as it was before
            checkpoint=steps.checkpoint if completed else 0,
        )
    )
    if not completed:
        raise ChildRunError(thread.id, state.ended, failures_of(state) if steps.open else (), state.detail)
    return commands_of(given, driver.blueprint.channels, engine.blueprint.channels, steps.channels)


def _less(usage: c.Usage, before: c.Usage) -> c.Usage:
    cost = None if usage.cost_usd is None else max(0.0, usage.cost_usd - (before.cost_usd or 0.0))
    return c.Usage(
        max(0, usage.requests - before.requests),
        max(0, usage.input_tokens - before.input_tokens),
        max(0, usage.output_tokens - before.output_tokens),
        cost,
    )
