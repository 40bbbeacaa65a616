"""Failures, context, static graphs: S54 to S60."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import (
    Budget,
    CycleError,
    EdgeCondition,
    EscalationRequest,
    NodeError,
    OperationError,
    OperationGraphBuilder,
    Session,
    SpawnRequest,
    create_operation,
    role,
)
from orchestrator.testing.loops import run_seeded
from tests.scenarios.conftest import boom, lawful, ok, ran, reads


@role()
async def writes(turn):
    return {"context": turn.parameters["write"]}


@role()
async def sees(turn):
    return dict(turn.context)


@role()
async def fails_told(turn):
    return {name: [error.type, error.message, error.attempt] for name, error in turn.failed.items()}


def diamond(left, right, **more):
    """Two unordered writers that meet in ``join``."""
    graph = OperationGraphBuilder()
    graph.add_operation(writes, node_id="left", depends_on=[], write=left)
    graph.add_operation(writes, node_id="right", depends_on=[], write=right)
    graph.add_operation(sees, node_id="join", depends_on=["left", "right"], **more)
    return graph


async def test_S54_a_dead_terminal_node():
    """S54: the run is rolled up as failed; what was skipped is not counted as failed."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    graph.add_operation(ok, node_id="unneeded", depends_on=["a"], when="false")
    graph.add_operation(boom, node_id="last", depends_on=["a"])
    run = await ran(graph)
    assert run.reason == "failed"
    assert run.result.failed_operations == ("last",)
    assert run.result.skipped_operations == ("unneeded",)
    assert run.result.next == f"callboard retry {run.result.run}"


async def test_S54_skipped_is_not_failed():
    """S54, TRUTH 27: a run in which a node was skipped on purpose is completed."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    graph.add_operation(ok, node_id="alarm", depends_on=[])
    graph.add_edge("a", "alarm", accept=["failed"])
    run = await ran(graph)
    assert run.reason == "completed"
    assert run["alarm"].reason == "blocked by a (completed)"


async def test_S55_a_restored_failure_blocks():
    """S55: dependents are blocked although the builder's edges accept failures; its text is no input."""
    graph = OperationGraphBuilder()
    graph.add_operation(boom, node_id="bad")
    graph.add_operation(reads, node_id="after", depends_on=["bad"])
    graph.add_operation(reads, node_id="last", depends_on=["after"])
    first = await ran(graph)
    assert first["after"].status == "completed"
    run = await ran(graph, known={"bad": first["bad"]})
    assert run.statuses() == {"bad": "failed", "after": "skipped", "last": "skipped"}
    assert run["after"].reason == "blocked by bad (failed)"
    assert run["bad"].error == NodeError("ValueError", "bad broke", 0)
    assert run.reason == "failed"
    assert run.nodes("NodeStarted") == []


async def test_S56_one_healthy_and_one_dead_predecessor():
    """S56: it runs and sees the healthy value only; the failure is typed and apart."""

    @role()
    async def joins(turn):
        return [dict(turn.inputs), {name: [e.type, e.message] for name, e in turn.failed.items()}]

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="good", depends_on=[])
    graph.add_operation(boom, node_id="bad", depends_on=[])
    graph.add_operation(joins, node_id="join", depends_on=["bad", "good"])
    run = await ran(graph)
    assert run["join"].value == [{"good": "good"}, {"bad": ["ValueError", "bad broke"]}]
    assert run.reason == "completed"  # a living edge accepted the failure
    assert run.result.failed_operations == ("bad",)


@pytest.mark.parametrize("seed", range(8))
def test_S57_two_writers_without_a_reducer(anyio_backend, seed):
    """S57, bad-inputs 43: a conflict that names both writers, where they meet, whatever the timing."""
    graph = diamond({"key": 1}, {"key": 2})
    run = run_seeded(ran, graph, seed=seed, backend=anyio_backend)
    assert run.reason == "failed"
    assert run["join"].status == "failed"
    assert run["join"].attempts == 0
    assert run["join"].error.type == "ContextConflictError"
    assert "'left' and 'right' both wrote context key 'key'" in run["join"].error.message
    assert "key" not in run.result.final_context


@pytest.mark.parametrize(
    ("reducer", "value"),
    [("append", [1, 2]), ("sum", 3), ("max", 2), ("last", 2), (lambda base, new: [base, new], [1, 2])],
)
@pytest.mark.parametrize("seed", range(4))
def test_S57_two_writers_with_a_reducer(anyio_backend, reducer, value, seed):
    """S57, STATE 87: the reducer's result in graph order, for any order of settlement."""
    graph = diamond({"key": 1}, {"key": 2})

    async def main():
        return await ran(graph, reducers={"key": reducer})

    run = run_seeded(main, seed=seed, backend=anyio_backend)
    assert run["join"].value == {"key": value}
    assert run.result.final_context == {"key": value}


async def test_S57_leaves_merge():
    """Kernel 6: mappings merge per leaf; other leaves of one key are no conflict; a descendant overrides."""
    graph = diamond({"key": {"a": 1, "both": {"x": 1}}}, {"key": {"b": 2, "both": {"y": 2}}})
    graph.add_operation(writes, node_id="over", depends_on=["join"], write={"key": {"a": 3}})
    graph.add_operation(sees, node_id="end", depends_on=["over"])
    run = await ran(graph)
    merged = {"a": 1, "b": 2, "both": {"x": 1, "y": 2}}
    assert run["join"].value == {"key": merged}
    assert run["end"].value == {"key": {**merged, "a": 3}}


async def test_S57_the_end_of_the_run_is_the_last_join():
    """Engine 17: two writers that never meet in a node conflict at the end; the run is failed and says so."""
    graph = OperationGraphBuilder()
    for name in ("left", "right"):
        graph.add_operation(writes, node_id=name, depends_on=[], write={"key": name})
    run = await ran(graph)
    assert run.reason == "failed"
    assert "'left' and 'right'" in run.result.detail
    assert run.result.failed_operations == ()


async def test_S57_a_node_sees_its_ancestors_only():
    """Kernel 6, law 10: a write of a node that merely ran before is not there."""
    graph = OperationGraphBuilder()
    graph.add_operation(writes, node_id="first", depends_on=[], write={"mine": 1})
    graph.add_operation(sees, node_id="beside", depends_on=[])
    graph.add_operation(sees, node_id="below", depends_on=["first"])
    run = await ran(graph, budget=Budget(concurrency=1), context={"given": 0})
    assert run["beside"].value == {"given": 0}
    assert run["below"].value == {"given": 0, "mine": 1}
    assert run.result.final_context == {"given": 0, "mine": 1}


async def test_S57_writes_of_a_failed_attempt_are_dropped():
    """Engine 14: ``turn.write`` of a failed attempt is dropped, that of the final one counts."""

    @role(retry=2)
    async def retries(turn):
        turn.write(f"attempt{turn.attempt}", turn.attempt)
        if turn.attempt == 1:
            raise ValueError("once")

    graph = OperationGraphBuilder()
    graph.add_operation(retries, node_id="a")
    run = await ran(graph)
    assert run.result.final_context == {"attempt2": 2}


async def test_S58_any_passing_path_runs_the_node():
    """S58: one living edge is enough; all failing: skipped with the condition, and it cascades."""
    graph = OperationGraphBuilder()
    for name in ("a", "b"):
        graph.add_operation(ok, node_id=name, depends_on=[])
    for name, left, right in (("one", "a", "no"), ("none", "no", "no"), ("two", "a", "b")):
        graph.add_operation(reads, node_id=name, depends_on=[])
        graph.add_edge("a", name, when=f"result == '{left}'")
        graph.add_edge("b", name, when=f"result == '{right}'")
    graph.add_operation(ok, node_id="below", depends_on=["none"])
    run = await ran(graph)
    assert run["one"].status == run["two"].status == "completed"
    assert run["none"].reason == "condition from a was false: result == 'no'"
    assert run["below"].status == "skipped"
    assert run["below"].reason == "blocked by none (skipped)"
    assert run.reason == "completed"


@pytest.mark.parametrize("wrong", [True, 1, len, object(), lambda result: True, ["result"]])
def test_S58_a_wrong_condition_type(wrong):
    """S58: refused when it is written; nothing was added."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    graph.add_operation(ok, node_id="b")
    graph.add_operation(ok, node_id="c", depends_on=["b"])
    with pytest.raises(OperationError, match="expression text or an EdgeCondition"):
        graph.add_edge("a", "c", when=wrong)
    assert len(graph.get_graph().edges) == 2


async def test_S58_condition_state_does_not_leak():
    """S58, STATE 92: one graph run twice, and twice at once: each run judges for itself."""
    calls = []

    class Small(EdgeCondition):
        def apply(self, result, context):
            calls.append(result)
            return result < 5 and context["ok"]

    graph = OperationGraphBuilder()

    @role()
    async def gives(turn):
        return turn.context["n"]

    graph.add_operation(gives, node_id="a")
    graph.add_operation(ok, node_id="b", depends_on=[])
    graph.add_edge("a", "b", when=Small())
    frozen = graph.get_graph()
    async with Session() as session:
        lives = [await session.start(frozen, context={"n": n, "ok": True}) for n in (1, 9, 4)]
        runs = [await lawful(live) for live in lives]
    assert [run["b"].status for run in runs] == ["completed", "skipped", "completed"]
    assert sorted(calls) == [1, 4, 9]
    again = await ran(frozen, context={"n": 9, "ok": True})
    assert again["b"].status == "skipped"


async def test_S59_cyclic_empty_single():
    """S59: a cycle is an error before any branch exists; an empty graph completes; a single node runs."""
    graph = OperationGraphBuilder()
    made = []
    graph.add_operation("chat", node_id="a", depends_on=[])
    graph.add_operation("chat", node_id="b", depends_on=["a"])
    graph.add_edge("b", "a")
    async with Session() as session:
        session.register_operation("chat", reads.fn)
        with pytest.raises(CycleError, match="a"):
            await session.flow(graph, on_branch_created=made.append)
        assert session.runs() == []
    assert made == []
    empty = await ran(OperationGraphBuilder())
    assert empty.reason == "completed"
    assert [fact.kind for fact in empty.facts] == ["RunStarted", "GraphPlanned", "RunEnded"]
    single = OperationGraphBuilder()
    single.add_operation(ok)
    assert (await ran(single))["ok"].value == "ok"


@pytest.mark.parametrize("limit", [1, 3, 5, None])
async def test_S59_the_bound_is_never_exceeded(limit):
    """S59: a fan of 1,000 under a bound: never more at once, all run; None is 10,000."""
    now, most = 0, 0

    @role()
    async def counts(turn):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        now -= 1

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="first")
    for number in range(1_000):
        graph.add_operation(counts, node_id=f"n{number}", depends_on=["first"])
    graph.add_operation(reads, node_id="last", depends_on=[f"n{number}" for number in range(1_000)])
    run = await ran(graph, budget=Budget(concurrency=limit))
    assert run.reason == "completed"
    assert len(run["last"].value) == 1_000
    assert most <= (limit or 1_000)
    assert most > 1 or limit == 1


async def test_S59_not_parallel_is_one_at_a_time():
    """Kernel 8: ``parallel=False`` runs one node at a time, first in first out."""
    graph = OperationGraphBuilder()
    for number in range(6):
        graph.add_operation(ok, node_id=f"n{number}", depends_on=[])
    run = await ran(graph, parallel=False)
    assert run.nodes("NodeStarted") == run.nodes("NodeCompleted") == [f"n{number}" for number in range(6)]


async def test_S60_the_adjacency_changes_while_a_node_waits():
    """S60: edges are added to a waiting node, and its source is spliced away, while it waits: no crash."""

    @role(emits=(SpawnRequest,), models=("a", "b"))
    async def grows(turn):
        if "+" in turn.node:
            return "solved"
        from_child = SpawnRequest(assignee="ok", before=["join"], key=turn.node)
        await turn.emit(from_child)
        return [EscalationRequest(reason="hard")]

    graph = OperationGraphBuilder()
    for name in ("a", "b"):
        graph.add_operation(grows, node_id=name, depends_on=[])
    graph.add_operation(
        create_operation(reads, node_id="join", needs="all"), depends_on=["a", "b"], role=reads
    )
    run = await ran(graph, ok)
    assert run["join"].value == {"a": "solved", "b": "solved", "a.ok-1": "a.ok-1", "b.ok-1": "b.ok-1"}
