"""``schedule: supersteps`` in a flow document: its graph compiled, begun, and gone on with (flows.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from orchestrator.core.context import REDUCERS
from orchestrator.core.expressions import compile_expression
from orchestrator.core.spec import Budget, Definition, Edge, Plan
from orchestrator.core.supersteps.commands import GoOn, Open, Request, TakeInput
from orchestrator.core.supersteps.facts import Route
from orchestrator.core.supersteps.machine import SuperstepMachine
from orchestrator.core.supersteps.plan import END, StepNode, StepPlan
from orchestrator.errors import OperationError
from orchestrator.flows.flow import BoundFlow, load_flow
from orchestrator.flows.graph import Graph
from orchestrator.flows.steps import BEGIN, ELSE, FINISH
from orchestrator.journal import Journal
from orchestrator.journal.runlog import RunLog
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.definitions import reference
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.identity import new_run_id
from orchestrator.runtime.options import RunOptions
from orchestrator.runtime.planning import resolved_concurrency
from orchestrator.runtime.recovery import Recovery, requests_of
from orchestrator.runtime.reviving import refuse
from orchestrator.runtime.values import encode, settle
from orchestrator.supersteps.beginning import Beginning
from orchestrator.supersteps.blueprint import Blueprint, Branching, NodeSpec
from orchestrator.supersteps.casting import cast_for
from orchestrator.supersteps.channels import BinaryOperatorAggregate, Channel, LastValue
from orchestrator.supersteps.channels.base import EMPTY
from orchestrator.supersteps.engine import StepEngine
from orchestrator.supersteps.errors import InvalidUpdateError
from orchestrator.supersteps.telling import update_of
from orchestrator.supersteps.threads import folded_log
from orchestrator.supersteps.view import plain_state
from roles import Catalogue, Role

if TYPE_CHECKING:
    from orchestrator.runtime.session import Session

__all__ = ["Supersteps", "compiled"]

#: What a key with a reducer begins with, where the reducer has a neutral value.
_FIRST: Final[Mapping[str, Any]] = {"append": [], "extend": [], "union": [], "sum": 0, "merge": {}}


class Supersteps:
    """Runs stepped documents (a ``runtime.schedules.Schedule``)."""

    def begin(self, session: Session, bound: BoundFlow, options: RunOptions, source: str) -> Engine:
        """An engine for a new run: its input is the context that is given."""
        _refuse_options(options)
        blueprint = compiled(bound, session.model)
        limit = bound.budget if options.budget is None else options.budget
        if not options.parallel:
            limit = msgspec.structs.replace(limit, concurrency=1)
        plan = _plan(bound, blueprint, session, limit)
        definition = _definition_of(source, bound, blueprint, durable=session.store.durable)
        patches, values, state = update_of(
            blueprint, {}, {**bound.context, **(options.context or {})}, "context"
        )
        routes: Sequence[Route] = ()
        if blueprint.entry:
            targets = blueprint.entry[0].path(plain_state(blueprint.channels, state), None)
            routes = [Route(target) for target in targets]
        run_id = new_run_id()
        journal = session.store.new(run_id, bound.graph.name, definition.digest)
        engine = StepEngine(
            run_id, blueprint, session.wiring(journal, options), SuperstepMachine(), definition
        )
        waits = options.waits_for_answers
        engine.recovery = Beginning(
            (Open(run_id, plan, blueprint.plan, definition, utc_now(), waits_for_answers=waits), ()),
            (TakeInput(patches, tuple(routes), epoch=1, time=utc_now()), values),
        )
        return engine

    def go_on(
        self, session: Session, run: str, journal: Journal, options: RunOptions, going: Recovery
    ) -> Engine:
        """An engine that goes on with a run; its document is read again."""
        machine, last = folded_log(run, journal)
        state = machine.state
        refuse(state, going.reopen)
        bound = load_flow(state.definition.source).bind(msgspec.json.decode(state.plan.args))
        blueprint = compiled(bound, session.model)
        now = _definition_of(state.definition.source, bound, blueprint, durable=session.store.durable)
        if not options.new_definition:
            _same(state.definition, now)
        engine = StepEngine(run, blueprint, session.wiring(journal, options), machine, now)
        assert last is not None
        engine.kernel.recovered(last)
        values: list[bytes] = []
        if isinstance(journal, RunLog):
            rows = journal.pending_controls(max(state.controls, default=0))
            going = replace(going, rows=rows)
        requests = tuple(
            Request(one.control, one.command, one.fault) for one in requests_of(going, state, values)
        )
        changed = state.steps is not None and state.steps.plan != blueprint.plan
        command = GoOn(
            budget=dict(going.budget),
            epoch=going.epoch,
            time=utc_now(),
            steps=blueprint.plan if changed else None,
            requests=requests,
            waits_for_answers=options.waits_for_answers,
            reopen=bool(going.reopen),
        )
        engine.recovery = Beginning((command, values))
        return engine


def _refuse_options(options: RunOptions) -> None:
    for name in ("known", "reuse", "on_settle", "branch", "reducers", "child"):
        if getattr(options, name):
            raise OperationError(f"a stepped flow takes no {name}=; its state is its context, by context=")


# --- compiling -----------------------------------------------------------------------------------


def compiled(bound: BoundFlow, model: str | None) -> Blueprint:
    """The nodes, channels and edges of a stepped document.

    Args:
        model: performs every role that a model performs; None leaves that to the roles.

    Raises:
        OperationError: nothing performs a role.
    """
    graph = bound.graph
    channels = {key: _channel(bound.reducers.get(key)) for key in bound.keys}
    cast = cast_for(graph.operations, Catalogue(graph.roles.values()), model)
    operations = {name: cast.operations.get(name, one) for name, one in graph.operations.items()}
    ways = {name: _ways(graph, name) for name in (BEGIN, *operations)}
    nodes = {
        name: NodeSpec(
            name=name,
            fn=_nobody,
            timeout=graph.operations[name].timeout or _timeout(graph.roles.get(one.role or "")),
            branches=_branches(ways[name], bound.args, name),
            role=graph.roles.get(one.role or ""),
            performed=True,
            writes=one.writes,
        )
        for name, one in operations.items()
    }
    plan = StepPlan(
        nodes=tuple(
            StepNode(operation=one, targets=_static(ways[name]), branches=_judged(ways[name]))
            for name, one in operations.items()
        ),
        entry=_static(ways[BEGIN]),
        channels={key: channel.kind for key, channel in channels.items()},
        roles=cast.specs,
    )
    entry = _branches(ways[BEGIN], bound.args, BEGIN)
    return Blueprint(name=graph.name, plan=plan, nodes=nodes, channels=channels, entry=entry, cast=cast)


async def _nobody(_state: Any) -> None:
    """Stands where a function would; a role or a person performs every node of a document."""


def _timeout(role: Role | None) -> float | None:
    return None if role is None else role.timeout


def _channel(reducer: str | None) -> Channel:
    if reducer is None:
        return LastValue()
    return BinaryOperatorAggregate(REDUCERS[reducer], _FIRST.get(reducer, EMPTY))


def _ways(graph: Graph, source: str) -> list[Edge]:
    return [edge for edge in graph.edges if edge.source == source]


def _static(ways: Iterable[Edge]) -> tuple[str, ...]:
    """Targets of edges that are taken whatever happens; where one has a condition all are judged."""
    listed = list(ways)
    if any(edge.when is not None for edge in listed):
        return ()
    return tuple(_end(edge.target) for edge in listed)


def _judged(ways: Iterable[Edge]) -> tuple[str, ...]:
    listed = list(ways)
    if not any(edge.when is not None for edge in listed):
        return ()
    return tuple(edge.target for edge in listed if edge.target != FINISH)


def _end(name: str) -> str:
    return END if name == FINISH else name


def _branches(ways: Sequence[Edge], args: Mapping[str, object], source: str) -> tuple[Branching, ...]:
    if not any(edge.when is not None for edge in ways):
        return ()
    return (Branching(path=_judge_of(ways, args, source), reads_result=True),)


def _judge_of(
    ways: Sequence[Edge], args: Mapping[str, object], source: str
) -> Callable[[Mapping[str, Any], Any], list[str]]:
    """Edges of one source, judged together: all true ones are taken, ``else`` if there is none (flows.md)."""
    judged = [
        (_end(edge.target), None if edge.when is None else compile_expression(edge.when))
        for edge in ways
        if edge.label != ELSE
    ]
    otherwise = [_end(edge.target) for edge in ways if edge.label == ELSE]

    def path(state: Mapping[str, Any], result: Any) -> list[str]:
        scope = {"context": dict(state), "args": args, "result": result, "status": "completed"}
        taken = [target for target, when in judged if when is None or when.evaluate_bool(scope)]
        if not taken and not otherwise:
            raise InvalidUpdateError(f"no edge of {source} is true; give one of them else: true")
        return taken or otherwise

    return path


# --- what is recorded ----------------------------------------------------------------------------


def _plan(bound: BoundFlow, blueprint: Blueprint, session: Session, budget: Budget) -> Plan:
    limit = msgspec.structs.replace(budget, concurrency=resolved_concurrency(budget.concurrency))
    return Plan(
        name=blueprint.name,
        budget=limit,
        limits={**session.limits, **bound.limits},
        args=msgspec.Raw(encode(settle(dict(bound.args), "args")[2], "args")),
    )


def _definition_of(source: str, bound: BoundFlow, blueprint: Blueprint, *, durable: bool) -> Definition:
    """Where another process finds the functions of a run of a document."""
    if not durable:
        return Definition(source=source, outputs=dict(bound.outputs))
    bodies = blueprint.cast.bodies
    functions = {f"role:{name}": reference(body.fn, by_name=source) for name, body in bodies.items()}
    text = encode(functions) + msgspec.json.encode(blueprint.plan)
    digest = hashlib.sha256(text).hexdigest()[:32]
    return Definition(source=source, digest=digest, functions=functions, outputs=dict(bound.outputs))


def _same(began: Definition, now: Definition) -> None:
    """Refuse code and documents that have changed.

    Raises:
        OperationError: naming what has.
    """
    for key, text in now.functions.items():
        before = began.functions.get(key)
        if before is not None and before.rpartition("::")[2] != text.rpartition("::")[2]:
            raise OperationError(
                f"{key.replace(':', ' ')} has changed since the run began; resume with --new-definition "
                f"(new_definition=True) to use the new code"
            )
    if began.digest and began.digest != now.digest:
        raise OperationError(
            f"{Path(began.source).name} has changed since the run began; resume with --new-definition "
            f"(new_definition=True) to use it as it is now"
        )
