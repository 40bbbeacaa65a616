"""What roles add to a stepped run: tasks that they asked for, conversations, what earlier steps said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

__all__ = ["Agents", "Said", "Spawned"]


class Spawned(msgspec.Struct, frozen=True, gc=False):
    """A task that a task asked for, and that the next step begins with.

    Attributes:
        name: its identity. node: what runs. key: the part of the name behind the step.
        arg: its parameters. independent: it runs although the gate that asked for it rejects.
        depth: generations below a task that nobody asked for.
    """

    name: str
    node: str
    key: str
    arg: bytes
    instruction: str = ""
    independent: bool = False
    depth: int = 1


class Said(msgspec.Struct, frozen=True):
    """What a task of an earlier step emitted; ``entries`` are those of its ledger."""

    task: str
    node: str
    role: str | None
    entries: Sequence[Any]


class Agents(msgspec.Struct):
    """The part of a stepped run's state that only roles make use of."""

    #: task of this step -> what it asked for, in order
    spawned: dict[str, tuple[Spawned, ...]] = {}
    #: task of this step -> how many tasks it has asked for: the numbers in their names
    numbers: dict[str, int] = {}
    #: gates whose last verdict since the input rejected
    rejected: dict[str, None] = {}
    #: node, or Send that has a fork -> the record's name of its conversation
    branches: dict[str, str] = {}
    #: conversations of nodes as they stood when the step began: what forks begin with
    begun: dict[str, tuple[bytes, ...]] = {}
    #: what tasks of earlier steps emitted since the input, in order
    ledger: list[Said] = []
    #: of tasks that are behind us, since the input
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
