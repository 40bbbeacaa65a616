"""Copies of threads with the children that belong to them, and threads that are kept no longer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from orchestrator.core.facts import CheckpointSaved, RunStarted
from orchestrator.core.records import Record
from orchestrator.core.status import LIVE
from orchestrator.core.supersteps.writes import written
from orchestrator.errors import OperationError
from orchestrator.runtime.forking import copy_history
from orchestrator.runtime.stores import Store
from orchestrator.supersteps.naming import memory_of, memory_run, own_run
from orchestrator.supersteps.words import Overwrite

if TYPE_CHECKING:
    from orchestrator.supersteps.results import Interrupt
    from orchestrator.supersteps.threads import Thread, Threads

__all__ = ["answers_below", "copied", "copy_children", "delete", "family", "next_input", "rewind", "upto"]


def answers_below(given: Mapping[str, Any], open_: Sequence[Interrupt]) -> dict[str, dict[str, Any]]:
    """Task -> the answers that are for its child, by the ids that they have there."""
    found: dict[str, dict[str, Any]] = {}
    for one in open_:
        if one.id in given and one.namespace:
            task = one.namespace[0]
            found.setdefault(task, {})[one.id.removeprefix(f"{task}/")] = given[one.id]
    return found


def upto(thread_id: str, records: Sequence[Record], at: int) -> list[Record]:
    """The history of a thread up to the record that saved a checkpoint.

    Raises:
        OperationError: it has no such checkpoint.
    """
    for number, record in enumerate(records):
        if any(isinstance(fact, CheckpointSaved) and fact.checkpoint == at for fact in record.facts):
            return list(records[: number + 1])
    raise OperationError(f"thread {thread_id} has no checkpoint {at}")


def copied(
    store: Store,
    origin: str,
    records: Sequence[Record],
    new: str,
    change: str,
    parent: tuple[str, str] = ("", ""),
) -> None:
    """Begin a thread with the records of another one."""
    started = next(fact for fact in records[0].facts if isinstance(fact, RunStarted))
    log = store.new(new, started.name, "")
    try:
        copy_history(records, log, new, origin, change, parent)
    finally:
        store.close(new)


def copy_children(threads: Threads, origin: str, new: str) -> None:
    """Let a copy have children of its own: what they remember as of then, and those that wait."""
    store = threads.store
    state = threads.machine(new, store.records(new)).state
    steps = state.steps
    if steps is None:
        return
    for key, memory in steps.children.memories.items():
        own = memory_run(origin, key)
        source = own if store.exists(own) else memory.run
        goal = memory_run(new, key)
        if store.exists(goal) or not store.exists(source):
            continue
        shared = upto(source, store.records(source), memory.checkpoint)
        copied(store, source, shared, goal, "", (new, key))
        copy_children(threads, source, goal)
    for name, task in steps.active.items():
        node = state.nodes[name]
        if not node.child_run or node.status not in LIVE:
            continue
        source, goal = own_run(origin, task, node.child_run), own_run(new, task, node.child_run)
        if goal == memory_run(new, memory_of(task)) and store.exists(goal):
            # what it remembers was copied; it is in the midst of a call
            store.delete([goal])
        if store.exists(source) and not store.exists(goal):
            copied(store, source, store.records(source), goal, "", (new, name))
            copy_children(threads, source, goal)


def next_input(thread: Thread) -> dict[str, Any]:
    """The first of the inputs that wait."""
    found: dict[str, Any] = {}
    for one in written(thread.queue[0]):
        value = msgspec.json.decode(one.value)
        found[one.key] = Overwrite(value) if one.overwrite else value
    return found


def rewind(threads: Threads, run: str, checkpoint: int) -> None:
    """Let a child stand at a checkpoint, 0 being before its first input: what its parent knows of it.

    It is ahead where its parent's records were lost with a kill, or the turn that called it was replaced.

    Raises:
        OperationError: it has no such checkpoint.
    """
    state = threads.state(run)
    if state is None:
        return
    now = 0 if state.steps is None else state.steps.checkpoint
    if now == checkpoint:
        return
    store = threads.store
    shared = upto(run, store.records(run), checkpoint) if checkpoint else ()
    parent = (state.parent, state.parent_node)
    if not checkpoint:
        delete(threads, run)
        return
    # its own children are found ahead, and rewound, when they are called
    store.delete([run])
    threads.forget(run)
    copied(store, run, shared, run, "", parent)


def family(store: Store, run: str) -> Iterator[str]:
    """A run and every run below it."""
    parents = {}
    for one in store.below(run):
        records = store.records(one)
        started = [fact for record in records[:1] for fact in record.facts if isinstance(fact, RunStarted)]
        parents[one] = started[0].parent if started else run
    mine = {run}
    yield run
    while True:
        found = [one for one, parent in parents.items() if parent in mine and one not in mine]
        if not found:
            return
        mine.update(found)
        yield from found


def delete(threads: Threads, run: str) -> None:
    """Remove a thread and its children.

    Raises:
        RunOwnedError: it is being driven.
    """
    runs = list(family(threads.store, run))
    threads.store.delete(runs)
    for one in runs:
        threads.forget(one)
