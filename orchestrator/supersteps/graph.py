"""``StateGraph``: nodes, edges, conditional edges, compiled to something that can be invoked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack, get_args, get_origin, get_type_hints

from orchestrator.core.spec import Operation, name_fault
from orchestrator.core.supersteps.plan import END, START, Join, StepNode, StepPlan
from orchestrator.errors import DuplicateNodeError, GraphError, UnknownNodeError
from orchestrator.flows.operations import default_name
from orchestrator.runtime.session import Session
from orchestrator.supersteps.blueprint import Blueprint, Branching, NodeSpec
from orchestrator.supersteps.caching import caching_of
from orchestrator.supersteps.casting import RoleOptions, cast_for, role_node
from orchestrator.supersteps.compiled import CompiledGraph
from orchestrator.supersteps.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from orchestrator.supersteps.schema import channels_of
from orchestrator.supersteps.subgraphs import MemoryKind, subgraph
from roles import Catalogue, Role

__all__ = ["StateGraph"]

Path_ = Callable[..., Any]


class StateGraph:
    """A graph whose nodes read one state and return what they change of it.

    Args:
        schema: a TypedDict, or any class with annotations: its keys are the state.
            ``Annotated[list, operator.add]`` names a reducer, ``Annotated[T, Topic()]`` a channel.
        name: of the graph, for pages and journals.

    Raises:
        GraphError: the schema has no keys, or a reducer cannot be called with two values.
    """

    def __init__(self, schema: type, *, name: str = "graph") -> None:
        self.name = name
        self.channels = channels_of(schema)
        self._nodes: dict[str, NodeSpec] = {}
        self._operations: dict[str, Operation] = {}
        self._deferred: set[str] = set()
        self._destinations: dict[str, tuple[str, ...]] = {}
        self._edges: dict[str, list[str]] = {START: []}
        self._branches: dict[str, list[tuple[Branching, tuple[str, ...] | None]]] = {}
        self._joins: list[Join] = []
        self._roles = Catalogue()
        self._caches: dict[str, CachePolicy | None] = {}

    def add_node(
        self,
        name: str | Callable[..., Any] | Role,
        fn: Callable[..., Any] | Role | StateGraph | CompiledGraph | None = None,
        *,
        defer: bool = False,
        retry: RetryPolicy | None = None,
        timeout: TimeoutPolicy | float | None = None,
        error_handler: Callable[..., Any] | None = None,
        cache: CachePolicy | None = None,
        destinations: Sequence[str] = (),
        memory: MemoryKind | None = None,
        **options: Unpack[RoleOptions],
    ) -> StateGraph:
        """Add a node.

        Args:
            name: its name; a function or a role stands for its own.
            fn: ``async def fn(state, turn=None)``, or a role, which is given its turn; or another graph.
            defer: it runs when nothing else is left to run.
            retry, timeout: see the policies; seconds are a timeout of one attempt.
            error_handler: ``async def fn(state, error)``: called when the last attempt has failed; what it
                returns counts as the node's. Without a goto the node's edges are followed.
            cache: what it wrote for an equal input is written again in place of running it.
            destinations: nodes that its Commands may name; joins wait for what they may reach.
            memory: of a graph: ``call`` (it begins empty with every call) or ``thread`` (it remembers).
            options: of a role's node, see RoleOptions: ``writes=``, ``gate=``, ``instruction=``, ...

        Raises:
            GraphError: a name that is taken or no name, a function that is not async, a key that is none.
            OperationError: an option does not fit. RoleError: two roles have one name.
        """
        if not isinstance(name, str):
            if _is_graph(name):
                raise GraphError(f"{name!r} is a graph and has no name here; give add_node(name, graph)")
            fn = name
            name = default_name("operate", fn) if isinstance(fn, Role) else fn.__name__
        if fn is None:
            raise GraphError(f"node {name!r} has no function; give add_node(name, fn)")
        if name in (START, END) or (fault := name_fault(name)):
            raise GraphError(f"{name!r} is a name of the house" if name in (START, END) else fault)
        if name in self._nodes:
            raise DuplicateNodeError(f"there is a node {name!r} already; give it another name")
        spec = _performed(name, fn, memory)
        seconds = timeout.run if isinstance(timeout, TimeoutPolicy) else timeout
        retries = None if retry is None else retry.spec()
        if isinstance(fn, Role):
            self._roles.add(fn)
            operation = role_node(name, fn, self.channels, retries, options)
            seconds = fn.timeout if seconds is None else seconds
        elif options:
            raise GraphError(f"node {name!r} is a function; {', '.join(options)} are for the node of a role")
        else:
            operation = Operation(name=name, verb="step", retry=retries, emits=())
        self._nodes[name] = replace(
            spec,
            handler=error_handler,
            timeout=seconds,
            writes=operation.writes,
            performed=isinstance(fn, Role),
        )
        self._operations[name] = operation
        self._caches[name] = cache
        self._edges.setdefault(name, [])
        self._destinations[name] = tuple(destinations)
        if defer:
            self._deferred.add(name)
        return self

    def add_edge(self, source: str | Sequence[str], target: str) -> StateGraph:
        """From ``source`` to ``target``; from a list of nodes it is a join, which waits for all of them.

        Raises:
            GraphError: an edge into START or out of END.
        """
        if target == START or source == END:
            raise GraphError(f"an edge from {source!r} to {target!r}: nothing leads to START or from END")
        if isinstance(source, str):
            if target not in self._edges.setdefault(source, []):
                self._edges[source].append(target)
        else:
            self._joins.append(Join(sources=tuple(dict.fromkeys(source)), target=target))
        return self

    def add_conditional_edges(
        self, source: str, path: Path_, path_map: Mapping[Any, str] | Iterable[str] | None = None
    ) -> StateGraph:
        """From ``source`` to what ``path(state)`` gives: a name, a Send, or a list of them.

        Args:
            path: plain or async; it sees the committed state and what ``source`` itself has written.
            path_map: what it gives -> node, or the nodes that it may give. Without one, those of its
                annotation ``-> Literal[...]``; without that, any.
        """
        if isinstance(path_map, Mapping):
            mapping: Mapping[Any, str] | None = dict(path_map)
            targets: tuple[str, ...] | None = tuple(dict.fromkeys(path_map.values()))
        elif path_map is not None:
            mapping, targets = None, tuple(path_map)
        else:
            mapping, targets = None, _declared(path)
        branch = Branching(path=path, mapping=mapping)
        self._branches.setdefault(source, []).append((branch, targets))
        return self

    def set_entry_point(self, name: str) -> StateGraph:
        """The same as ``add_edge(START, name)``."""
        return self.add_edge(START, name)

    def set_finish_point(self, name: str) -> StateGraph:
        """The same as ``add_edge(name, END)``."""
        return self.add_edge(name, END)

    def compile(
        self,
        session: Session | None = None,
        journal: str | Path | None = None,
        *,
        concurrency: int | None = None,
        interrupt_before: Sequence[str] | Literal["*"] = (),
        interrupt_after: Sequence[str] | Literal["*"] = (),
        step_timeout: float | None = None,
    ) -> CompiledGraph:
        """Check the graph, and make something that can be invoked.

        Args:
            session: whose journal, bus and roles it uses; None: its own.
            journal: path of the journal file; None keeps threads in memory. Not with a session.
            concurrency: tasks at once where a run's budget says nothing; None is no limit.
            interrupt_before, interrupt_after: nodes before or after which every run stops; ``"*"`` is all.
            step_timeout: seconds that a step may take; what has not finished then fails with TimeoutError.

        Raises:
            GraphError: no entry point, an edge names a node that does not exist, a gate cannot judge, the
                code of a cached node has no version.
            OperationError: nothing performs a role.
        """
        if session is not None and journal is not None:
            raise GraphError("give a session or a journal: a session has its own journal")
        self._check((*interrupt_before, *interrupt_after))
        nodes = {
            name: replace(
                spec,
                branches=tuple(branch for branch, _ in self._branches.get(name, ())),
                cache=caching_of(self.name, spec, self._caches[name], self.channels),
            )
            for name, spec in self._nodes.items()
        }
        session = session or Session(journal=journal)
        cast = cast_for(self._operations, self._roles, session.model)
        blueprint = Blueprint(
            name=self.name,
            plan=StepPlan(
                nodes=tuple(self._step_node(name, cast.operations) for name in nodes),
                entry=tuple(self._edges[START]),
                joins=tuple(self._joins),
                channels={key: channel.kind for key, channel in self.channels.items()},
                roles=cast.specs,
            ),
            cast=cast,
            nodes=nodes,
            channels=dict(self.channels),
            entry=tuple(branch for branch, _ in self._branches.get(START, ())),
            step_timeout=step_timeout,
            before=tuple(interrupt_before),
            after=tuple(interrupt_after),
        )
        return CompiledGraph(blueprint, session, concurrency=concurrency)

    def _step_node(self, name: str, cast: Mapping[str, Operation]) -> StepNode:
        branches: dict[str, None] | None = dict.fromkeys(self._destinations[name])
        for _, targets in self._branches.get(name, ()):
            if targets is None or branches is None:
                branches = None
            else:
                branches |= dict.fromkeys(targets)
        return StepNode(
            operation=cast.get(name, self._operations[name]),
            targets=tuple(self._edges[name]),
            branches=None if branches is None else tuple(one for one in branches if one != END),
            deferred=name in self._deferred,
        )

    def _check(self, breakpoints: Sequence[str]) -> None:
        if not self._edges[START] and START not in self._branches:
            raise GraphError("the graph has no entry point; add_edge(START, node)")
        known = {*self._nodes, START, END}
        named = [
            *self._edges,
            *(target for targets in self._edges.values() for target in targets),
            *self._branches,
            *(t for all_ in self._branches.values() for _, targets in all_ for t in targets or ()),
            *(name for join in self._joins for name in (*join.sources, join.target)),
            *(name for names in self._destinations.values() for name in names),
            *(name for name in breakpoints if name != "*"),
        ]
        for name in named:
            if name not in known:
                raise UnknownNodeError(f"{name!r} is no node; there are {', '.join(self._nodes) or 'none'}")
        for join in self._joins:
            if {START, END} & {*join.sources} or join.target == END:
                raise GraphError(f"a join leads from nodes to a node, not {join.name}")


def _is_graph(fn: object) -> bool:
    return isinstance(fn, StateGraph | CompiledGraph)


def _performed(name: str, fn: Any, memory: MemoryKind | None) -> NodeSpec:
    """What performs a node.

    Raises:
        GraphError: a function that is no node, a memory of what is no graph.
    """
    if _is_graph(fn):
        child = subgraph(name, fn, memory)
        return NodeSpec(name=name, fn=child.blueprint, child=child)
    if memory is not None:
        raise GraphError(f"node {name!r} is no graph; memory= is of one")
    if isinstance(fn, Role):
        return NodeSpec(name=name, fn=fn, role=fn)
    return NodeSpec(name=name, fn=fn, takes_turn=_takes_turn(name, fn))


def _takes_turn(name: str, fn: Callable[..., Any]) -> bool:
    """True if the function wants the turn beside the state.

    Raises:
        GraphError: it is not async, or cannot be called with a state.
    """
    call = fn if inspect.isroutine(fn) or isinstance(fn, type) else getattr(fn, "__call__", fn)  # noqa: B004
    target = getattr(call, "func", call)
    if not inspect.iscoroutinefunction(target):
        raise GraphError(f"node {name!r}: {fn!r} is not an `async def fn(state, turn=None)`")
    parameters = [
        p
        for p in inspect.signature(fn).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if not parameters:
        raise GraphError(f"node {name!r} takes no state; write `async def fn(state, turn=None)`")
    return len(parameters) > 1 and (
        parameters[1].name == "turn" or parameters[1].default is inspect.Parameter.empty
    )


def _declared(path: Path_) -> tuple[str, ...] | None:
    """The nodes of a ``-> Literal["a", "b"]``; None if there is none."""
    try:
        returns = get_type_hints(path).get("return")
    except (NameError, TypeError):
        return None
    return tuple(get_args(returns)) if get_origin(returns) is Literal else None
