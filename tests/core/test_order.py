"""Orders over the graph against naive ones: births, cycles, paths, graph order."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from emissions import Refused
from orchestrator.core import commands as c
from orchestrator.core.births import Birth, compare, sort_key
from orchestrator.core.order import cycle_in, in_graph_order, reaches
from tests.core.small import Small, plan

Path = tuple[int, ...]


@st.composite
def families(draw: st.DrawFn) -> list[tuple[Path, Birth]]:
    """A tree of births with the path of numbers that leads to each."""
    roots = draw(st.integers(1, 4))
    found: list[tuple[Path, Birth]] = [((number,), Birth(number)) for number in range(roots)]
    children = dict.fromkeys(range(12), 0)
    for _ in range(draw(st.integers(0, 8))):
        place = draw(st.integers(0, len(found) - 1))
        children[place] = children.get(place, 0) + 1
        path, birth = found[place]
        found.append(((*path, children[place]), birth.child(children[place])))
    return found


@given(families())
def test_births_are_ordered_like_their_paths(family: list[tuple[Path, Birth]]):
    """engine.md 15: a parent, then its children in order, each followed by its own offspring."""
    for left, one in family:
        for right, other in family:
            wanted = (left > right) - (left < right)
            got = compare(one, other)
            assert (got > 0) - (got < 0) == wanted
    births = sorted((birth for _, birth in family), key=sort_key)
    assert births == [birth for _, birth in sorted(family, key=lambda pair: pair[0])]


def test_a_lineage_of_ten_thousand():
    """Births are linked: a deep lineage is compared without recursion."""
    deep = Birth(0)
    for _ in range(10_000):
        deep = deep.child(1)
    assert compare(Birth(0), deep) < 0
    assert compare(deep, deep.child(1)) < 0
    assert compare(deep, Birth(1)) < 0


graphs = st.integers(1, 7).flatmap(
    lambda size: st.lists(st.sets(st.integers(0, size - 1), max_size=3), min_size=size, max_size=size)
)


def naive_cycle(successors: dict[str, list[str]]) -> bool:
    def below(name: str, path: tuple[str, ...]) -> bool:
        return name in path or any(below(other, (*path, name)) for other in successors[name])

    return any(below(name, ()) for name in successors)


@given(graphs)
def test_cycles(edges: list[set[int]]):
    """Found exactly when a depth-first walk meets itself; what is named is a cycle of the graph."""
    successors = {
        f"n{place}": [f"n{other}" for other in sorted(targets)] for place, targets in enumerate(edges)
    }
    path = cycle_in(successors)
    assert (path is not None) == naive_cycle(successors)
    if path is not None:
        assert path[0] == path[-1]
        assert len(set(path)) == len(path) - 1
        assert all(target in successors[source] for source, target in pairwise(path))


ordered = st.integers(2, 9).flatmap(
    lambda size: st.tuples(
        *(
            st.sets(st.integers(0, place - 1), max_size=3) if place else st.just(set())
            for place in range(size)
        )
    )
)


def dag(above: tuple[set[int], ...]) -> Small:
    edges = [f"n{source}>n{place}" for place, sources in enumerate(above) for source in sorted(sources)]
    return Small(plan(*(f"n{place}" for place in range(len(above))), edges=edges))


@given(ordered, st.data())
def test_reaches(above: tuple[set[int], ...], data: st.DataObject):
    """A path through waiting nodes, or None: as a walk over all edges between waiting nodes says."""
    run = dag(above)
    names = list(run.state.nodes)
    sources = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
    goals = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
    waiting = {name for name, node in run.state.nodes.items() if node.status == "waiting"}

    def walk(name: str) -> bool:
        targets = [edge.target for edge in run.state.nodes[name].outs]
        return name in goals or any(target in waiting and walk(target) for target in targets)

    path = reaches(run.state, sources, goals)
    assert (path is not None) == any(walk(name) for name in sources)
    if path is not None:
        assert path[0] in sources
        assert path[-1] in goals
        for source, target in pairwise(path):
            assert target in [edge.target for edge in run.state.nodes[source].outs]


def finish_in(run: Small, data: st.DataObject) -> None:
    """Finish everything, in an order that is drawn."""
    while not run.state.ended:
        running = [name for name, node in run.state.nodes.items() if node.status == "running"]
        run.finish(data.draw(st.sampled_from(running)))


@given(ordered, st.data())
def test_graph_order_is_the_order_of_declaration(above: tuple[set[int], ...], data: st.DataObject):
    """For a graph that was declared in dependency order, whatever the order of settling (law 9)."""
    run = dag(above)
    finish_in(run, data)
    names = list(run.state.nodes)
    assert in_graph_order(run.state, data.draw(st.permutations(names))) == names


def test_graph_order_puts_children_after_their_parent():
    """Births decide ties: a planned node, then what it grew, then the next; never who was accepted first."""
    run = Small(plan("a", "b", "z", edges=["a>z", "b>z"]))
    for emitter, work in (("b", "1"), ("a", "2"), ("b", "3"), ("a", "4")):
        assert run.emit(emitter, "SpawnRequest", instruction=work)
    for name in ("b", "a"):
        run.finish(name)
    while not run.state.ended:
        run.finish(next(name for name, node in run.state.nodes.items() if node.status == "running"))
    wanted = ["a", "a.worker-1", "a.worker-2", "b", "b.worker-1", "b.worker-2", "z"]
    assert in_graph_order(run.state, reversed(wanted)) == wanted


def test_graph_order_is_topological_where_declaration_is_not():
    """A node that was declared before what it waits for comes after it."""
    run = Small(plan("late", "early", edges=["early>late"]))
    run.finish("early")
    run.finish("late")
    assert in_graph_order(run.state, ["late", "early"]) == ["early", "late"]


def test_a_chain_that_would_close_through_a_thousand_nodes():
    """bad-inputs 17: refused as a cycle, named with its path; the graph is as before."""
    names = [f"n{place}" for place in range(1_000)]
    run = Small(plan("root", *names, edges=[f"{a}>{b}" for a, b in pairwise(names)] + ["root>n0"]))
    before = len(run.state.nodes), run.state.spawns
    payload = msgspec.json.encode({"instruction": "x", "after": ["n999"], "before": ["n0"]})
    decision = run.machine.handle(c.Emit("root", 1, c.EmissionIn("SpawnRequest", 0)), 2, (payload,))
    (receipt,) = decision.receipts
    assert isinstance(receipt, Refused)
    assert receipt.reason == "cycle"
    assert receipt.detail.count("->") == 1_001
    assert (len(run.state.nodes), run.state.spawns) == before
