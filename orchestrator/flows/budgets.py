"""Checks of a document's budget: what it names, what cannot be met, and growth that is not stated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from emissions import SpawnRequest, TaskAssignment
from orchestrator.flows.compile import retry_of
from orchestrator.flows.document import NodeSpec, RetrySpec
from orchestrator.flows.durations import seconds
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem, Severity
from orchestrator.flows.references import References, Surroundings

__all__ = ["Priced", "check_budgets"]


#: Whether it is known what a model costs; None: nobody here can tell.
Priced: TypeAlias = Callable[[str], bool | None]


def check_budgets(
    source: Source, outline: Outline, references: References, priced: Priced | None = None
) -> Iterator[Problem]:
    """Problems of ``budget``, and of the times that nodes and ``defaults`` state.

    Args:
        priced: says whether a model's price is known; without it nothing is said of prices.
    """
    yield from _names(source, outline, references)
    yield from _growth(source, outline)
    yield from _spending(source, outline)
    if priced is not None and outline.document.budget.cost_usd is not None:
        yield from _prices(source, outline, priced)
    for name in outline.document.nodes:
        yield from _times(source, outline, name)


def _names(source: Source, outline: Outline, references: References) -> Iterator[Problem]:
    budget, catalogue = outline.document.budget, outline.cast.catalogue
    only_args = Surroundings(None, ("args",), bare=False)
    for name, value in budget.model_dump(exclude_none=True).items():
        yield from references.texts(("budget", name), value, only_args)
    for number, name in enumerate(budget.assignees or ()):
        if name not in catalogue and outline.cast.complete:
            message = f"there is no role {name!r}{suggestion(name, catalogue.names)}"
            yield source.problem(("budget", "assignees", number), message)


def _growth(source: Source, outline: Outline) -> Iterator[Problem]:
    budget = outline.document.budget
    # what a planner plans is no spawn, and who may spawn there is said by name
    cast = outline.document.prompt is not None
    growing = [name for name in outline.document.nodes if not cast and _may_grow(outline, name)]
    if growing and budget.spawns is None:
        message = f"{growing[0]} may spawn nodes; state how many: budget: {{spawns: 10}}, or 0 for none"
        yield source.problem(("budget",), message, key=True)
    for name in growing if budget.spawns == 0 else ():
        yield source.problem(
            ("nodes", name), f"{name} may spawn nodes, but spawns is 0", Severity.WARNING, key=True
        )
    if not growing or budget.spawns in (None, 0):
        return
    stated = f"spawns is {budget.spawns}, and no spawn can be accepted"
    if budget.depth == 0:
        yield source.problem(("budget", "depth"), f"{stated}: depth is 0; write at least 1", key=True)
    if budget.assignees == []:
        message = f"{stated}: assignees names no role; name one, or leave the key out"
        yield source.problem(("budget", "assignees"), message, key=True)


def _may_grow(outline: Outline, name: str) -> bool:
    role, emits = outline.role(name), outline.node(name).emits
    return role is not None and any(
        kind in (SpawnRequest, TaskAssignment) and (emits is None or kind.__name__ in emits)
        for kind in role.emits
    )


def _spending(source: Source, outline: Outline) -> Iterator[Problem]:
    """A budget of nothing, where a language model has to work."""
    budget = outline.document.budget
    speaking = next((name for name in outline.document.nodes if outline.speaks(name)), None)
    for key, value in (("tokens", budget.tokens), ("cost_usd", budget.cost_usd)):
        if speaking is not None and value in (0, 0.0):
            message = f"{key} is 0, and {speaking} needs a language model; write more, or leave the key out"
            yield source.problem(("budget", key), message, key=True)


def _prices(source: Source, outline: Outline, priced: Priced) -> Iterator[Problem]:
    """Models that nobody can price under a budget in dollars, each told once."""
    seen: set[str] = set()
    for name, models in _models(outline):
        for model in (one for one in models if one not in seen):
            seen.add(model)
            known = priced(model)
            if known is None:
                message = (
                    "whether prices are known cannot be told here, and no model runs: the extra `models` is "
                    "missing: pip install 'callboard[models]'"
                )
                yield source.problem(("budget", "cost_usd"), message, Severity.WARNING, key=True)
                return
            if not known:
                message = (
                    f"{name} calls {model}, whose price is not known, so cost_usd could not hold it; "
                    "name another model, or state tokens instead"
                )
                place: Place = ("nodes", name)
                place = (*place, "model") if outline.node(name).model == model else place
                yield source.problem(place, message, key=place == ("nodes", name))


def _models(outline: Outline) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What each node may call: the model that it or ``defaults`` names, its role's tiers, its fallbacks."""
    default = outline.default("model")
    for name, node in outline.document.nodes.items():
        role, own = outline.role(name), node.model or (default.value if default else None)
        if role is None:
            yield name, (own,) if own and node.operation is not None else ()
        elif role.fn is None and role.program is None:
            yield name, (*((own,) if own else role.models), *role.fallback)


def _times(source: Source, outline: Outline, name: str) -> Iterator[Problem]:
    """Attempts that the pauses between them leave no time for, and a timeout that nothing reaches."""
    document, node = outline.document, outline.node(name)
    place = ("nodes", name)
    retry = node.retry if node.retry is not None else document.defaults.retry
    paused = _pauses(retry) if isinstance(retry, RetrySpec) else 0.0
    for where, limit in _limits(outline, node):
        if paused >= limit > 0:
            message = (
                f"{name} cannot be attempted {retry.attempts} times: "  # type: ignore[union-attr]
                f"the pauses alone take {paused:g} s, and its {where} is {limit:g} s"
            )
            yield source.problem((*place, "retry"), message, key=True)
            return
    if node.timeout is None or node.deadline is None:
        return
    timeout, deadline = seconds(node.timeout), seconds(node.deadline)
    if timeout > deadline:
        message = f"the timeout of {name} is never reached: its deadline is {deadline:g} s; write less"
        yield source.problem((*place, "timeout"), message, Severity.WARNING, key=True)


def _limits(outline: Outline, node: NodeSpec) -> Iterator[tuple[str, float]]:
    if node.deadline is not None:
        yield "deadline", seconds(node.deadline)
    wall = outline.document.budget.wall_clock
    if wall is not None and not (isinstance(wall, str) and "${" in wall):
        yield "run's wall_clock", seconds(wall)


def _pauses(retry: RetrySpec) -> float:
    """Seconds between the first attempt and the last, attempts themselves not counted."""
    spec = retry_of(retry)
    assert spec is not None
    return sum(spec.delay(attempt, 0.0) for attempt in range(1, spec.attempts))
