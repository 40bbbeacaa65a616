"""What many rehearsals of one flow showed together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.core.expressions import compile_expression
from orchestrator.core.spec import Budget
from orchestrator.flows.graph import Graph
from orchestrator.testing.observed import Observed, edge_name, max_of, refusals_of, when_name

__all__ = ["ENOUGH", "BudgetUse", "Finding", "Most", "Rehearsal", "review"]

#: Fewer rehearsals than this say nothing about what never happens.
ENOUGH: Final = 20
_UNMEASURED: Final = ("tokens", "cost_usd")
#: Reasons after which nobody knows how to go on: the flow cannot get there by what its roles may do.
_ASTRAY: Final = frozenset({"stuck", "needs_recovery"})


@dataclass(frozen=True, slots=True)
class Most:
    """The highest number of something, the first seed that showed it, and where."""

    count: int = 0
    seed: int = 0
    where: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong or doubtful.

    Attributes:
        kind: law, stuck, never_ran, never_passed, ungated, never_true, never_false, conflict
            or fault.
        where: a node, gate, condition or context key. message: one line for people.
        seed: a rehearsal that shows it; None for what no rehearsal showed.
    """

    kind: str
    where: str
    message: str
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """How far rehearsals went with a budget.

    Attributes:
        limit: what is allowed; None if it differs by rehearsal or is no limit. most: the most that was used.
        reached: rehearsals that came to the limit. refused: requests that it refused in all of them.
        seed: the first rehearsal that came to it. told: one line for people.
    """

    name: str
    limit: float | None
    most: float
    reached: int
    refused: int
    seed: int | None
    told: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What the rehearsals of a flow showed.

    Attributes:
        flow: its name. seeds: which rehearsals. planned: nodes in the document.
        reasons: why runs stopped -> how many. nodes, depth, rounds: the most of each.
        findings: what is wrong or doubtful. budgets: what each of them bounds.
        runs: every rehearsal by itself.
    """

    flow: str
    seeds: tuple[int, ...]
    planned: int
    reasons: Mapping[str, int]
    nodes: Most
    depth: Most
    rounds: Most
    findings: tuple[Finding, ...]
    budgets: tuple[BudgetUse, ...]
    runs: tuple[Observed, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """True if nothing was found."""
        return not self.findings

    @property
    def laws_held(self) -> bool:
        """True if no law of the engine was broken."""
        return not any(one.kind == "law" for one in self.findings)

    def found(self, kind: str) -> list[str]:
        """Where something of a kind was found."""
        return [one.where for one in self.findings if one.kind == kind]


def review(name: str, graph: Graph, seen: Sequence[Observed], budgets: Sequence[Budget]) -> Rehearsal:
    """Join what single rehearsals showed."""
    findings = [*_broken(seen), *_astray(seen), *_ungated(seen), *_conflicts(seen), *_faults(seen)]
    if len(seen) >= ENOUGH:
        findings += [*_never_ran(graph, seen), *_gates(graph, seen), *_conditions(graph, seen)]
    return Rehearsal(
        flow=name,
        seeds=tuple(run.seed for run in seen),
        planned=len(graph.operations),
        reasons=dict(Counter(run.reason or "halted" for run in seen).most_common()),
        nodes=_most((run.nodes, run.seed, "") for run in seen),
        depth=_most((run.depth, run.seed, "") for run in seen),
        rounds=_most((count, run.seed, gate) for run in seen for gate, count in run.rounds.items()),
        findings=tuple(findings),
        budgets=tuple(_budgets(graph, seen, budgets)),
        runs=tuple(seen),
    )


def _most(counts: Iterable[tuple[int, int, str]]) -> Most:
    best = Most()
    for count, seed, where in counts:
        if count > best.count:
            best = Most(count, seed, where)
    return best


def _broken(seen: Sequence[Observed]) -> list[Finding]:
    return [
        Finding("law", line, f"a law does not hold: {line}; a bug of callboard's", run.seed)
        for run in seen
        for line in run.broken
    ]


def _astray(seen: Sequence[Observed]) -> list[Finding]:
    first: dict[str, int] = {}
    for run in seen:
        if run.reason in _ASTRAY:
            first.setdefault(run.reason, run.seed)
    return [
        Finding("stuck", reason, f"a run stopped as {reason}: nodes wait for what cannot come", seed)
        for reason, seed in first.items()
    ]


def _never_ran(graph: Graph, seen: Sequence[Observed]) -> list[Finding]:
    ran = set().union(*(run.ran for run in seen))
    found = []
    for name, operation in graph.operations.items():
        if name not in ran:
            by_args = operation.when is not None and _of_arguments(operation.when)
            why = (
                f": {operation.when} depends on args alone; rehearse it with others (--arg)"
                if by_args
                else ""
            )
            found.append(Finding("never_ran", name, f"{name} never ran{why}"))
    return found


def _gates(graph: Graph, seen: Sequence[Observed]) -> list[Finding]:
    found = []
    for name, operation in graph.operations.items():
        judged = [run.gates[name] for run in seen if name in run.gates]
        if operation.gate is not None and judged and not any(judged):
            told = f"gate {name} never passed; it was judged in {_times(len(judged))}"
            found.append(Finding("never_passed", name, told))
    return found


def _ungated(seen: Sequence[Observed]) -> list[Finding]:
    first: dict[tuple[str, str], int] = {}
    for run in seen:
        for pair in sorted(run.ungated):
            first.setdefault(pair, run.seed)
    return [
        Finding(
            "ungated",
            node,
            f"{node} runs without a word of gate {gate} if what {gate} waits for fails: it has another way; "
            f"write when: \"{gate}.status == 'completed'\"",
            seed,
        )
        for (node, gate), seed in first.items()
    ]


def _conditions(graph: Graph, seen: Sequence[Observed]) -> list[Finding]:
    """Conditions that went one way only; an ``else`` only mirrors the others of its source.

    One that names arguments alone went the way of the arguments that rehearsals had: no news of the flow.
    """
    names = [
        when_name(name, operation.when)
        for name, operation in graph.operations.items()
        if operation.when is not None and not _of_arguments(operation.when)
    ]
    names += [
        edge_name(edge.source, edge.target, edge.when)
        for edge in graph.edges
        if edge.when is not None and edge.label != "else" and not _of_arguments(edge.when)
    ]
    found = []
    for name in names:
        judged = [run.conditions[name] for run in seen if name in run.conditions]
        for way in (True, False):
            if judged and not any(way in ways for ways in judged):
                kind = f"never_{str(way).lower()}"
                told = f"never {str(way).lower()}: {name} (judged in {_times(len(judged))})"
                found.append(Finding(kind, name, told))
    return found


def _of_arguments(when: str) -> bool:
    """Whether a condition depends on the arguments of the run and on nothing else."""
    return set(compile_expression(when).names) == {"args"}


def _conflicts(seen: Sequence[Observed]) -> list[Finding]:
    found: dict[str, Finding] = {}
    for run in seen:
        for key, told in run.conflicts.items():
            found.setdefault(key, Finding("conflict", key, told, run.seed))
    return list(found.values())


def _faults(seen: Sequence[Observed]) -> list[Finding]:
    found: dict[tuple[str, str], Finding] = {}
    for run in seen:
        for fault in run.faults:
            key = fault.node, fault.type
            told = f"{fault.node} fails by itself: {fault.type}: {fault.message}"
            found.setdefault(key, Finding("fault", fault.node, told, run.seed))
    return list(found.values())


def _budgets(graph: Graph, seen: Sequence[Observed], budgets: Sequence[Budget]) -> list[BudgetUse]:
    found = [
        _use(name, [getattr(budget, name) for budget in budgets], seen)
        for name in ("spawns", "depth", "escalations", "concurrency", "wall_clock")
    ]
    found += [
        _use(max_of(name), [operation.for_each.max] * len(seen), seen)
        for name, operation in graph.operations.items()
        if operation.for_each is not None
    ]
    found += [
        _use(refusals_of(name), [operation.gate.refusals] * len(seen), seen)
        for name, operation in graph.operations.items()
        if operation.gate is not None and operation.gate.refusals
    ]
    found += [
        BudgetUse(name, limit, 0, 0, 0, None, f"{name} {limit:,}: no model runs in a rehearsal")
        for name in _UNMEASURED
        if (limit := getattr(budgets[0], name)) is not None
    ]
    return [use for use in found if use.limit is not None or use.most]


def _use(name: str, limits: Sequence[Any], seen: Sequence[Observed]) -> BudgetUse:
    limit = limits[0] if len(set(limits)) == 1 else None
    most = max((run.used.get(name, 0) for run in seen), default=0)
    hits = [run for run, own in zip(seen, limits, strict=True) if _reached(name, run, own)]
    refused = sum(run.refused.get(name, 0) for run in seen)
    shown = f"{limit:,g}" if limit is not None else "by argument" if any(limits) else "no limit"
    told = f"{name} {shown}: "
    told += f"reached in {_times(len(hits))}" if hits else f"never in the way, at most {most:,.4g}"
    told += f", {refused:,} refused" if refused else ""
    return BudgetUse(name, limit, most, len(hits), refused, hits[0].seed if hits else None, told)


def _reached(name: str, run: Observed, limit: float | None) -> bool:
    if limit is None:
        return False
    if name == "wall_clock":
        return run.reason == "deadline"
    if name == "concurrency":
        return run.used.get(name, 0) >= limit
    return bool(run.refused.get(name))


def _times(count: int) -> str:
    return f"{count:,} rehearsal{'' if count == 1 else 's'}"
