"""The shared context is causal: against a naive model that recomputes everything from ancestor sets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orchestrator.core import commands as c
from orchestrator.core.context import REDUCERS, conflict_in, fold, merge, view_at_end, view_of
from orchestrator.core.scopes import context_mapping, outputs_scope
from orchestrator.errors import ContextConflictError
from orchestrator.runtime.writes import leaves_of
from tests.core.naive import overlap
from tests.core.small import Small, plan

#: One write: key, value, replace.
Write = tuple[str, Any, bool]

leaf = st.integers(0, 9)
value = st.recursive(
    leaf, lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=2), max_leaves=4
)
writes = st.lists(st.tuples(st.sampled_from(("plan", "log")), value, st.booleans()), max_size=2)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[list[Write]]]:
    """Predecessors and writes of each node; diamonds are frequent."""
    size = draw(st.integers(2, 7))
    above = [
        sorted(draw(st.sets(st.integers(0, place - 1), min_size=1, max_size=3))) if place else []
        for place in range(size)
    ]
    return above, [draw(writes) for _ in range(size)]


def run_graph(
    above: list[list[int]], written: list[list[Write]], reducers: dict[str, str], data: Any
) -> Small:
    edges = [f"n{source}>n{place}" for place, sources in enumerate(above) for source in sources]
    run = Small(plan(*(f"n{place}" for place in range(len(above))), edges=edges, reducers=reducers))
    while not run.state.ended:
        running = [name for name, node in run.state.nodes.items() if node.status == "running"]
        if not running:
            break
        name = data.draw(st.sampled_from(running)) if data is not None else running[0]
        given_values = [msgspec.json.encode(one) for _, one, _ in written[int(name[1:])]]
        made = tuple(
            c.WriteIn(key, place + 1, leaves_of(one), replace)
            for place, (key, one, replace) in enumerate(written[int(name[1:])])
        )
        run.finish(name, writes=made, values=tuple(given_values))
    return run


class Naive:
    """Ancestor sets, computed anew for every question."""

    def __init__(self, above: list[list[int]], written: list[list[Write]]) -> None:
        self.above, self.written = above, written

    def ancestors(self, place: int) -> set[int]:
        return {found for source in self.above[place] for found in (source, *self.ancestors(source))}

    def writers(self, key: str, seen: set[int]) -> list[int]:
        return [place for place in sorted(seen) if any(name == key for name, _, _ in self.written[place])]

    def replaces(self, key: str, place: int) -> bool:
        return any(replace for name, _, replace in self.written[place] if name == key)

    def own(self, key: str, place: int) -> list[Any]:
        """A node's writes of one key in order, from its last replacing one on."""
        found: list[Any] = []
        for name, one, replace in self.written[place]:
            if name == key:
                found = [one] if replace else [*found, one]
        return found

    def conflict(self, key: str, seen: set[int]) -> bool:
        writers = self.writers(key, seen)
        return any(
            overlap(one, two)
            for left in writers
            for right in writers
            if left < right and left not in self.ancestors(right)
            for mine in self.own(key, left)
            for other in self.own(key, right)
            for one in leaves_of(mine)
            for two in leaves_of(other)
        )

    def fold(self, key: str, seen: set[int], reducer: str) -> Any:
        """All visible writes in order of declaration, which is graph order here."""
        writers = self.writers(key, seen)
        hidden = {
            place for writer in writers if self.replaces(key, writer) for place in self.ancestors(writer)
        }
        result: Any = [] if reducer in ("append", "extend", "union") else None
        begun = reducer in ("append", "extend", "union")
        for place in writers:
            if place in hidden:
                continue
            for number, one in enumerate(self.own(key, place)):
                fresh = not begun or (number == 0 and self.replaces(key, place))
                result = one if fresh else REDUCERS[reducer](result, one)
                begun = True
        return result


@settings(max_examples=150)
@given(graphs(), st.data())
def test_conflicts(graph: tuple[list[list[int]], list[list[Write]]], data: st.DataObject):
    """S57, law 10: two unordered writes of one leaf fail the node where they meet, and only they."""
    above, written = graph
    run = run_graph(above, written, {"log": "append"}, data)
    naive = Naive(above, written)
    for place in range(len(above)):
        clash = naive.conflict("plan", naive.ancestors(place))
        node = run.state.nodes[f"n{place}"]
        if node.status == "skipped":
            continue
        if node.error is not None:
            assert node.error.type == "ContextConflictError"
        assert (node.error is not None) == clash
        if clash:
            # what it was to write was never written
            written[place] = []


@settings(max_examples=150)
@given(graphs(), st.sampled_from(sorted(REDUCERS)), st.data())
def test_folds(graph: tuple[list[list[int]], list[list[Write]]], reducer: str, data: st.DataObject):
    """Every node reads the fold of its ancestors' writes, in graph order, whatever the timing."""
    above, written = graph
    if reducer in ("sum", "max", "min"):
        written = [[(key, 1, replace) for key, _, replace in some] for some in written]
    run = run_graph(above, written, {"plan": reducer, "log": reducer}, data)
    naive = Naive(above, written)
    assert run.state.ended == "completed"
    everybody = set(range(len(above)))
    views = [
        (view_of(run.state, run.state.nodes[f"n{place}"]), naive.ancestors(place)) for place in everybody
    ]
    views.append((view_at_end(run.state), everybody))
    for view, seen in views:
        for key in ("plan", "log"):
            assert (key in view) == bool(naive.writers(key, seen))
            if key in view:
                assert fold(run.state, key, view[key]) == naive.fold(key, seen, reducer)
    at_end = outputs_scope(run.state)["context"]
    assert dict(at_end) == dict(context_mapping(run.state, view_at_end(run.state)))  # type: ignore[call-overload]


@settings(max_examples=100)
@given(graphs(), st.data())
def test_merging_without_a_reducer(graph: tuple[list[list[int]], list[list[Write]]], data: st.DataObject):
    """Mappings merge leaf by leaf; a descendant overrides its ancestor per leaf (S44)."""
    above, written = graph
    naive = Naive(above, written)
    everybody = set(range(len(above)))
    assume(not any(naive.conflict(key, everybody) for key in ("plan", "log")))
    run = run_graph(above, written, {}, data)
    assert run.state.ended == "completed"
    assert conflict_in(run.state, view_at_end(run.state)) is None
    for place in everybody:
        view = view_of(run.state, run.state.nodes[f"n{place}"])
        for key, last in view.items():
            assert fold(run.state, key, last) == naive.fold(key, naive.ancestors(place), "merge")


@given(value, value)
def test_merge(one: Any, two: Any):
    """The seed's deep update: once is as good as twice, and what is written is there."""
    merged = merge(one, two)
    assert merge(merged, two) == merged
    assert merge(one, one) == one
    if isinstance(one, dict) and isinstance(two, dict):
        assert isinstance(merged, dict)
        assert merged.keys() == one.keys() | two.keys()
        assert all(merged[key] == merge(one.get(key), two[key]) for key in two)
    else:
        assert merged == two


DIAMOND = [[], [0], [0], [1, 2]]


def test_a_diamond_that_clashes_names_both_writers():
    """S57: both names, the key with the path inside it, and what to do."""
    run = run_graph(DIAMOND, [[], [("plan", {"a": 1}, False)], [("plan", {"a": 2}, False)], []], {}, None)
    error = run.state.nodes["n3"].error
    assert error is not None
    assert error.message == (
        "'n1' and 'n2' both wrote context key 'plan.a' and neither waits for the other; "
        "declare a reducer for 'plan' or order the two nodes"
    )
    assert run.state.ended == "failed"


def test_a_diamond_whose_sides_write_different_leaves():
    """Per leaf: no clash, and the join reads both."""
    run = run_graph(DIAMOND, [[], [("plan", {"a": 1}, False)], [("plan", {"b": 2}, False)], []], {}, None)
    view = view_of(run.state, run.state.nodes["n3"])
    assert fold(run.state, "plan", view["plan"]) == {"a": 1, "b": 2}


def test_a_clash_that_only_the_end_sees():
    """The end of the run is the last join: nobody read the two, and still the run says so."""
    run = run_graph([[], []], [[("plan", 1, False)], [("plan", 2, False)]], {}, None)
    assert run.state.ended == "failed"
    assert run.state.detail.startswith("ContextConflictError: 'n0' and 'n1'")


def test_a_write_beside_a_node_that_was_cancelled_early():
    """A node that was cancelled while it waited hides nothing of what its predecessors wrote."""
    run = Small(plan("a", "b", edges=["a>b"], reducers={}))
    run.tell(c.Cancel("b"))
    run.finish("a", writes=(c.WriteIn("plan", 1),), values=(b"7",))
    assert run.state.ended == "completed"
    assert dict(view_at_end(run.state)) == {"plan": ("a",)}
    assert dict(outputs_scope(run.state)["context"]) == {"plan": 7}  # type: ignore[call-overload]


def test_outputs_read_what_both_sides_wrote():
    """A document's outputs see the fold over all, not what the last node saw."""
    run = run_graph([[], []], [[("log", 1, False)], [("log", 2, False)]], {"log": "append"}, None)
    assert dict(outputs_scope(run.state)["context"]) == {"log": [1, 2]}  # type: ignore[call-overload]


def test_a_handler_that_writes_twice():
    """Two writes of one node to one key follow each other; the second does not hide the first."""
    run = Small(plan("a", "b", edges=["a>b"], reducers={"log": "append"}))
    for number in (b"1", b"2"):
        proposal = c.Proposal("write", write=c.WriteIn("log", 1), emission=0)
        payload = msgspec.json.encode({"description": f"finding {number!r}"})
        run.tell(c.Emit("a", 1, c.EmissionIn("Finding", 0), (proposal,)), payload, number)
    run.finish("a")
    view = view_of(run.state, run.state.nodes["b"])
    assert fold(run.state, "log", view["log"]) == [1, 2]


@pytest.mark.parametrize("reducer", ["sum", "max", "min"])
def test_a_reducer_that_needs_numbers(reducer: str):
    """Named error; a bool is no number."""
    run = run_graph([[], [0]], [[("log", 1, False)], [("log", True, False)]], {"log": reducer}, None)
    with pytest.raises(ContextConflictError, match="needs numbers, not True"):
        fold(run.state, "log", view_at_end(run.state)["log"])
