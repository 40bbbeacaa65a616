"""COND of the bug reports: one grammar, bools only, bound to the edge's own source."""

from __future__ import annotations

import pytest

from orchestrator import EdgeCondition, GraphError, OperationError, OperationGraphBuilder, Session, role
from tests.scenarios.conftest import boom, lawful, ok, ran


@role()
async def gives(turn):
    return turn.parameters["value"]


def edge(value, when, **accept):
    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="a", value=value)
    graph.add_operation(ok, node_id="b", depends_on=[])
    graph.add_edge("a", "b", when=when, **accept)
    return graph


@pytest.mark.parametrize(
    "when", ["result.n >= limit", "ghost == 1", "nodes['ghost'].x == 1", "result.n >= args.limit"]
)
async def test_COND_29_an_undefined_name_is_never_true(when):
    """COND 29: an undefined name is an error with its text: before the run where it can be seen, else
    there.
    """
    graph = edge({"n": 1}, when)
    if "args" in when:
        run = await ran(graph)
        assert run["b"].error.type == "ConditionError"
        assert "limit" in run["b"].error.message
        assert run.reason == "failed"
    else:
        async with Session() as session:
            with pytest.raises(GraphError, match="does not exist"):
                await session.flow(graph)


@pytest.mark.parametrize("when", ["result > 'b'", "result < 1", "result and true", "not result"])
async def test_COND_29_words_and_numbers_do_not_compare(when):
    """COND 29, 31: 'a > b' with words of unlike types, and truth of what is no bool: an error, edge
    closed.
    """
    run = await ran(edge("a" if "1" in when or "'" not in when else 3, when))
    assert run["b"].status == "failed"
    assert run["b"].error.type == "ConditionError"
    assert run["a"].status == "completed"


@pytest.mark.parametrize(
    "when",
    [
        "",
        "   ",
        "ref == ${x}",
        '${false} "',
        "${a} && ${b}",
        "result == 1 result",
        "result = 1",
        "result.n >= ",
        "1",
        "'false'",
        "result if true",
        "lambda: true",
    ],
)
def test_COND_30_not_one_complete_expression(when):
    """COND 30: anything that is not one complete expression that can be a condition is refused, with its
    text.
    """
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    with pytest.raises(OperationError, match="when of b"):
        graph.add_operation(ok, node_id="b", when=when)
    assert list(graph.get_graph().operations) == ["a"]


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (True, "completed"),
        (False, "skipped"),
        *((value, "failed") for value in ("false", "no", "0", "true", "", 0, 1, 0.0, None, [], {}, [False])),
    ],
)
async def test_COND_31_the_table_of_bare_values(value, status):
    """COND 31: a bool is a bool; everything else as a bare condition is an error that says to compare it."""
    run = await ran(edge(value, "result"))
    assert run["b"].status == status
    if status == "failed":
        assert run["b"].error.type == "ConditionError"
        assert "compare it" in run["b"].error.message
    if status == "skipped":
        assert run["b"].reason == "condition from a was false: result"


@pytest.mark.parametrize("first", ["b", "c"])
async def test_COND_32_bound_to_its_own_source(first):
    """COND 32: C's condition gets A's result whatever B gave, and in whatever order they finish."""
    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="a", value={"who": "a"})
    for name in sorted("bc", key=lambda name: name != first):
        graph.add_operation(gives, node_id=name, depends_on=[], value={"who": name})
        graph.add_edge("a", name, when="result.who == 'a'")
    graph.add_operation(ok, node_id="d", depends_on=[])
    graph.add_edge("a", "d", when="result.who == 'a' and nodes['a'].who == 'a'")
    graph.add_edge("b", "d", when="result.who == 'a'")
    run = await ran(graph)
    assert set(run.statuses().values()) == {"completed"}


async def test_COND_32_a_node_that_is_no_ancestor_cannot_be_named():
    """Law 10: a node's condition reads ancestors; one that merely ran before is an error, never a value."""
    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="stranger", depends_on=[], value=1)
    graph.add_operation(gives, node_id="a", depends_on=[], value=1)
    graph.add_operation(ok, node_id="b", depends_on=["a"], when="stranger == 1")
    async with Session() as session:
        try:
            run = await lawful(await session.start(graph, parallel=False))
        except GraphError:
            return
    assert run["b"].status == "failed"
    assert run["b"].error.type == "ConditionError"


class Gives(EdgeCondition):
    """Answers with what it was made with."""

    def __init__(self, answer):
        self.answer = answer
        self.seen = []

    def apply(self, result, context):
        self.seen.append(result)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (True, "completed"),
        (False, "skipped"),
        (1, "failed"),
        (None, "failed"),
        ("yes", "failed"),
        (ValueError("in the condition"), "failed"),
        (SystemExit(3), "failed"),
    ],
)
async def test_COND_objects_give_a_bool(answer, status):
    """Kernel 1, S45: a condition object must give a bool; anything else, an exception too, fails the
    target.
    """
    condition = Gives(answer)
    run = await ran(edge({"n": 1}, condition))
    assert run["b"].status == status
    assert condition.seen == [{"n": 1}]
    assert run["a"].status == "completed"
    if status == "failed":
        assert run["b"].error.type == "ConditionError"
        assert "Gives" in run["b"].error.message
        assert run["b"].attempts == 0


async def test_COND_objects_and_failed_sources():
    """Kernel 1: the object sees the typed error of a failed source, once; not at all for a skipped one."""
    condition = Gives(True)
    graph = OperationGraphBuilder()
    graph.add_operation(boom, node_id="bad", depends_on=[])
    graph.add_operation(ok, node_id="unneeded", depends_on=[], when="false")
    for name in ("after_bad", "after_unneeded"):
        graph.add_operation(ok, node_id=name, depends_on=[])
    graph.add_edge("bad", "after_bad", when=condition)
    graph.add_edge("unneeded", "after_unneeded", when=condition)
    run = await ran(graph)
    assert run["after_bad"].status == "completed"
    assert run["after_unneeded"].status == "skipped"
    assert [(seen.type, seen.message) for seen in condition.seen] == [("ValueError", "bad broke")]


@pytest.mark.parametrize(("answer", "status"), [(True, "completed"), (False, "skipped")])
async def test_COND_objects_on_edges_of_known_nodes(answer, status):
    """Kernel 9: an edge from a node whose outcome is given is judged like any other."""
    condition = Gives(answer)
    run = await ran(edge(0, condition), known={"a": {"n": 5}})
    assert run["b"].status == status
    assert condition.seen == [{"n": 5}]


async def test_COND_objects_that_leave_odd_text():
    """Law 8, bad-inputs 30: an error whose text no journal can hold fails the target, not the run."""
    run = await ran(edge(0, Gives(ValueError("half \ud800 surrogate"))))
    assert run["b"].status == "failed"
    assert run.reason == "failed"


async def test_COND_conditions_of_failed_sources():
    """Kernel 1: text conditions see status and error of a failed source that the edge accepts."""
    graph = OperationGraphBuilder()
    graph.add_operation(boom, node_id="bad", depends_on=[])
    for name, when in (
        ("by_status", "status == 'failed'"),
        ("by_type", "result.type == 'ValueError'"),
        ("other", "result.type == 'KeyError'"),
    ):
        graph.add_operation(ok, node_id=name, depends_on=[])
        graph.add_edge("bad", name, when=when)
    run = await ran(graph)
    assert [run[name].status for name in ("by_status", "by_type", "other")] == [
        "completed", "completed", "skipped",
    ]  # fmt: skip
    assert run.reason == "completed"
