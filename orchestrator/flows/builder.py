"""``OperationGraphBuilder``: constructs a graph, and never runs one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from orchestrator.core.encoding import changed
from orchestrator.core.spec import Operation
from orchestrator.errors import OperationError
from orchestrator.flows.conditions import Condition, Negated, check_condition
from orchestrator.flows.draft import GraphDraft, Placement
from orchestrator.flows.expansion import ExpansionStrategy, arrange, item_parameters
from orchestrator.flows.graph import Graph
from orchestrator.flows.json_values import json_object
from orchestrator.flows.operations import create_operation, resolve
from roles import Role

__all__ = ["OperationGraphBuilder"]

What = str | Role | Operation


class OperationGraphBuilder(GraphDraft):
    """Collects operations and edges; ``get_graph`` gives the frozen graph.

    Every method checks its arguments at once: a name that does not exist, a name that exists
    already or a value that cannot be journaled is an error here, and nothing was added.
    """

    def add_operation(
        self,
        operation: What = "operate",
        node_id: str | None = None,
        depends_on: Sequence[str] | None = None,
        inherit_context: bool = False,
        branch: object = None,
        *,
        role: str | Role | None = None,
        gate: object = False,
        when: Condition | None = None,
        needs: str = "any",
        returns: type | Mapping[str, object] | None = None,
        retry: object = None,
        timeout: float | str | None = None,
        fresh: bool = False,
        uses: Iterable[str] = (),
        parameters: object = None,
        **more: Any,
    ) -> str:
        """Add a node; ``depends_on``: list = those, ``[]`` = a root, None = chains onto current heads.

        The current heads are the nodes that nothing depends on yet.

        Args:
            operation: a verb, a role, a function under ``@role()``, or an ``Operation`` from
                ``create_operation`` (which then carries all but dependencies, conditions and role).
            node_id: the node's name, its identity end to end; the role's or the verb's if omitted,
                then ``name_2`` and so on.
            depends_on: see above.
            inherit_context: start from a copy of the messages of the first entry of ``depends_on``.
            branch: name of a branch that several nodes share, or a live branch.
            role: the role that performs the verb, or its name.
            gate: True, or a Gate: its verdict can veto everything that depends on it.
            when: expression that must be true when all predecessors have settled, or an
                EdgeCondition, which is put on every edge of ``depends_on``.
            needs: ``any`` (one edge must live) or ``all``.
            returns: type or JSON Schema of the value.
            retry: attempts in all, or a Retry.
            timeout: seconds per attempt, or a text such as ``90s``.
            fresh: start every turn with an empty conversation.
            uses: names of limits that the node takes while it runs.
            parameters: a mapping or a pydantic model; ``more`` is merged into it.
            more: parameters; ``instruction`` is what to do, in words.

        Returns:
            The node's name.

        Raises:
            UnknownNodeError: an entry of ``depends_on`` does not exist.
            DuplicateNodeError: ``node_id`` exists.
            OperationError: another argument does not fit.
            GraphError: the name is no node name.
        """
        sources = self._sources(depends_on, node_id)
        if isinstance(operation, Operation):
            given = (node_id, branch, gate or None, needs != "any" or None, returns, retry, timeout)
            if any(part is not None for part in (*given, parameters)) or fresh or uses or more:
                raise OperationError(
                    f"{operation.name} is an Operation already; give such arguments to create_operation"
                )
            node, cast = operation, role
        else:
            _, cast = resolve(operation, role)
            name = node_id if node_id is not None else self._free_name(operation, role)
            where = f"parameters of {name}"
            instruction, gated = more.pop("instruction", ""), more.pop("is_gate", False)
            data = json_object({} if parameters is None else parameters, where) | json_object(more, where)
            node = create_operation(
                operation,
                data,
                node_id=name,
                role=role,
                instruction=instruction,
                gate=gate or gated,
                when=when if isinstance(when, str) else None,
                needs=needs,
                returns=returns,
                retry=retry,
                timeout=timeout,
                fresh=fresh,
                uses=uses,
            )
        return self._place(node, cast, Placement(sources, when, branch, inherit_context, returns))

    def add_edge(
        self,
        source: str,
        target: str,
        when: Condition | None = None,
        accept: Iterable[str] | None = None,
        label: str | None = None,
    ) -> None:
        """Make ``target`` wait for ``source``.

        Args:
            source: the node before.
            target: the node after.
            when: expression over ``result`` and ``status`` of the source, ``context``, ``args`` and
                earlier nodes, or an EdgeCondition; the edge lives if it is true.
            accept: outcomes of the source under which the edge can live; completed and failed if omitted.
            label: text for drawings.

        Raises:
            UnknownNodeError: an end does not exist.
            GraphError: the edge exists, or joins a node to itself.
            OperationError: ``when`` or ``accept`` does not fit.
        """
        where = f"the edge {source} -> {target}"
        for end in (source, target):
            self._known(end, where)
        self._connect(source, target, when, self._outcomes(accept, where), label)

    def expand_from_result(
        self,
        items: Sequence[object],
        source_node_id: str,
        operation: str | Role,
        strategy: ExpansionStrategy = ExpansionStrategy.CONCURRENT,
        inherit_context: bool = False,
        chain_context: bool = False,
        *,
        chunk_size: int = 5,
        node_id: str | None = None,
        **shared: Any,
    ) -> list[str]:
        """Add one node per item after ``source_node_id``; every one reads the source.

        Args:
            items: a model's fields become the node's parameters; any other item becomes the
                parameters ``item`` (as JSON) and ``item_index``.
            source_node_id: the node that the items came from.
            operation: a verb or a role.
            strategy: how the nodes order each other; see ``ExpansionStrategy``.
            inherit_context: start from a copy of the source's messages.
            chain_context: start from a copy of the messages of the node before, where there is one.
            chunk_size: items per chunk of the two chunk strategies.
            node_id: names become ``node_id_1``, ``node_id_2``; the default names otherwise.
            shared: arguments of ``add_operation`` that every node gets; an item's own fields win.

        Returns:
            The new names in the order of ``items``.

        Raises:
            UnknownNodeError: the source does not exist.
            OperationError: an argument does not fit.
        """
        self._known(source_node_id, "expand_from_result")
        if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
            raise OperationError(f"items is {type(items).__name__}; give a list")
        plan = arrange(len(items), strategy, chunk_size, chained=chain_context)
        drafts = [item_parameters(item, number, shared) for number, item in enumerate(items)]
        made: list[str] = []
        for number, (draft, step) in enumerate(zip(drafts, plan, strict=True)):
            before = [made[index] for index in step.after]
            name = self.add_operation(
                operation,
                None if node_id is None else f"{node_id}_{number + 1}",
                [source_node_id, *before],
                **draft,
            )
            parent = made[step.inherits] if step.inherits is not None else source_node_id
            if inherit_context or (chain_context and step.inherits is not None):
                self._operations[name] = changed(self._operations[name], inherit=parent)
            made.append(name)
        return made

    def add_aggregation(
        self,
        operation: str | Role,
        node_id: str | None = None,
        source_node_ids: Sequence[str] | None = None,
        inherit_context: bool = False,
        inherit_from_source: int = 0,
        branch: object = None,
        **more: Any,
    ) -> str:
        """Add a node that waits for several others and reads them all.

        Args:
            operation: a verb or a role.
            node_id: the node's name.
            source_node_ids: the nodes to wait for; the current heads if None.
            inherit_context: start from a copy of the messages of one source.
            inherit_from_source: index of that source; -1 is the last.
            branch: as in ``add_operation``.
            more: as in ``add_operation``.

        Returns:
            The node's name.

        Raises:
            OperationError: there is no source, or ``inherit_from_source`` is out of range.
            UnknownNodeError: a source does not exist.
        """
        sources = list(self._heads) if source_node_ids is None else list(source_node_ids)
        if not sources:
            raise OperationError(
                "an aggregation needs sources; add nodes first or name them in source_node_ids"
            )
        if not -len(sources) <= inherit_from_source < len(sources):
            message = f"inherit_from_source is {inherit_from_source}, but there are {len(sources)} sources"
            raise OperationError(message)
        name = self.add_operation(operation, node_id, sources, branch=branch, **more)
        parent = sources[inherit_from_source] if inherit_context else None
        node = changed(self._operations[name], sources=tuple(sources), inherit=parent)
        self._operations[name] = node
        return name

    def add_conditional_branch(
        self,
        condition_check_op: str | Role,
        true_op: str | Role,
        false_op: str | Role | None = None,
        *,
        condition: Condition = "result",
        depends_on: Sequence[str] | None = None,
        node_id: str | None = None,
        **check: Any,
    ) -> dict[str, str]:
        """Add a node that decides, and one or two that run by what it decided.

        Args:
            condition_check_op: performs the check.
            true_op: runs if the condition is true.
            false_op: runs if it is false.
            condition: over ``result`` of the check; by default the result itself, which must be a bool.
            depends_on: of the check, as in ``add_operation``.
            node_id: name of the check.
            check: arguments of ``add_operation`` for the check.

        Returns:
            ``{"check": name, "true": name}``, and ``"false"`` if there is one.

        Raises:
            OperationError: the condition is neither expression text nor an EdgeCondition.
        """
        text, predicate = check_condition(condition, "the conditional branch")
        opposite: Condition = f"not ({text})" if predicate is None else Negated(predicate)
        check_condition(opposite, "the conditional branch")
        names = {"check": self.add_operation(condition_check_op, node_id, depends_on, **check)}
        arms = [("true", true_op, condition), ("false", false_op, opposite)]
        for arm, what, when in arms:
            if what is not None:
                names[arm] = self.add_operation(what, depends_on=[])
                self.add_edge(names["check"], names[arm], when, ("completed",), f"if_{arm}")
        return names

    def get_graph(self) -> Graph:
        """The graph as it is now; what is added later does not change it.

        Raises:
            GraphError: nodes that share a branch are not ordered.
        """
        graph = Graph(
            name=self.name,
            operations=MappingProxyType(dict(self._operations)),
            edges=tuple(self._edges.values()),
            roles=MappingProxyType(dict(self._roles)),
            predicates=tuple(self._predicates),
            branches=MappingProxyType(dict(self._branches)),
            returns=MappingProxyType(dict(self._returns)),
        )
        if any(node.branch is not None for node in self._operations.values()):
            graph.check()
        return graph
