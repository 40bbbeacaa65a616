"""``run_flow_with``: a flow with other actors in its roles, run in a real session."""

from __future__ import annotations

import dataclasses
import difflib
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

import anyio

from orchestrator.agents import Branch
from orchestrator.core.spec import Budget
from orchestrator.errors import OperationError
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.flow import BoundFlow, Flow, load_flow
from orchestrator.flows.graph import Graph
from orchestrator.journal import Journal
from orchestrator.runtime.results import RunResult
from orchestrator.runtime.run import Run
from orchestrator.runtime.session import Session
from orchestrator.runtime.sources import Runnable
from orchestrator.testing.laws import assert_laws
from orchestrator.testing.script_error import ScriptError
from orchestrator.testing.scripts import Scripted
from roles import Catalogue, Role, RoleError, Turn

__all__ = ["FlowOptions", "StandIn", "recast_graph", "run_flow_with", "stand_in"]

#: Who plays a role in a test: another role, or a function of the turn.
StandIn = Role | Callable[[Turn], Any]


class FlowOptions(TypedDict, total=False):
    """Options of ``run_flow_with``: those of ``Session.flow`` and of ``Session``."""

    context: Mapping[str, Any] | None
    reducers: Mapping[str, Any] | None
    known: Mapping[str, Any] | None
    budget: Budget | None
    branch: Branch | None
    parallel: bool
    on_settle: Callable[..., Any] | None
    on_branch_created: Callable[[Branch], None] | None
    journal: Callable[[], Journal] | None
    limits: Mapping[str, int] | None
    grace: float
    seed: int | None
    folder: str | Path
    clock: Callable[[], int] | None


_OF_SESSION = frozenset({"journal", "limits", "grace", "seed", "folder", "clock"})


async def run_flow_with(
    what: Runnable,
    roles: Mapping[str, StandIn] | None = None,
    args: Mapping[str, Any] | None = None,
    *,
    operations: Mapping[str, Callable[[Turn], Any]] | None = None,
    answers: Mapping[str, Any] | None = None,
    **options: Unpack[FlowOptions],
) -> RunResult:
    """Run a flow in a session of its own, with other actors in some of its roles.

    A stand-in works under the declaration of the role that it stands in for: what that role does not declare
    is refused to the stand-in too. Where a stand-in declares ``emits`` itself (``scripted(emits=...)``,
    ``@role(emits=...)``), its own declaration goes.

    Args:
        what: a flow document's path, a Flow, a Graph or a builder.
        roles: role name -> who plays it: a role (``scripted(...)``) or a function of the turn.
        args: the flow's arguments.
        operations: verb -> ``async def fn(turn)``, for nodes without a role.
        answers: answers to ``turn.ask``, by key or question. If given, a question without one is an error.
        options: those of ``Session.flow`` and ``Session``. Without ``folder``, nodes have theirs in a
            temporary one, which goes when the run is over.

    Returns:
        The result, with the laws checked. A run that fails is a value; its ``reason`` says why it stopped.

    Raises:
        GraphError, FlowError, OperationError, RoleError: the flow cannot run as given; nothing has run.
        ScriptError: a node asks what ``answers`` does not answer.
        LawError, InternalError: a bug of the orchestrator's.
    """
    flow, extra = _recast(what, dict(roles or {}))
    of_session: dict[str, Any] = {name: value for name, value in options.items() if name in _OF_SESSION}
    of_flow: dict[str, Any] = {name: value for name, value in options.items() if name not in _OF_SESSION}
    with tempfile.TemporaryDirectory(prefix="callboard-") as folder:
        session = Session(extra, **{"folder": folder, **of_session})
        for verb, fn in (operations or {}).items():
            session.register_operation(verb, fn)
        outcome: list[RunResult | Exception] = []
        async with session:
            # an error that left a task group would come out as a group of one
            try:
                run = await session.start(flow, args=args, waits_for_answers=answers is not None, **of_flow)
                outcome.append(await (run.wait() if answers is None else _answered(run, answers)))
                assert_laws(run)
            except Exception as error:  # noqa: BLE001 (it is raised again outside of the session)
                outcome.append(error)
    last = outcome[-1]
    if isinstance(last, Exception):
        raise last
    return last


async def _answered(run: Run, answers: Mapping[str, Any]) -> RunResult:
    """Wait for a run and answer what it asks."""
    missing: list[str] = []

    async def answer() -> None:
        async with run.events(kinds=("QuestionAsked",)) as asked:
            async for event in asked:
                key, question = event.data["key"], event.data["question"]
                known = next((name for name in (key, question) if name in answers), None)
                if known is not None:
                    run.answer(event.node or "", answers[known], key=key, by="test")
                    continue
                missing.append(f"{event.node} asks {question!r}; give answers={{{key!r}: ...}}")
                run.cancel(reason="the test has no answer")

    async with anyio.create_task_group() as group:
        group.start_soon(answer)
        await run.over()
        group.cancel_scope.cancel()
    if missing:
        raise ScriptError("; ".join(missing))
    return await run.wait()


# --- other actors in the roles -----------------------------------------------------------------


def _recast(what: Runnable, actors: Mapping[str, StandIn]) -> tuple[Runnable, list[Role]]:
    """The flow with its roles replaced, and the roles that a session has to know besides.

    Raises:
        RoleError: a document has no role of this name, or a stand-in has no function.
    """
    if isinstance(what, str | PathLike):
        what = load_flow(Path(what))
    if isinstance(what, Flow):
        for name in actors:
            if name not in what.roles:
                message = (
                    f"roles names {name!r}, which flow {what.name} does not have{_near(name, what.roles)}"
                )
                raise RoleError(message)
        return _Recast(what, actors), []
    if isinstance(what, OperationGraphBuilder):
        what = what.get_graph()
    given: object = what
    if not isinstance(given, Graph):
        return what, []  # the session says what can be run
    graph = recast_graph(what, actors)
    _everybody_is_played(graph, graph.roles)
    return graph, [stand_in(name, actor, None) for name, actor in actors.items() if name not in graph.roles]


class _Recast(Flow):
    """A flow that binds to other actors."""

    def __init__(self, flow: Flow, actors: Mapping[str, StandIn]) -> None:
        # the document, and what was read and checked of it, are the flow's own
        self.__dict__.update(vars(flow))
        self._actors = actors

    def bind(
        self,
        args: Mapping[str, object] | None = None,
        operations: Collection[str] = (),
        tools: Collection[str] = (),
    ) -> BoundFlow:
        """As the flow binds, then with the stand-ins in place."""
        bound = super().bind(args, operations, tools)
        catalogue = Catalogue()
        graph = recast_graph(bound.graph, self._actors)
        for role in bound.roles:
            actor = self._actors.get(role.name)
            known = graph.roles.get(role.name)
            played = known or (role if actor is None else stand_in(role.name, actor, role))
            catalogue.add(played, origin=bound.roles.origin(role.name))
        _everybody_is_played(graph, {role.name: role for role in catalogue})
        return dataclasses.replace(bound, graph=graph, roles=catalogue)


def _everybody_is_played(graph: Graph, roles: Mapping[str, Role]) -> None:
    """Refuse a node that a model or a program would perform: no test calls one by accident."""
    for operation in graph.operations.values():
        role = roles.get(operation.role or "")
        if role is not None and role.fn is None:
            message = f"{operation.name}: nobody plays role {role.name!r}; give it a stand-in in roles="
            raise OperationError(message)


def recast_graph(graph: Graph, actors: Mapping[str, StandIn]) -> Graph:
    """The graph with its roles replaced, as far as there are actors for them."""
    roles = {
        name: role if name not in actors else stand_in(name, actors[name], role)
        for name, role in graph.roles.items()
    }
    return dataclasses.replace(graph, roles=roles)


def stand_in(name: str, actor: StandIn, role: Role | None) -> Role:
    """A role of this name that the actor plays."""
    own = actor if isinstance(actor, Role) else None
    fn = actor if own is None else own.fn
    if fn is None:
        message = f"the stand-in for {name!r} is a role without a function; give scripted(...) or a function"
        raise RoleError(message)
    if role is None:
        return Role(name, fn=fn) if own is None else dataclasses.replace(own, name=name)
    declared = own is not None and (own.script.declared if isinstance(own, Scripted) else bool(own.emits))
    return dataclasses.replace(
        role, fn=fn, program=None, emits=own.emits if own is not None and declared else role.emits
    )


def _near(name: str, known: Iterable[Role]) -> str:
    names = [role.name for role in known]
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(sorted(names)) or 'none'}"
