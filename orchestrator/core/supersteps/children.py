"""What a stepped run keeps of the child runs that its nodes call (supersteps.md 14)."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["PARENT", "Children", "Memory", "call_begun", "call_ended", "count_tasks", "memory_key"]

#: Where a task leads that leaves its graph for the one that called it.
PARENT = "__parent__"


class Memory(msgspec.Struct, frozen=True, gc=False):
    """A child whose state outlives the call: its run, and the checkpoint at which it last ended."""

    run: str
    checkpoint: int


class Children(msgspec.Struct):
    """The part of a stepped run's state that only nodes with a graph of their own make use of."""

    #: task of this step -> checkpoint of its child before this call: what came later is this call's
    calls: dict[str, int] = {}
    #: node, with the key or number of a Send -> where its child stood when it last ended
    memories: dict[str, Memory] = {}
    #: task of this step -> tasks of its child; and all of them since the input
    counted: dict[str, int] = {}
    tasks: int = 0


def call_begun(children: Children, fact: Any) -> None:
    """A task called its child; again, if it is attempted again, which goes on with the same call."""
    children.calls.setdefault(fact.node, fact.checkpoint)


def count_tasks(children: Children, fact: Any) -> None:
    """A child has stopped: what it has run so far counts here."""
    children.tasks += fact.tasks - children.counted.get(fact.node, 0)
    children.counted[fact.node] = fact.tasks


def memory_key(node: str, task: str, *, send: bool) -> str:
    """What a child's memory is kept under: the node's name, and the key or number of a Send."""
    return f"{node}.{task.rpartition('.')[2]}" if send else node


def call_ended(children: Children, key: str, fact: Any) -> None:
    """The child has ended: what it ran counts here, and a later call finds what it remembers."""
    count_tasks(children, fact)
    if fact.checkpoint:
        children.memories[key] = Memory(fact.run, fact.checkpoint)
