"""A compiled graph as data and functions: what every run of it shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orchestrator.core.supersteps.plan import StepPlan
from orchestrator.supersteps.casting import Cast
from orchestrator.supersteps.channels import Channel
from roles import Role

if TYPE_CHECKING:
    from orchestrator.supersteps.caching import Caching
    from orchestrator.supersteps.subgraphs import Subgraph

__all__ = ["Blueprint", "Branching", "NodeSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branching:
    """One conditional edge.

    Attributes:
        path: ``fn(state)``, plain or async, gives a name, a Send, or a list of them.
        mapping: what it gives -> node; None: it gives nodes.
        reads_result: it is called as ``fn(state, result)``, with what its node gave.
    """

    path: Callable[..., Any]
    mapping: Mapping[Any, str] | None = None
    reads_result: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node.

    Attributes:
        fn: ``async def fn(state, turn=None)``. takes_turn: it wants the turn as well.
        handler: ``async def fn(state, error)``, called when the last attempt failed.
        timeout: seconds of one attempt. branches: its conditional edges, in order.
        role: who performs it in place of ``fn``. writes: the state key of the value.
        performed: a role, or a person, performs it.
        child: the graph that is called in place of ``fn``.
        cache: how what it writes is kept for an equal input.
    """

    name: str
    fn: Callable[..., Any]
    takes_turn: bool = False
    handler: Callable[..., Any] | None = None
    timeout: float | None = None
    branches: tuple[Branching, ...] = ()
    role: Role | None = None
    writes: str | None = None
    performed: bool = False
    cache: Caching | None = None
    child: Subgraph | None = None

    @property
    def child_memory(self) -> str:
        """``call`` or ``thread``; empty for a node that is no graph."""
        return "" if self.child is None else self.child.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """Nodes, channels and the plan of which the core knows.

    Attributes:
        entry: conditional edges from START. step_timeout: seconds of a whole step, or None.
        cast: who performs the nodes that have a role.
    """

    name: str
    plan: StepPlan
    nodes: Mapping[str, NodeSpec]
    channels: Mapping[str, Channel]
    entry: tuple[Branching, ...] = ()
    step_timeout: float | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    digest: str = field(default="")
    cast: Cast = field(default_factory=Cast)
