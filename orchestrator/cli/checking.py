"""``callboard check`` and ``schema``: what a document says, without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from emissions import Emission, EscalationRequest, SpawnRequest, TaskAssignment
from orchestrator.agents.backends import priced
from orchestrator.cli.edge import say, say_json
from orchestrator.cli.exits import USAGE
from orchestrator.cli.opening import near, open_flow
from orchestrator.cli.options import CheckOptions, SchemaOptions
from orchestrator.core.loops import most_rounds
from orchestrator.core.spec import Budget
from orchestrator.flows.arguments import ArgumentError, bind_arguments, bind_budget
from orchestrator.flows.draw import verdict_effects
from orchestrator.flows.flow import Flow, flow_schema
from orchestrator.flows.graph import Graph
from orchestrator.flows.problems import Problem, Severity
from orchestrator.flows.refusals import with_refusals

__all__ = ["check", "schema"]

_STEPS: Final = {"steps": "steps", "visits": "visits of one node", "tasks": "tasks"}
_LIMITS: Final = ("tokens", "cost_usd", "wall_clock")


def check(options: CheckOptions) -> int:
    """Print problems, and of a flow without errors what will happen when it runs."""
    flow = open_flow(options.flow)
    problems = flow.check(priced=priced)
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    told = {} if errors else {**_when(flow), **_budget(flow)}
    if options.json:
        found = {"file": str(flow.path), "name": flow.name, "ok": not errors}
        say_json(msgspec.json.encode({**found, "problems": [_problem(one) for one in problems], **told}))
        return USAGE if errors else 0
    say("\n".join(map(str, problems)))
    if errors:
        say(f"{flow.name}: {errors} error{'s' if errors > 1 else ''}; it does not run")
        return USAGE
    say(f"\n{flow.name}: {_count(len(flow.document.nodes), 'node')}{_described(flow)}\n")
    say("\n".join(told["when"].values()))
    for node, said in told["models"].items():
        words = (f"{key} {one['value']} ({near(one['from'])})" for key, one in said.items())
        say(f"{node}: {', '.join(words)}")
    for gate, effects in told["gates"].items():
        say(f"\ngate {gate}")
        say("\n".join(f"  {verdict or 'without a verdict'}: {effect}" for verdict, effect in effects.items()))
    say("\n" + "\n".join(_budget_lines(told["budget"])))
    return 0


def _described(flow: Flow) -> str:
    return f". {flow.description}" if flow.description else ""


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "severity": str(problem.severity),
        "message": problem.message,
    }


def _when(flow: Flow) -> dict[str, Any]:
    models = {
        name: {key: {"value": one.value, "from": one.origin} for key, one in said.items()}
        for name, said in flow.models().items()
    }
    return {"when": dict(flow.sentences()), "gates": verdict_effects(flow.graph), "models": models}


def _budget(flow: Flow) -> dict[str, Any]:
    """What is planned, what may be added, and the most that can come of it."""
    planned = flow.graph.operations.values()
    budget = _bound(flow)
    instances = sum(node.for_each.max for node in planned if node.for_each is not None)
    found: dict[str, Any] = {
        "planned_nodes": len(planned),
        "instances": instances,
        "planned_attempts": sum(
            _attempts(flow, node.role, node.retry) * (1 if node.for_each is None else node.for_each.max)
            for node in planned
        ),
        "stated": flow.document.budget.model_dump(exclude_none=True),
    }
    if budget is not None:
        # the tasks of a planner are its plan, and only those of ``reactive`` may spawn beside it
        plans = flow.document.prompt is not None
        grows = bool(flow.document.reactive) if plans else _may_emit(flow, SpawnRequest, TaskAssignment)
        # what is added may be of any role: it can be handed up whatever the planned roles declare
        rises = grows or _may_emit(flow, EscalationRequest)
        added = budget.spawns * grows + budget.escalations * rises
        most = max((_attempts(flow, role, None) for role in budget.assignees or ()), default=1)
        found |= {name: getattr(budget, name) for name in ("spawns", "depth", "escalations", "concurrency")}
        found |= {name: getattr(budget, name) for name in _LIMITS}
        added += flow.document.max_nodes or 0
        if flow.stepped:
            return {"budget": found | {name: getattr(budget, name) for name in _STEPS}}
        again, worked = _again(flow, found)
        found["worst_case_nodes"] = found["planned_nodes"] + instances + again + added
        found["worst_case_attempts"] = worked + added * most
    return {"budget": found}


def _again(flow: Flow, found: dict[str, Any]) -> tuple[int, int]:
    """Nodes that refusal loops can add, and the attempts of all rounds together."""
    graph = _graph(flow)
    planned = tuple(graph.operations.values())
    rounds = most_rounds(planned, graph.edges)
    lists = {node.name: 0 if node.for_each is None else node.for_each.max for node in planned}
    if any(count > 1 for count in rounds.values()):
        found["rounds"] = {name: count for name, count in rounds.items() if count > 1}
    return (
        sum((rounds[name] - 1) * (1 + count) for name, count in lists.items()),
        sum(
            rounds[node.name] * _attempts(flow, node.role, node.retry) * (lists[node.name] or 1)
            for node in planned
        ),
    )


def _graph(flow: Flow) -> Graph:
    """The graph with the arguments' defaults; as it is written if it needs an argument that has none."""
    try:
        return with_refusals(flow.graph, flow.document, _defaults(flow))
    except ArgumentError:
        return flow.graph


def _may_emit(flow: Flow, *kinds: type[Emission]) -> bool:
    """True if a planned node may emit one of the types; nobody knows what stands behind a bare operation."""
    names = {kind.__name__ for kind in kinds}
    for node in flow.document.nodes.values():
        if node.ask is not None:
            continue
        declared = flow.roles.get(node.role).emits if node.role is not None else kinds
        narrowed = names if node.emits is None else names & set(node.emits)
        if narrowed & {kind.__name__ for kind in declared}:
            return True
    return False


def _defaults(flow: Flow) -> Mapping[str, object]:
    """What the arguments are that nobody has to give."""
    optional = {name: spec for name, spec in flow.document.args.items() if not spec.required}
    return bind_arguments(optional, {})


def _bound(flow: Flow) -> Budget | None:
    """The budget with the arguments' defaults; None if it needs an argument that has none."""
    stated = flow.document.budget
    assignees = tuple(stated.assignees or (role.name for role in flow.roles if role.fn is not None))
    try:
        return bind_budget(stated, _defaults(flow), assignees)
    except ArgumentError:
        return None


def _attempts(flow: Flow, name: str | None, own: Any) -> int:
    """How often a node may be attempted: what it says, or what its role says."""
    if own is not None:
        return int(own.attempts)
    role = flow.roles.get(name) if name is not None and name in flow.roles else None
    return role.retry.attempts if role is not None and role.retry is not None else 1


def _budget_lines(found: Mapping[str, Any]) -> list[str]:
    stated: Mapping[str, Any] = found["stated"]
    attempts = _count(found["planned_attempts"], "attempt")
    nodes = _count(found["planned_nodes"], "node")
    if found["instances"]:
        nodes += f" and at most {_count(found['instances'], 'instance')}"
    lines = ["budget", f"  planned: {nodes}, at most {attempts}"]
    if "spawns" not in found:
        needed = ", ".join(f"{name} is {value}" for name, value in stated.items())
        return [*lines, f"  allowed: depends on arguments that have no default ({needed})"]
    lines.append(
        f"  allowed: {found['spawns']:,} spawns{_from(stated, 'spawns')}, depth {found['depth']}, "
        f"{found['escalations']:,} escalations, {found['concurrency'] or 'any number of'} nodes at once"
    )
    limits = [f"{name} {found[name]:,}{_from(stated, name)}" for name in _LIMITS if found[name] is not None]
    lines.append(f"  limits: {', '.join(limits) or 'none on tokens, cost or time'}")
    if "steps" in found:
        some = [f"{found[name]:,} {word}" for name, word in _STEPS.items() if found[name] is not None]
        return [*lines, f"  a run: at most {', '.join(some)}"]
    worst = _count(found["worst_case_nodes"], "node")
    return [*lines, f"  worst case: {worst}, {_count(found['worst_case_attempts'], 'attempt')}"]


def _from(stated: Mapping[str, Any], name: str) -> str:
    value = stated.get(name)
    return f" ({value} with its default)" if isinstance(value, str) and "${" in value else ""


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def schema(_options: SchemaOptions) -> int:
    """Print the JSON Schema of flow documents."""
    say_json(msgspec.json.format(msgspec.json.encode(flow_schema()), indent=2))
    return 0
