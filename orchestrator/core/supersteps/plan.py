"""What a stepped run is asked to do: nodes, edges, joins, channels. Plain frozen data, journaled once."""

from __future__ import annotations

import msgspec

from orchestrator.core.spec import Operation, RoleSpec

__all__ = ["END", "START", "Join", "StepNode", "StepPlan", "reach_of"]

#: The name from which every input is routed, and the one to which nothing more follows.
START = "__start__"
END = "__end__"


class _Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of the plan's structs: keyword-only, frozen, unknown fields refused."""


class StepNode(_Spec, frozen=True):
    """One node of a stepped graph.

    Attributes:
        operation: retry, deadline, role and limits of each of its tasks; its name is the node's.
        targets: static edges in the order in which they were added.
        branches: nodes that its conditional edges and Commands may name; None is any node.
        deferred: it runs when nothing else is left to run.
    """

    operation: Operation
    targets: tuple[str, ...] = ()
    branches: tuple[str, ...] | None = ()
    deferred: bool = False

    @property
    def name(self) -> str:
        """The node's name."""
        return self.operation.name


class Join(_Spec, frozen=True):
    """An edge from a list of nodes: ``target`` runs when every source has settled."""

    sources: tuple[str, ...]
    target: str

    @property
    def name(self) -> str:
        """``a+b->c``: the identity of its arrivals."""
        return f"{'+'.join(self.sources)}->{self.target}"


class StepPlan(_Spec, frozen=True):
    """The graph of a stepped run.

    Attributes:
        nodes: in declaration order. entry: static edges from START. joins: edges from lists.
        channels: state key -> kind of its channel, for display; the functions stay in the runtime.
        roles: what the nodes' roles may emit.
    """

    nodes: tuple[StepNode, ...] = ()
    entry: tuple[str, ...] = ()
    joins: tuple[Join, ...] = ()
    channels: dict[str, str] = {}
    roles: tuple[RoleSpec, ...] = ()


def reach_of(plan: StepPlan) -> dict[str, frozenset[str]]:
    """Node -> every node that declared edges lead to from it, itself included."""
    every = tuple(node.name for node in plan.nodes)
    onward: dict[str, tuple[str, ...]] = {}
    for node in plan.nodes:
        joined = tuple(join.target for join in plan.joins if node.name in join.sources)
        onward[node.name] = (*node.targets, *joined, *(every if node.branches is None else node.branches))
    reach: dict[str, frozenset[str]] = {}
    for name in every:
        seen: dict[str, None] = {}
        stack = [name]
        while stack:
            one = stack.pop()
            if one in seen or one == END:
                continue
            seen[one] = None
            stack += onward.get(one, ())
        reach[name] = frozenset(seen)
    return reach
