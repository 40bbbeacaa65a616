"""``rehearse``: a flow without its roles, many times, to see what it does before anybody is paid to work.

Every role is played by a stand-in that does, at random, what the role's ``emits`` and ``returns`` allow.
Each rehearsal has a seed: the order of events, what the stand-ins do and when, in virtual time. The same
seed is the same rehearsal.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from orchestrator.core.spec import Budget
from orchestrator.errors import InternalError, OperationError
from orchestrator.flows.arguments import ArgumentError, bind_arguments, bind_budget
from orchestrator.flows.flow import BoundFlow, Flow, load_flow
from orchestrator.runtime.run import Run
from orchestrator.runtime.session import Session
from orchestrator.testing.deadlock import DeadlockError
from orchestrator.testing.drawn import Drawer, Literals, literals_in
from orchestrator.testing.improvised import Improviser
from orchestrator.testing.laws import broken_laws
from orchestrator.testing.loops import run_seeded
from orchestrator.testing.observed import Observed, observe
from orchestrator.testing.recast import recast_graph, stand_in
from orchestrator.testing.review import Rehearsal, review
from roles import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DEFAULT_SEEDS", "rehearse"]

#: Rehearsals, if nobody says how many: an ordinary flow takes a few seconds.
DEFAULT_SEEDS = 200


def rehearse(
    flow: Flow | str | PathLike[str],
    seeds: int | Iterable[int] = DEFAULT_SEEDS,
    *,
    args: Mapping[str, Any] | None = None,
) -> Rehearsal:
    """Rehearse a flow. Call it from plain code: it runs event loops of its own.

    Args:
        flow: a document's path, or a Flow. Its cast is loaded; none of its roles is called.
        seeds: how many rehearsals, or which.
        args: arguments that are given; the others are drawn, or have their defaults.

    Returns:
        What was found; ``ok`` if that is nothing.

    Raises:
        FlowError: the document has an error. OperationError: ``seeds`` names none.
    """
    known = flow if isinstance(flow, Flow) else load_flow(Path(flow))
    if known.stepped:
        raise OperationError(
            f"{known.name} has schedule: supersteps, and a rehearsal plays graphs; run it with stand-ins: "
            "callboard run --model test"
        )
    chosen = range(seeds) if isinstance(seeds, int) else tuple(seeds)
    if not chosen:
        raise OperationError("there is nothing to rehearse with 0 seeds; give at least 1")
    stage = _Stage(known, dict(args or {}))
    with _quiet(), tempfile.TemporaryDirectory(prefix="callboard-") as folder:
        seen = [stage.play(seed, Path(folder)) for seed in chosen]
    return review(known.name, stage.bound.graph, seen, stage.budgets)


@contextmanager
def _quiet() -> Iterator[None]:
    """No log lines: what happens on a stage is no news."""
    log = logging.getLogger("callboard")
    before = log.disabled, logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        log.disabled = before[0]
        logging.disable(before[1])


class _Stage:
    """A flow made ready once; each rehearsal differs in its arguments and its cast.

    Attributes:
        bound: the flow with the arguments of no seed. budgets: those that rehearsals had.
    """

    def __init__(self, flow: Flow, args: dict[str, Any]) -> None:
        self._flow, self._args = flow, args
        first = self._arguments(Improviser(0, {}, Literals()))
        named = [node.operation for node in flow.document.nodes.values() if node.operation is not None]
        self.bound = flow.bind(first, named)
        graph = self.bound.graph
        self._names = frozenset(graph.operations)
        self._roles = {role.name: role for role in self.bound.roles}
        whens = [operation.when for operation in graph.operations.values()]
        whens += [edge.when for edge in graph.edges]
        self._literals = literals_in(when for when in whens if when is not None)
        self.budgets: list[Budget] = []

    def play(self, seed: int, folder: Path) -> Observed:
        """One rehearsal."""
        cast = Improviser(seed, self._roles, self._literals)
        found = Observed(seed, cast.mood.name)
        try:
            run_seeded(self._run, cast, folder / str(seed), found, seed=seed)
        except (DeadlockError, InternalError) as error:
            found.broken.append(f"{type(error).__name__}: {error}")
        return found

    async def _run(self, cast: Improviser, folder: Path, found: Observed) -> None:
        flow = _Played(self._flow, self._bound(cast), cast)
        clock = lambda: int(anyio.current_time() * 1e9)  # noqa: E731
        async with _Watched(cast, seed=cast.seed, folder=folder, clock=clock) as session:
            for operation in self.bound.graph.operations.values():
                if operation.role is None and operation.inquiry is None:
                    session.register_operation(operation.verb, cast.play)
            people = cast.drawer("people")
            answered = not people.chance(cast.mood.silent)
            run = await session.start(flow, waits_for_answers=answered)
            async with anyio.create_task_group() as group:
                if answered:
                    group.start_soon(_answer, run, people)
                await run.over()
                group.cancel_scope.cancel()
        found.active, found.spoiled = cast.most, cast.spoiled
        observe(found, run.engine.state, self._names)
        found.broken += broken_laws(run)
        if run.engine.kernel.fault is not None:
            found.broken.append(f"the run halted: {run.engine.kernel.fault}")

    def _bound(self, cast: Improviser) -> BoundFlow:
        document = self._flow.document
        values = bind_arguments(document.args, self._arguments(cast))
        try:
            budget = bind_budget(document.budget, values, self.bound.budget.assignees or ())
        except ArgumentError:  # an argument that was drawn is no limit
            values, budget = dict(self.bound.args), self.bound.budget
        self.budgets.append(budget)
        return replace(self.bound, args=values, budget=budget)

    def _arguments(self, cast: Improviser) -> dict[str, Any]:
        """Values for the arguments: those that are given, and drawn ones for what is required."""
        found = dict(self._args)
        for name, spec in self._flow.args.items():
            if name in found or not spec.required:
                continue
            drawer = cast.drawer("argument", name)
            schema = {"enum": spec.enum} if spec.enum else _ARGUMENTS[spec.type]
            found[name] = drawer.value(schema)
        return found


async def _answer(run: Run, people: Drawer) -> None:
    """Answer what is asked, at random and not at once."""
    async with run.events(kinds=("QuestionAsked",)) as asked:
        async for event in asked:
            await anyio.sleep(people.draw.uniform(0, 600))
            choices, schema = event.data.get("choices"), event.data.get("schema")
            shape = {"enum": list(choices)} if choices else msgspec.json.decode(schema) if schema else _TEXT
            run.answer(event.node or "", people.value(shape), key=event.data["key"], by="rehearsal")


_TEXT: Mapping[str, Any] = {"type": "string"}
_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "str": {"type": "string", "minLength": 1},
    "int": {"type": "integer", "minimum": 1, "maximum": 20},
    "float": {"type": "number", "minimum": 0, "maximum": 20},
    "bool": {"type": "boolean"},
    "path": {"enum": ["a", "folder/of/files", "notes.txt"]},
    "any": {},
}


class _Played(Flow):
    """A flow whose every role is improvised."""

    def __init__(self, flow: Flow, bound: BoundFlow, cast: Improviser) -> None:
        # the document, and what was read and checked of it, are the flow's own
        self.__dict__.update(vars(flow))
        self._bound, self._troupe = bound, cast

    def bind(
        self,
        args: Mapping[str, object] | None = None,
        operations: Collection[str] = (),
        tools: Collection[str] = (),
    ) -> BoundFlow:
        """What was bound already, with stand-ins for all roles."""
        actors = {role.name: self._troupe.play for role in self._bound.roles}
        catalogue = Catalogue()
        for role in self._bound.roles:
            played = stand_in(role.name, self._troupe.play, role)
            catalogue.add(played, origin=self._bound.roles.origin(role.name))
        graph = recast_graph(self._bound.graph, actors)
        roles = {
            name: catalogue.get(name) if name in catalogue else role for name, role in graph.roles.items()
        }
        return replace(self._bound, graph=replace(graph, roles=roles), roles=catalogue)


class _Watched(Session):
    """A session that shows its run to the cast before anybody has a turn."""

    def __init__(self, cast: Improviser, **options: Any) -> None:
        super().__init__(**options)
        self._troupe = cast

    def _make(self, *args: Any, **options: Any) -> Run:
        run = super()._make(*args, **options)
        self._troupe.run = run
        return run
