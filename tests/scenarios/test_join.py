"""JOIN and PROP of the bug reports: joins arm on settlement; skips, vetoes and failures spread over edges."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import (
    Budget,
    EscalationRequest,
    NotApplicable,
    OperationGraphBuilder,
    Retry,
    Session,
    SpawnRequest,
    create_operation,
    role,
)
from orchestrator.testing.loops import run_seeded, run_virtual
from tests.scenarios.conftest import boom, lawful, ok, order, ran, reads


@role()
async def numbers(turn):
    return turn.parameters["n"]


def split(choice, *, needs="any"):
    """start -> A [x], start -> B [not x]; A, B -> J -> K."""

    @role(name="start")
    async def start(turn):
        return choice

    graph = OperationGraphBuilder()
    graph.add_operation(start, node_id="start")
    for name, when in (("a", "result"), ("b", "not result")):
        graph.add_operation(ok, node_id=name, depends_on=[])
        graph.add_edge("start", name, when=when)
    graph.add_operation(reads, node_id="join", depends_on=["a", "b"], needs=needs)
    graph.add_operation(ok, node_id="last", depends_on=["join"])
    return graph


@pytest.mark.parametrize("needs", ["any", "all"])
@pytest.mark.parametrize(("choice", "taken", "left"), [(True, "a", "b"), (False, "b", "a")])
async def test_JOIN_1_PROP_11_an_untaken_branch(choice, taken, left, needs):
    """JOIN 1, PROP 11: the untaken branch alone is skipped; the join runs once with the other's value."""
    run = await ran(split(choice, needs=needs))
    assert run.statuses() == {
        "start": "completed", taken: "completed", left: "skipped", "join": "completed", "last": "completed",
    }  # fmt: skip
    assert run["join"].value == {taken: taken}
    assert run.nodes("NodeStarted").count("join") == 1
    assert run.reason == "completed"


async def test_JOIN_1_a_join_that_cannot_fire():
    """JOIN 1: when every predecessor is skipped the join is skipped and names why; the rest follows."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="start")
    for name in "ab":
        graph.add_operation(ok, node_id=name, depends_on=["start"], when="false")
    for needs in ("any", "all"):
        graph.add_operation(ok, node_id=f"join_{needs}", depends_on=["a", "b"], needs=needs)
    run = await ran(graph)
    assert run.result.skipped_operations == ("a", "b", "join_any", "join_all")
    assert run["join_any"].reason == run["join_all"].reason == "blocked by a (skipped)"


@pytest.mark.parametrize("seed", range(10))
def test_JOIN_2_branches_of_unequal_length(anyio_backend, seed):
    """JOIN 2: the meeting node starts once, after both ends settled, and sees both results."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="s")
    graph.add_operation(ok, node_id="a", depends_on=["s"])
    graph.add_operation(ok, node_id="b", depends_on=["s"])
    graph.add_operation(ok, node_id="c", depends_on=["b"])
    graph.add_operation(reads, node_id="join", depends_on=["a", "c"])
    run = run_seeded(ran, graph, seed=seed, backend=anyio_backend)
    assert run.nodes("NodeStarted").count("join") == 1
    assert run["join"].value == {"a": "a", "c": "c"}


@pytest.mark.parametrize("items", [[], [1], [1, 2, 3]])
async def test_JOIN_3_a_reducing_join(items):
    """JOIN 3: the consumer runs exactly once: the start value for [], the reduced value otherwise."""

    @role()
    async def adds(turn):
        return {"context": {"total": turn.parameters["n"]}}

    @role(emits=(SpawnRequest,))
    async def fans(turn):
        return [
            SpawnRequest(assignee="adds", parameters={"n": n}, before="successors", key=str(n)) for n in items
        ]

    @role()
    async def consumes(turn):
        return turn.context["total"]

    graph = OperationGraphBuilder()
    graph.add_operation(fans, node_id="fan")
    graph.add_operation(consumes, node_id="join", depends_on=["fan"])
    run = await ran(graph, adds, context={"total": 10}, reducers={"total": "sum"})
    assert run["join"].value == 10 + sum(items)
    assert run.nodes("NodeStarted").count("join") == 1


async def test_JOIN_5_two_joins_in_sequence():
    """JOIN 5: three contributions through two joins: the last holds all three, in graph order."""

    @role()
    async def appends(turn):
        turn.write("seen", turn.node)

    @role()
    async def shows(turn):
        return turn.context["seen"]

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="source")
    for name in "abc":
        graph.add_operation(appends, node_id=name, depends_on=["source"])
    graph.add_operation(shows, node_id="m", depends_on=["a", "b"])
    graph.add_operation(shows, node_id="n", depends_on=["m", "c"])
    run = await ran(graph, reducers={"seen": "append"})
    assert run["m"].value == ["a", "b"]
    assert run["n"].value == ["a", "b", "c"]


@pytest.mark.parametrize("backoff", [0, 5])
def test_JOIN_6_a_member_between_attempts(anyio_backend, backoff):
    """JOIN 6: only the final outcome settles a member: the join runs once and sees three successes."""

    @role()
    async def member(turn):
        if turn.node == "b" and turn.attempt == 1:
            raise ValueError("once")
        return turn.attempt

    graph = OperationGraphBuilder()
    for name in "abc":
        graph.add_operation(member, node_id=name, depends_on=[], retry=Retry(attempts=2, backoff=backoff))
    graph.add_operation(reads, node_id="join", depends_on=list("abc"))
    run = run_virtual(ran, graph, backend=anyio_backend)
    assert run["join"].value == {"a": 1, "b": 2, "c": 1}
    assert run.nodes("NodeStarted").count("join") == 1
    assert run.nodes("NodeFailed") == []


async def test_JOIN_9_nested_merges():
    """JOIN 9: the side that was not chosen never starts; both merges run once."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="fork")
    for name, when in (("left", "result == 'fork'"), ("right", "result != 'fork'")):
        graph.add_operation(ok, node_id=name, depends_on=[])
        graph.add_edge("fork", name, when=when)
    graph.add_operation(ok, node_id="x", depends_on=[])
    graph.add_operation(order, node_id="m1", depends_on=["left", "right"])
    graph.add_operation(order, node_id="m2", depends_on=["m1", "x"])
    run = await ran(graph)
    assert "right" not in run.nodes("NodeStarted")
    assert run["m1"].value == ["left"]
    assert run["m2"].value == ["x", "m1"]
    assert [run.nodes("NodeStarted").count(name) for name in ("m1", "m2")] == [1, 1]


@pytest.mark.parametrize("seed", range(20))
def test_JOIN_10_the_run_ends_after_its_last_node(anyio_backend, seed):
    """JOIN 10: the last predecessor settles by being skipped: the run still ends after the join did."""
    graph = OperationGraphBuilder()
    graph.add_operation(numbers, node_id="p", depends_on=[], n=1)
    graph.add_operation(numbers, node_id="decides", depends_on=["p"], n=0)
    graph.add_operation(ok, node_id="q", depends_on=["decides"], when="decides == 1")
    graph.add_operation(reads, node_id="join", depends_on=["p", "q"])
    run = run_seeded(ran, graph, seed=seed, backend=anyio_backend)
    assert run["q"].status == "skipped"
    assert run["join"].value == {"p": 1}
    assert run.place("NodeCompleted", "join") < run.facts[-1].seq
    assert run.facts[-1].kind == "RunEnded"


async def test_JOIN_after_an_escalating_node():
    """Kernel 4: a join after an escalating node waits for the child."""
    go = anyio.Event()

    @role(models=("a", "b"))
    async def moves(turn):
        if "+" not in turn.node:
            return EscalationRequest(reason="hard")
        go.set()
        return "solved"

    @role()
    async def beside(turn):
        await go.wait()

    graph = OperationGraphBuilder()
    graph.add_operation(moves, node_id="a", depends_on=[])
    graph.add_operation(beside, node_id="b", depends_on=[])
    graph.add_operation(reads, node_id="join", depends_on=["a", "b"])
    run = await ran(graph)
    assert run["join"].value == {"a": "solved", "b": None}


# --- PROP ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [1, 2, 3])
async def test_PROP_11_a_three_way_switch(choice):
    """PROP 11: two of three arms are skipped, with what hangs on them alone; the rejoin and the rest run."""
    graph = OperationGraphBuilder()
    graph.add_operation(numbers, node_id="switch", n=choice)
    for number in (1, 2, 3):
        graph.add_operation(ok, node_id=f"arm{number}", depends_on=[])
        graph.add_edge("switch", f"arm{number}", when=f"result == {number}")
        graph.add_operation(ok, node_id=f"tail{number}", depends_on=[f"arm{number}"])
    graph.add_operation(order, node_id="join", depends_on=["tail1", "tail2", "tail3"])
    graph.add_operation(ok, node_id="rest", depends_on=["join"])
    run = await ran(graph)
    assert run["join"].value == [f"tail{choice}"]
    assert run["rest"].status == "completed"
    assert len(run.result.skipped_operations) == 4


@pytest.mark.parametrize("needs", ["any", "all"])
async def test_PROP_14_members_that_skip_themselves(needs):
    """PROP 14: two of five decline: the collector runs with exactly three values in branch order."""

    @role()
    async def member(turn):
        if turn.parameters["n"] in {2, 4}:
            raise NotApplicable("even")
        return turn.parameters["n"]

    @role()
    async def collects(turn):
        return [list(turn.inputs.values()), dict(turn.failed)]

    graph = OperationGraphBuilder()
    names = [graph.add_operation(member, node_id=f"m{n}", depends_on=[], n=n) for n in range(1, 6)]
    graph.add_operation(collects, node_id="join", depends_on=names, needs=needs)
    run = await ran(graph)
    assert run["join"].value == [[1, 3, 5], {}]
    assert [run[f"m{n}"].reason for n in (2, 4)] == ["even", "even"]
    assert run.reason == "completed"


@pytest.mark.parametrize("way", ["loop", "thread"])
async def test_PROP_16_the_policy_is_above_the_executor(way):
    """PROP 16: the same decision, status and reason for a dependent, in the loop and in a thread."""

    async def in_loop(turn):
        raise ValueError("broke")

    def in_thread(turn):
        raise ValueError("broke")

    failing = role(name="failing")(in_loop if way == "loop" else in_thread)
    graph = OperationGraphBuilder()
    graph.add_operation(failing, node_id="bad")
    graph.add_operation(ok, node_id="strict", depends_on=[])
    graph.add_edge("bad", "strict", accept=["completed"])
    graph.add_operation(ok, node_id="tolerant", depends_on=[])
    graph.add_edge("bad", "tolerant", accept=["failed"])
    run = await ran(graph)
    assert run.statuses() == {"bad": "failed", "strict": "skipped", "tolerant": "completed"}
    assert run["strict"].reason == "blocked by bad (failed)"
    assert (run["bad"].error.type, run["bad"].error.message) == ("ValueError", "broke")


@pytest.mark.parametrize("accept", [("completed", "failed"), ("skipped",), ("completed", "cancelled")])
@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_PROP_17_the_policy_names_what_it_tolerates(accept, end):
    """PROP 17: A fails or is cancelled -> B (completed only) is blocked -> C follows its own policy for B.

    Kernel 1 lets an edge name the outcomes under which it lives, ``skipped`` included; the cause chain back
    to A stands in the reasons.
    """
    started = anyio.Event()

    @role()
    async def first(turn):
        started.set()
        if end == "failed":
            raise ValueError("broke")
        await anyio.sleep_forever()

    graph = OperationGraphBuilder()
    graph.add_operation(first, node_id="a")
    for source, target, outcomes in (("a", "b", ("completed",)), ("b", "c", accept)):
        graph.add_operation(ok, node_id=target, depends_on=[])
        graph.add_edge(source, target, accept=outcomes)
    async with Session() as session:
        live = await session.start(graph)
        await started.wait()
        if end == "cancelled":
            live.cancel("a")
        run = await lawful(live)
    assert run["b"].status == "skipped"
    assert run["b"].reason == f"blocked by a ({end})"
    tolerant = "skipped" in accept
    assert run["c"].status == ("completed" if tolerant else "skipped")
    if not tolerant:
        assert run["c"].reason == "blocked by b (skipped)"


async def test_PROP_needs_all_discounts_what_was_skipped():
    """Kernel 2: ``needs: all``: edges from skipped nodes are discounted; one dead edge blocks."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="good", depends_on=[])
    graph.add_operation(ok, node_id="unneeded", depends_on=[], when="false")
    graph.add_operation(boom, node_id="bad", depends_on=[])
    for name, sources in (("lives", ["good", "unneeded"]), ("dead", ["good", "bad"])):
        graph.add_operation(create_operation("operate", node_id=name, role="ok", needs="all"), depends_on=[])
        for source in sources:
            graph.add_edge(source, name, accept=["completed"])
    run = await ran(graph, ok, budget=Budget(concurrency=1))
    assert run["lives"].status == "completed"
    assert run["dead"].status == "skipped"
    assert run["dead"].reason == "blocked by bad (failed)"
    assert run.reason == "failed"
