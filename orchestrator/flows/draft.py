"""The state of a graph that is being built, and the one place where a node or an edge enters it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic

from orchestrator.core.encoding import changed
from orchestrator.core.spec import ALL_OUTCOMES, BUILDER_ACCEPTS, Edge, Operation
from orchestrator.errors import DuplicateNodeError, GraphError, OperationError, UnknownNodeError
from orchestrator.flows.conditions import Condition, EdgeCondition, check_condition
from orchestrator.flows.instances import check_kinds
from orchestrator.flows.names import suggestion
from orchestrator.flows.operations import check_name, default_name, make_gate, resolve
from roles import Role

__all__ = ["GraphDraft", "Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a node goes: what does not stand on the operation itself.

    Attributes:
        sources: its predecessors; None means the current heads.
        when: its condition, or one for each of its edges.
        branch: a name or a live branch.
        inherit: it starts from the first source's messages.
        returns: the type of its value.
    """

    sources: list[str] | None
    when: Condition | None = None
    branch: object = None
    inherit: bool = False
    returns: object = None


class GraphDraft:
    """Nodes, edges, heads and what was given by value; the builder's methods stand on these."""

    #: Outcomes under which an edge lives unless it says otherwise.
    accepts: tuple[str, ...] = BUILDER_ACCEPTS

    def __init__(self, name: str = "flow") -> None:
        """Start an empty graph; ``name`` is what its runs are called."""
        if not name:
            raise GraphError("the graph's name is empty; give a text")
        self.name = name
        self._operations: dict[str, Operation] = {}
        self._edges: dict[tuple[str, str], Edge] = {}
        self._heads: dict[str, None] = {}
        self._roles: dict[str, Role] = {}
        self._predicates: list[EdgeCondition] = []
        self._branches: dict[str, object] = {}
        self._returns: dict[str, type] = {}
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        """Number of nodes so far."""
        return len(self._operations)

    # -- placing --------------------------------------------------------------------------------

    def _place(
        self,
        node: Operation,
        cast: str | Role | None,
        put: Placement,
    ) -> str:
        sources, when, branch = put.sources, put.when, put.branch
        name = node.name
        check_name(name)
        if name in self._operations:
            free = self._numbered(name)
            raise DuplicateNodeError(f"a node {name!r} exists; give another node_id, such as {free!r}")
        before = list(self._heads) if sources is None else sources
        changes = self._bound(node, cast, branch)
        _, predicate = check_condition(when, name)
        if isinstance(when, str) and node.when != when.strip():
            if node.when is not None:
                raise OperationError(f"{name} has a condition already; join the two with and")
            changes["when"] = when.strip()
        if predicate is not None and not before:
            raise OperationError(
                f"when of {name} judges an edge, and {name} depends on nothing; name depends_on"
            )
        if put.inherit and before:
            changes["inherit"] = before[0]
        elif node.inherit is not None:
            self._known(node.inherit, f"inherit of {name}")
        made = changed(node, **changes)
        check_kinds(made)
        if predicate is not None:
            self._has_actor(before, name)
        # From here on nothing can fail: a refused call leaves no trace.
        if isinstance(cast, Role):
            self._roles[cast.name] = cast
        if node.branch is None and branch is not None and not isinstance(branch, str):
            self._branches[changes["branch"]] = branch
        shape = put.returns if put.returns is not None or not isinstance(cast, Role) else cast.returns
        if isinstance(shape, type) and issubclass(shape, pydantic.BaseModel):
            self._returns[name] = shape
        self._operations[name] = made
        self._heads[name] = None
        label = "sequential" if sources is None else None
        for source in before:
            self._connect(source, name, predicate, self.accepts, label)
        return name

    def _bound(self, node: Operation, cast: str | Role | None, branch: object) -> dict[str, Any]:
        """Fields that a role or branch given by value decides; one name means one of them."""
        changes: dict[str, Any] = {}
        if isinstance(cast, Role):
            known = self._roles.get(cast.name, cast)
            if known is not cast and known != cast:
                message = f"two different roles are called {cast.name!r}; rename one of them"
                raise OperationError(message)
            if node.role not in (None, cast.name):
                raise OperationError(f"{node.name} is of role {node.role!r}, not {cast.name!r}")
            if node.role is None:
                changes["role"] = cast.name
            make_gate(node.gate, node.name, cast)
        if branch is not None:
            changes["branch"] = self._branch_name(branch, node.name)
        return changes

    def _branch_name(self, branch: object, node: str) -> str:
        name = branch if isinstance(branch, str) else getattr(branch, "name", None)
        if not isinstance(name, str) or not name:
            message = (
                f"branch of {node} is {type(branch).__name__}; give the name of a branch, or a live branch"
            )
            raise OperationError(message)
        known = self._branches.get(name)
        if not isinstance(branch, str) and known is not None and known is not branch:
            raise OperationError(f"two different branches are called {name!r}; rename one of them")
        return name

    def _connect(
        self, source: str, target: str, when: Condition | None, accept: tuple[str, ...], label: str | None
    ) -> None:
        where = f"the edge {source} -> {target}"
        if source == target:
            raise GraphError(f"{source} cannot depend on itself; remove the edge or name another node")
        if (source, target) in self._edges:
            message = f"{where} exists; give its condition where it is made, and join two conditions with or"
            raise GraphError(message)
        text, predicate = check_condition(when, where)
        index = None
        if predicate is not None:
            self._has_actor((source,), target)
            index = len(self._predicates)
            self._predicates.append(predicate)
        self._edges[source, target] = Edge(
            source=source, target=target, when=text, predicate=index, accept=accept, label=label
        )
        self._heads.pop(source, None)

    def _has_actor(self, sources: Iterable[str], target: str) -> None:
        """An object is judged by its source's actor; a node that only gathers its instances has none."""
        for source in sources:
            if self._operations[source].for_each is not None:
                raise OperationError(
                    f"the edge {source} -> {target} has a condition object, and {source} has for_each: "
                    f"nothing runs there that could judge it; write the condition as text: 'len(result) > 0'"
                )

    # -- looking up -----------------------------------------------------------------------------

    def _sources(self, depends_on: object, node: str | None) -> list[str] | None:
        if depends_on is None:
            return None
        where = f"depends_on of {node}" if node else "depends_on"
        if isinstance(depends_on, str) or not isinstance(depends_on, Sequence):
            raise OperationError(f"{where} is {depends_on!r}; give a list of names, [] for a root")
        names = list(depends_on)
        for name in names:
            if name == node:
                raise GraphError(f"{node} cannot depend on itself; remove it from depends_on")
            self._known(name, where)
        if len(set(names)) < len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise GraphError(f"{where} names {twice!r} twice; name it once")
        return names

    def _known(self, name: object, where: str) -> None:
        if not isinstance(name, str) or name not in self._operations:
            message = f"{where} names {name!r}, which does not exist{suggestion(str(name), self._operations)}"
            raise UnknownNodeError(message)

    def _outcomes(self, accept: Iterable[str] | None, where: str) -> tuple[str, ...]:
        if accept is None:
            return self.accepts
        found = (accept,) if isinstance(accept, str) else tuple(accept)
        unknown = [outcome for outcome in found if outcome not in ALL_OUTCOMES]
        if unknown or not found:
            shown = ", ".join(ALL_OUTCOMES)
            raise OperationError(f"accept of {where} is {list(found)}; it may hold {shown}")
        return found

    def _free_name(self, operation: object, role: object) -> str:
        base = default_name(*resolve(operation, role))
        return base if base not in self._operations else self._numbered(base)

    def _numbered(self, base: str) -> str:
        """``base_2``, ``base_3``, ...; counts on from the last one, so that many stay linear."""
        number = self._numbers.get(base, 1) + 1
        while f"{base}_{number}" in self._operations:
            number += 1
        self._numbers[base] = number - 1
        return f"{base}_{number}"
