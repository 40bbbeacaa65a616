"""``Graph``: what a builder made, frozen. It holds no state of a run, so one graph may run many times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.expressions import compile_expression
from orchestrator.core.loops import loops_of
from orchestrator.core.spec import Artifact, Edge, Operation
from orchestrator.errors import CycleError, GraphError, UnknownNodeError
from orchestrator.flows.conditions import EdgeCondition
from orchestrator.flows.instances import element_names
from orchestrator.flows.names import suggestion
from roles import Role

__all__ = ["CONDITION_NAMES", "Graph", "find_cycle", "topological_order"]

#: Names that mean something in every condition, beside the nodes'.
CONDITION_NAMES = frozenset({"args", "context", "nodes", "emissions"})
#: What an edge's condition can name beside nodes.
_EDGE_NAMES = CONDITION_NAMES | {"result", "status"}


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of operations, ready to run.

    Attributes:
        name: what the run is called.
        operations: name -> operation, in declaration order.
        edges: in declaration order.
        roles: roles given by value; others are found by name when a session runs the graph.
        predicates: condition objects; ``Edge.predicate`` is an index into them.
        branches: live branches by name; None for one that the session makes if it has none of this name.
        artifacts: files that the run must leave.
        flows: included documents (``Flow``), by the path that their nodes name.
        returns: pydantic models that values are validated into, by node; the JSON Schema is on the operation.
        stepped: it is run in steps: its edges may lead from START, to END and back.
    """

    name: str
    operations: Mapping[str, Operation]
    edges: tuple[Edge, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)
    predicates: tuple[EdgeCondition, ...] = ()
    branches: Mapping[str, object] = field(default_factory=dict)
    returns: Mapping[str, type] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    flows: Mapping[str, Any] = field(default_factory=dict)
    stepped: bool = False
    #: what ``check`` found: a graph never changes, and one that runs often is looked at once
    _checked: list[tuple[str, ...]] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.operations)

    def check(self) -> tuple[str, ...]:
        """Refuse a graph that cannot run; takes time linear in nodes and edges.

        Returns:
            The nodes in topological order.

        Raises:
            CycleError: naming one cycle.
            UnknownNodeError: an edge or a condition names a node that does not exist.
            GraphError: nodes that share a branch are not ordered; a gate with refusals has nothing to send
                back.
        """
        if self._checked:
            return self._checked[0]
        self._check_names()
        order = topological_order(self.operations, [(edge.source, edge.target) for edge in self.edges])
        self._check_branches(order)
        self._check_loops()
        self._checked.append(order)
        return order

    def _check_names(self) -> None:
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in self.operations:
                    message = (
                        f"the edge {edge.source} -> {edge.target} names {end!r}, which does not exist"
                        f"{suggestion(end, self.operations)}"
                    )
                    raise UnknownNodeError(message)
            if edge.when is not None:
                where = f"when of the edge {edge.source} -> {edge.target}"
                self._check_names_of(edge.when, where, _EDGE_NAMES)
        for operation in self.operations.values():
            own = element_names(operation)
            taken = sorted(own & self.operations.keys())
            if taken:
                message = f"for_each of {operation.name} calls its elements {taken[0]!r}, which is a node"
                raise GraphError(f"{message}; choose another name")
            if operation.for_each is not None:
                where = f"for_each of {operation.name}"
                self._check_names_of(operation.for_each.over, where, CONDITION_NAMES)
            if operation.when is not None:
                names = CONDITION_NAMES | own
                self._check_names_of(operation.when, f"when of {operation.name}", names)

    def _check_names_of(self, text: str, where: str, roots: frozenset[str]) -> None:
        for path in compile_expression(text).paths:
            name = path.root
            if name in roots:
                if name != "nodes" or len(path.steps) == 1 or not isinstance(path.steps[1], str):
                    continue
                name = path.steps[1]
            if name in self.operations:
                continue
            hint = suggestion(name, [*sorted(roots), *self.operations])
            raise UnknownNodeError(f"{where} names {name!r}, which does not exist{hint}")

    def _check_loops(self) -> None:
        """Every gate with refusals has work above it that it can send back."""
        for name, loop in loops_of(tuple(self.operations.values()), self.edges).items():
            gate = self.operations[name].gate
            back_to = None if gate is None else gate.back_to
            if back_to is not None and back_to not in self.operations:
                raise UnknownNodeError(
                    f"back_to of {name} names {back_to!r}, which does not exist"
                    f"{suggestion(back_to, self.operations)}"
                )
            if not loop:
                what = f"back_to {back_to!r} is not above it" if back_to else "no node is above it"
                raise GraphError(
                    f"{name} has refusals, but {what}; name a node that {name} depends on, directly or not"
                )

    def _check_branches(self, order: tuple[str, ...]) -> None:
        sharing: dict[str, list[str]] = {}
        for name in order:
            branch = self.operations[name].branch
            if branch is not None:
                sharing.setdefault(branch, []).append(name)
        shared = {branch: names for branch, names in sharing.items() if len(names) > 1}
        if not shared:
            return
        below: dict[str, list[str]] = {}
        for edge in self.edges:
            below.setdefault(edge.source, []).append(edge.target)
        for branch, names in shared.items():
            pair = _unordered_pair(order, below, names)
            if pair:
                message = (
                    f"{pair[0]} and {pair[1]} share the branch {branch!r} and could run at once; "
                    f"make one depend on the other, or give them branches of their own"
                )
                raise GraphError(message)


def topological_order(names: Iterable[str], pairs: list[tuple[str, str]]) -> tuple[str, ...]:
    """Every name after all that it depends on, or CycleError naming one cycle."""
    waiting = dict.fromkeys(names, 0)
    below: dict[str, list[str]] = {}
    for source, target in pairs:
        waiting[target] += 1
        below.setdefault(source, []).append(target)
    order = [name for name, count in waiting.items() if count == 0]
    for name in order:  # grows while it is read
        for target in below.get(name, ()):
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    if len(order) < len(waiting):
        left = {name for name, count in waiting.items() if count > 0}
        raise CycleError(find_cycle([name for name in waiting if name in left], below, left))
    return tuple(order)


def find_cycle(names: list[str], below: Mapping[str, list[str]], left: set[str]) -> tuple[str, ...]:
    """One cycle among ``left``, the nodes that a topological sort could not place."""
    above: dict[str, str] = {}
    for source in names:
        for target in below.get(source, ()):
            if target in left:
                above.setdefault(target, source)
    # Every node that is left has a predecessor that is left: walking back must come round.
    seen: dict[str, int] = {}
    trail: list[str] = []
    node = names[0]
    while node not in seen:
        seen[node] = len(trail)
        trail.append(node)
        node = above[node]
    cycle = trail[seen[node] :][::-1]
    rank = {name: number for number, name in enumerate(names)}
    first = min(range(len(cycle)), key=lambda at: rank[cycle[at]])
    turned = cycle[first:] + cycle[:first]
    return (*turned, turned[0])


def _unordered_pair(
    order: tuple[str, ...], below: Mapping[str, list[str]], names: list[str]
) -> tuple[str, str] | None:
    """Two of ``names`` (in topological order) of which neither comes before the other, or None."""
    wanted = set(names)
    # The longest chain of wanted nodes that ends at or before each node, as far as its last member.
    depth: dict[str, int] = {}
    for name in order:
        reached = depth.get(name, 0) + (name in wanted)
        depth[name] = reached
        for target in below.get(name, ()):
            depth[target] = max(depth.get(target, 0), reached)
    for position, name in enumerate(names):
        if depth[name] != position + 1:
            return names[position - 1], name
    return None
