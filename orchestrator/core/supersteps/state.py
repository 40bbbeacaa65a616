"""What is true of a stepped run beside its tasks, which are nodes of the run like any other."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestrator.core.fact_base import Failure
from orchestrator.core.supersteps.agents import Agents
from orchestrator.core.supersteps.children import Children
from orchestrator.core.supersteps.plan import StepNode, StepPlan

__all__ = ["Activation", "Leaving", "Routed", "StepState", "task_name"]


class Activation(msgspec.Struct, frozen=True, gc=False):
    """One task: the node that runs, its place in the step, and what it was sent.

    ``name`` is its identity (supersteps.md 7): the node, the step of its thread, and for a Send its key or
    its number among the node's Sends. Steps are counted over the whole thread, so no name comes twice.
    ``instruction``, ``depth``: of a task that another one asked for.
    """

    name: str
    node: str
    send: bool = False
    arg: bytes | None = None
    key: str | None = None
    instruction: str = ""
    depth: int = 0

    @property
    def speaker(self) -> str:
        """Whose conversation it goes on with: the node's, or, of a Send, that of its key or its own."""
        if not self.send:
            return self.node
        return self.name if self.key is None else f"{self.node}.{self.key}"


class Routed(msgspec.Struct, frozen=True, gc=False):
    """One place that a task leads to."""

    to: str
    send: bool = False
    arg: bytes | None = None
    key: str | None = None


class Leaving(msgspec.Struct, frozen=True, gc=False):
    """Where a completed task leads beside its static edges, or instead of them."""

    routes: tuple[Routed, ...] = ()
    replaces: bool = False
    handled: Failure | None = None


class StepState(msgspec.Struct):
    """Channels, the step that goes on, and what the next one begins with."""

    plan: StepPlan = StepPlan()
    nodes: dict[str, StepNode] = {}
    reach: dict[str, frozenset[str]] = {}
    #: state key -> its JSON; a key that is not here is empty
    channels: dict[str, bytes] = {}
    #: state key -> number of the checkpoint that last changed it
    versions: dict[str, int] = {}
    #: counts steps over the thread
    step: int = 0
    checkpoint: int = 0
    #: the tasks of the step that goes on, in order; empty between two steps
    active: dict[str, Activation] = {}
    open: bool = False
    #: every task has its writes, which are to be folded
    settled: bool = False
    leaving: dict[str, Leaving] = {}
    #: tasks whose writes were refused
    refused: dict[str, tuple[str, Failure]] = {}
    #: writes that an operator gave instead of a task's own; None drops them
    instead: dict[str, bytes | None] = {}
    #: what the next step begins with
    frontier: tuple[Activation, ...] = ()
    arrivals: dict[str, tuple[str, ...]] = {}
    deferred: tuple[str, ...] = ()
    #: an input was taken, at some time
    given: bool = False
    #: a static breakpoint holds the frontier
    held: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    #: since the last input: steps, tasks, visits of each node
    steps: int = 0
    tasks: int = 0
    visits: dict[str, int] = {}
    #: node -> its newest task whose step is complete
    last: dict[str, Any] = {}
    agents: Agents = msgspec.field(default_factory=Agents)
    #: inputs that wait, as JSON
    queue: tuple[bytes, ...] = ()
    children: Children = msgspec.field(default_factory=Children)


def task_name(node: str, step: int, *, send: bool, number: int, key: str | None) -> str:
    """``plan@3``; of a Send ``plan@3.0`` by its number, or ``plan@3.mine`` by its key."""
    if not send:
        return f"{node}@{step}"
    return f"{node}@{step}.{number if key is None else key}"
