"""One decision: the facts that a command leads to, and the queue of what they recommend.

A rule reads the state, appends facts and recommends; it never calls another transition. Each fact is
applied as it is appended, so that the next rule sees its effect (engine.md 6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from emissions import Receipt
from orchestrator.core.apply import APPLY
from orchestrator.core.commands import Command
from orchestrator.core.facts import Fact
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import Status

__all__ = ["Decision", "Why"]

#: What a recommendation carries: the command's part or a reason in words.
Why = object


class Decision:
    """What is being decided. It is a frame for ``apply``.

    Attributes:
        state: the run, changed only by :meth:`fact`.
        command, at, values: the input: what is asked, when, and the JSON it refers to; :meth:`value` adds.
        facts: what was decided so far, in order.
        cause: number of the fact that led to the command; 0 if it came from outside.
        receipts: answers to the emissions of the command, in their order.
    """

    __slots__ = ("at", "cause", "command", "facts", "queue", "receipts", "state", "values")

    def __init__(
        self,
        state: RunState,
        command: Command,
        at: int,
        values: Sequence[bytes],
        queue: deque[tuple[NodeState, Status | None, Why]] | None = None,
    ) -> None:
        """``queue``: an empty one to use again; every decision leaves it empty."""
        self.state = state
        self.command = command
        self.at = at
        self.cause = 0
        self.values = values
        self.facts: list[Fact] = []
        self.receipts: list[Receipt] = []
        self.queue = deque() if queue is None else queue

    def fact(self, fact: Fact) -> None:
        """Decide ``fact``: it is true from here on."""
        self.facts.append(fact)
        self.state.facts += 1
        APPLY[type(fact)](self.state, fact, self)

    def value(self, raw: bytes) -> int:
        """Position of JSON that the decision itself made; what stands in the record already stands once."""
        if raw not in self.values:
            self.values = [*self.values, raw]
        return self.values.index(raw)

    def recommend(self, node: NodeState, to: Status, why: Why = None) -> None:
        """Say what a node should become; the settle loop carries it out in turn."""
        self.queue.append((node, to, why))

    def due(self, node: NodeState) -> None:
        """Say that every predecessor of ``node`` has let go: it is to be judged."""
        self.queue.append((node, None, None))
