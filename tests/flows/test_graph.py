"""Graph.check: order, cycles, names, branches."""

from __future__ import annotations

import gc
import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.spec import Edge, Operation
from orchestrator.errors import CycleError, GraphError, OperationError, UnknownNodeError
from orchestrator.flows.graph import Graph, topological_order


def graph(names, pairs, **operations):
    nodes = {name: operations.get(name, Operation(name=name)) for name in names}
    return Graph("g", nodes, tuple(Edge(source=a, target=b) for a, b in pairs))


def test_empty_and_single():
    """S59: both are fine."""
    assert graph("", []).check() == ()
    assert graph("a", []).check() == ("a",)


def test_a_cycle_is_named():
    """S59: the path stands in the error, first and last equal; an OperationError as in the seed."""
    with pytest.raises(CycleError) as caught:
        graph("xabcdy", [("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "y")]).check()
    assert caught.value.path == ("a", "b", "c", "a")
    assert isinstance(caught.value, OperationError)
    with pytest.raises(CycleError) as caught:
        graph("a", [("a", "a")]).check()
    assert caught.value.path == ("a", "a")


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        (Edge(source="a", target="zz"), "'zz', which does not exist"),
        (Edge(source="a", target="b", when="reslt.ok"), "did you mean 'result'"),
        (Edge(source="a", target="b", when="q.ok"), "names 'q', which does not exist"),
        (Edge(source="a", target="b", when="nodes['q'].ok"), "'q', which does not exist"),
    ],
)
def test_names_in_edges(edge, message):
    """Law 8: an unknown name is an error before anything runs."""
    nodes = {name: Operation(name=name) for name in "ab"}
    with pytest.raises(UnknownNodeError, match=message):
        Graph("g", nodes, (edge,)).check()


def test_names_in_conditions_of_nodes():
    """Both arms: known names pass, unknown ones are named with a suggestion."""
    good = Operation(name="b", when="a.x == 1 and nodes['a'].status == 'completed' and exists(args.q)")
    assert graph("ab", [("a", "b")], b=good).check() == ("a", "b")
    with pytest.raises(UnknownNodeError, match="when of b names 'result'"):
        graph("ab", [("a", "b")], b=Operation(name="b", when="result.x == 1")).check()


def _pairs():
    """A number of nodes, and some pairs of them."""
    numbers = st.integers(2, 9)
    return numbers.flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    )


@given(_pairs())
def test_order_or_a_real_cycle(drawn):
    """Every edge goes forward in the order, or the named cycle consists of edges."""
    count, pairs = drawn
    names = [f"n{number}" for number in range(count)]
    edges = [(f"n{a}", f"n{b}") for a, b in sorted(pairs)]
    path = None
    try:
        order = topological_order(names, edges)
    except CycleError as error:
        path = error.path
    if path is not None:
        assert path[0] == path[-1]
        assert all(pair in edges for pair in itertools.pairwise(path))
        return
    assert sorted(order) == sorted(names)
    assert all(order.index(a) < order.index(b) for a, b in edges)


@given(_pairs(), st.sets(st.integers(0, 8)))
def test_shared_branches_must_be_ordered(drawn, marked):
    """kernel.md 7, against a naive search for two unordered nodes."""
    count, pairs = drawn
    sharing = {number for number in marked if number < count}
    edges = [(a, b) for a, b in sorted(pairs) if a < b]
    above = {n: set() for n in range(count)}
    for n in range(count):
        for a, b in edges:
            if b == n:
                above[n] |= above[a] | {a}
    clash = any(a not in above[b] and b not in above[a] for a in sharing for b in sharing if a != b)
    nodes = {f"n{n}": Operation(name=f"n{n}", branch="main" if n in sharing else None) for n in range(count)}
    made = Graph("g", nodes, tuple(Edge(source=f"n{a}", target=f"n{b}") for a, b in edges))
    if clash:
        with pytest.raises(GraphError, match="share the branch 'main'"):
            made.check()
    else:
        made.check()


def test_checking_is_linear():
    """A cycle at the end of a long chain is found in linear time, and a long cycle is named."""

    def checked(count):
        names = [f"n{n}" for n in range(count)]
        made = graph(names, [*itertools.pairwise(names), (names[-1], names[0])])
        start = time.thread_time()
        with pytest.raises(CycleError) as caught:
            made.check()
        assert len(caught.value.path) == count + 1
        return time.thread_time() - start

    gc.disable()  # collections of a growing heap are not the check's time
    try:
        # Memory that no longer fits the caches costs a factor of 4; quadratic time would be a factor of 32.
        small = min(checked(2_000) for _ in range(5))
        assert min(checked(64_000) for _ in range(3)) < 32 * small * 12
    finally:
        gc.enable()
