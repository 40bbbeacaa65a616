"""Refusal loops in the naive model: a gate that refuses sends its work back, as a new round of it.

Worked out from the graph as it was planned and the links as they stand, over and over, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.core.naive import Model, Sketch

#: (round, tier): of two that did a planned node's work the later counts
Age = tuple[int, int]


def planned(model: Model, node: Sketch) -> str:
    """The planned node whose work this is, or from whose work it grew."""
    origin = node.origin or node.name
    return model.nodes[origin].copies or origin


def loop(model: Model, gate: str) -> set[str]:
    """What a planned gate sends back: whatever lies on a way from where it sends it to the gate."""
    back_to = model.nodes[gate].back_to
    starts = [back_to] if back_to else [source for source, target in model.planned if target == gate]
    names = {name for pair in model.planned for name in pair}
    found = {
        name
        for name in names
        if leads(model, name, gate) and any(leads(model, start, name) for start in starts)
    }
    return found if found != {gate} else set()


def leads(model: Model, start: str, goal: str) -> bool:
    """Whether there is a way in the plan."""
    return start == goal or any(leads(model, t, goal) for s, t in model.planned if s == start)


def round_of(model: Model, gate: Sketch, names: Iterable[str]) -> dict[str, Sketch]:
    """Who did the work that a gate judges: planned name -> the latest of them above the gate."""
    found: dict[str, Sketch] = {planned(model, gate): gate}

    def look(node: Sketch) -> None:
        for link in node.ins:
            source = model.nodes[link.source]
            name = planned(model, source)
            if source.depth or name not in names:
                continue
            known = found.get(name)
            if known is None or age(known) < age(source):
                found[name] = source
            look(source)

    look(gate)
    return found


def age(node: Sketch) -> Age:
    return node.round, node.rungs


def send_back(model: Model, gate: Sketch) -> bool:
    """A gate with refusals left refuses: its loop enters the graph once more; False if it has none left."""
    name = planned(model, gate)
    names = loop(model, name)
    if gate.refused >= gate.refusals or gate.early or model.cancelling or not names:
        return False
    old = round_of(model, gate, names)
    assert set(old) == names
    model.judged(gate, "refused")
    numbers = {name: 1 + max(node.round for node in copies(model, name)) for name in names}
    new = {name: again(model, old[name], f"{name}@{number}", number) for name, number in numbers.items()}
    new[name].refused = gate.refused + 1
    for copy in new.values():
        copy.ins = [
            replace(link, source=new[of].name if (of := planned(model, source)) in names else link.source)
            for link in origin(model, old[copy.copies]).ins
            if not ((source := model.nodes[link.source]).depth and planned(model, source) in names)
        ]
    wait_for(model, name, old, new)
    model.nodes.update({copy.name: copy for copy in new.values()})
    return True


def again(model: Model, last: Sketch, name: str, number: int) -> Sketch:
    """The planned node as it was written, at the tier that completed last."""
    written = model.nodes[planned(model, last)]
    kept = last if last.status == "completed" and last.rungs else written
    return type(last)(
        name, copies=written.name, round=number, previous=last.name, needs=written.needs, when=written.when,
        gate=written.gate, refuse_on=written.refuse_on, stop_on_failure=written.stop_on_failure,
        refusals=written.refusals, speaks=kept.speaks, fresh=written.fresh,
        tries=kept.tries, tiers=kept.tiers, rungs=last.rungs if last.status == "completed" else 0,
    )  # fmt: skip


def copies(model: Model, name: str) -> list[Sketch]:
    """A planned node and its copies."""
    return [node for node in model.nodes.values() if name in (node.name, node.copies)]


def latest(model: Model, name: str) -> str:
    """The node that a bare name means, whoever took its work over."""
    return max(copies(model, name), key=lambda node: node.round).name if name in model.nodes else name


def over(model: Model, node: Sketch) -> bool:
    """Whether a later round of the work has begun than the one that a node belongs to."""
    return latest(model, planned(model, node)) != (node.origin or node.name)


def origin(model: Model, node: Sketch) -> Sketch:
    return model.nodes[node.origin or node.name]


def family(model: Model, node: Sketch) -> list[Sketch]:
    """What did and grew from a planned node's work in one round."""
    own = origin(model, node).name
    return [one for one in model.nodes.values() if own in (one.name, one.origin)]


def wait_for(model: Model, gate: str, old: dict[str, Sketch], new: dict[str, Sketch]) -> None:
    """Who still waits for the old round waits for the new one, and no more for what grew in the old one."""
    grew = {node.name for done in old.values() for node in family(model, done) if node.depth}
    did = {node.name: name for name, done in old.items() for node in family(model, done) if not node.depth}
    for node in [node for node in model.nodes.values() if node.status == "waiting"]:
        inside = planned(model, node) in new
        moved = False
        for link in node.ins:
            name = did.get(link.source)
            if name is not None and (name == gate or not inside):
                link.source, moved = new[name].name, True
        if moved and not node.depth:
            node.ins = [link for link in node.ins if link.kind != "join" or link.source not in grew]
