"""What the next step begins with, from where the tasks of this one lead (supersteps.md 3, 4, 12).

Writes and routes are taken in the order of the tasks; within a task static edges come first, then what it
chose. A plain target keeps its first place and is one task; every Send is one of its own. A join stands
where its last arrival stood. Nothing here looks at time or at names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from orchestrator.core.supersteps.children import PARENT
from orchestrator.core.supersteps.facts import Entry
from orchestrator.core.supersteps.plan import END, Join
from orchestrator.core.supersteps.state import Activation, Leaving, StepState

__all__ = ["Selection", "select", "waiting_joins"]


class Selection(msgspec.Struct):
    """A frontier as it is being made."""

    entries: list[Entry] = []
    arrivals: dict[str, tuple[str, ...]] = {}
    deferred: tuple[str, ...] = ()


class _Making:
    """Collects entries in order; a join that waits keeps the place at which it was last reached."""

    def __init__(self, steps: StepState) -> None:
        self.steps = steps
        self.entries: list[Entry | None] = []
        self.plain: dict[str, None] = {}
        self.arrivals = {name: dict.fromkeys(seen) for name, seen in steps.arrivals.items()}
        self.deferred = dict.fromkeys(steps.deferred)
        #: a task leaves for the graph that called this one: nothing of this one runs any more
        self.leaves = False
        #: join -> the place of its last arrival in ``entries``, held open by None
        self.places: dict[str, int] = {}

    def target(self, name: str) -> None:
        """A plain target: one task, however often it is reached."""
        if name == END or name in self.plain:
            return
        if self.steps.nodes[name].deferred:
            self.deferred[name] = None
            return
        self.plain[name] = None
        self.entries.append(Entry(name))

    def arrive(self, join: Join, source: str) -> None:
        seen = self.arrivals.setdefault(join.name, {})
        seen[source] = None
        self.places[join.name] = len(self.entries)
        self.entries.append(None)

    def fire(self, join: Join) -> None:
        """Every parent of the join has settled."""
        del self.arrivals[join.name]
        place = self.places.get(join.name)
        name = join.target
        if name in self.plain:
            return
        if self.steps.nodes[name].deferred:
            self.deferred[name] = None
            return
        self.plain[name] = None
        if place is None:
            self.entries.append(Entry(name))
        else:
            self.entries[place] = Entry(name)


def select(steps: StepState, tasks: Sequence[tuple[Activation, Leaving | None]]) -> Selection:
    """The frontier after ``tasks``, each with where it leads beside its static edges.

    Args:
        steps: read only.
        tasks: in their order; a gate that rejected leads nowhere, but to what does not depend on it.
    """
    making = _Making(steps)
    for task, leaving in tasks:
        if leaving is None or not leaving.replaces:
            _static(making, task.node)
        if leaving is not None:
            _chosen(making, task.name, leaving)
        if steps.agents.spawned:
            _asked_for(making, task.name)
    return Selection() if making.leaves else _finished(making)


def _static(making: _Making, node: str) -> None:
    spec = making.steps.nodes[node]
    for target in spec.targets:
        making.target(target)
    for join in making.steps.plan.joins:
        if node in join.sources:
            making.arrive(join, node)


def _chosen(making: _Making, task: str, leaving: Leaving) -> None:
    for index, route in enumerate(leaving.routes):
        if route.to == PARENT:
            making.leaves = True
        elif route.send:
            making.entries.append(Entry(route.to, send=True, task=task, index=index, key=route.key))
        else:
            making.target(route.to)


def _asked_for(making: _Making, task: str) -> None:
    for index, asked in enumerate(making.steps.agents.spawned.get(task, ())):
        making.entries.append(
            Entry(asked.node, send=True, task=task, index=index, key=asked.key, spawned=True)
        )


def _finished(making: _Making) -> Selection:
    """Let every join go that nothing can reach any more, then the deferred nodes if nothing else is left."""
    if not making.arrivals and not making.deferred:
        return Selection([entry for entry in making.entries if entry is not None], {}, ())
    joins = {join.name: join for join in making.steps.plan.joins}
    while True:
        fired = [name for name in making.arrivals if _ready(making, joins[name])]
        for name in fired:
            making.fire(joins[name])
        if not fired:
            break
    entries = [entry for entry in making.entries if entry is not None]
    deferred = tuple(making.deferred)
    if not entries and deferred and not making.arrivals:
        entries, deferred = [Entry(name) for name in deferred], ()
    arrivals = {name: tuple(seen) for name, seen in making.arrivals.items()}
    return Selection(entries, arrivals, deferred)


def _ready(making: _Making, join: Join) -> bool:
    """Every parent arrived, or can no longer be reached by anything that is still to run."""
    seen = making.arrivals[join.name]
    missing = [source for source in join.sources if source not in seen]
    if not missing:
        return True
    reach = making.steps.reach
    coming = [entry.node for entry in making.entries if entry is not None]
    coming += making.deferred if not making.steps.nodes[join.target].deferred else ()
    coming += [
        other.target
        for other in making.steps.plan.joins
        if other.name in making.arrivals and other.name != join.name
    ]
    return not any(source in reach[name] for source in missing for name in coming)


def waiting_joins(steps: StepState) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Each join that waits, with the parents that it still misses."""
    for join in steps.plan.joins:
        if join.name in steps.arrivals:
            seen = steps.arrivals[join.name]
            yield join.target, tuple(source for source in join.sources if source not in seen)
