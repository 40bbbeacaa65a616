"""Growth: cycles (S7), factories (S11), depth (S13), roster and hooks (S17 to S22), many (S23), GROW 115."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import (
    Branch,
    Budget,
    CycleError,
    Finding,
    Inject,
    OperationGraphBuilder,
    Session,
    SpawnRequest,
    role,
)
from tests.scenarios.conftest import boom, edges_of, lawful, ok, ran


@role()
async def child(turn):
    return turn.parameters.get("n", "child")


def chain(length):
    """start, and beside it a waiting chain a0 -> a1 -> ... that hangs on ``hold``."""
    graph = OperationGraphBuilder()
    graph.add_operation("grows", role="grows", node_id="start", depends_on=[])
    graph.add_operation("holds", role="holds", node_id="hold", depends_on=[])
    for number in range(length):
        graph.add_operation(ok, node_id=f"a{number}", depends_on=[f"a{number - 1}" if number else "hold"])
    return graph


@pytest.mark.parametrize("length", [1, 2, 1000])
async def test_S7_closing_a_cycle(length):
    """S7, bad-inputs 17, GROW 115: refused ``cycle``; nodes, edges and count are as before; the run goes
    on.
    """
    go = anyio.Event()
    requests = {
        "through": SpawnRequest(assignee="child", after=[f"a{length - 1}"], before=["a0"]),
        "self": SpawnRequest(assignee="child", before=["start"]),
    }

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        receipts = {name: await turn.emit(request) for name, request in requests.items()}
        fine = await turn.emit(SpawnRequest(assignee="child", after=["a0"]))
        go.set()
        return {name: receipt.reason for name, receipt in receipts.items()} | {"fine": fine.node}

    @role()
    async def holds(turn):
        await go.wait()

    run = await ran(chain(length), child, grows, holds)
    assert run["start"].value == {"through": "cycle", "self": "cycle", "fine": "start.child-1"}
    assert run.result.spawned_operations == 1
    assert [d.reason for d in run.result.dropped_spawns] == ["cycle", "cycle"]
    grown = [(source, target) for _, source, target in edges_of(run.facts)][-2:]
    assert grown == [("start", "start.child-1"), ("a0", "start.child-1")]
    assert run.reason == "completed"


@pytest.mark.parametrize("size", [2, 5])
def test_S7_a_planned_cycle_is_refused_by_name(size):
    """GROW 115: a cycle in the definition is refused before anything runs, naming it."""
    graph = OperationGraphBuilder()
    for number in range(size):
        graph.add_operation(ok, node_id=f"n{number}", depends_on=[f"n{number - 1}"] if number else [])
    graph.add_edge(f"n{size - 1}", "n0")
    with pytest.raises(CycleError, match="n0"):
        graph.get_graph().check()


async def test_S7_too_late():
    """Kernel 3: ``before`` a node that has left waiting is refused ``too_late``."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return (await turn.emit(SpawnRequest(assignee="child", before=["other"]))).reason

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="other", depends_on=[])
    graph.add_operation(grows, node_id="start", depends_on=[])
    run = await ran(graph, child, budget=Budget(concurrency=1))
    assert run["start"].value == "too_late"
    assert list(run.result.nodes) == ["other", "start"]


async def test_S10_a_failed_need():
    """Kernel 3: ``after`` a node that failed is refused ``need_failed``, nothing is added."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return (await turn.emit(SpawnRequest(assignee="child", after=["bad"]))).reason

    graph = OperationGraphBuilder()
    graph.add_operation(boom, node_id="bad", depends_on=[])
    graph.add_operation(grows, node_id="start", depends_on=["bad"])
    run = await ran(graph, child)
    assert run["start"].value == "need_failed"
    assert run.result.spawned == ()


async def test_S11_a_hook_that_gives_nonsense_is_harmless():
    """S11, S19: an on_settle that raises, or gives what is no change, changes nothing; siblings finish."""
    asked = []

    def hook(node, view):
        asked.append(node)
        if node == "a":
            raise ValueError("in the hook")
        return "nonsense" if node == "b" else None

    graph = OperationGraphBuilder()
    for name in "abc":
        graph.add_operation(ok, node_id=name, depends_on=[])
    run = await ran(graph, on_settle=hook)
    assert sorted(asked) == ["a", "b", "c"]
    assert run.reason == "completed"
    assert list(run.result.nodes) == ["a", "b", "c"]


async def test_S11_a_hook_that_names_nobody():
    """S11: an injection that cannot be built is refused and recorded, the node settles, siblings finish."""

    def hook(node, view):
        return [Inject("nobody"), Inject("child", after=["ghost"]), Inject("child", parameters={"n": 1})]

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    run = await ran(graph, child, on_settle=lambda node, view: hook(node, view) if node == "a" else None)
    assert [(d.reason, d.emitter_id) for d in run.result.dropped_spawns] == [
        ("unknown_assignee", "a"),
        ("unknown_node", "a"),
    ]
    assert run.result.spawned == ("a.child-1",)
    assert run["a.child-1"].value == 1


@pytest.mark.parametrize(("depth", "found"), [(5, True), (20, True), (32, True), (33, False), (60, False)])
async def test_S13_a_request_deep_inside_a_result(depth, found):
    """S13, kernel 3: found down to depth 32; deeper it is refused ``too_deep`` with its path, never lost."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        value = SpawnRequest(assignee="child")
        for level in range(depth):
            value = {"in": value} if level % 2 else [value]
        return value

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="start")
    run = await ran(graph, child)
    assert run["start"].status == "completed"
    assert bool(run.result.spawned) is found
    dropped = [(d.reason, d.emitter_id, "in" in d.detail) for d in run.result.dropped_spawns]
    assert dropped == ([] if found else [("too_deep", "start", True)])


async def test_S17_spawned_once_with_its_origin():
    """S17: NodeSpawned once per accepted child, with parent, assignee, independence and bounded text."""
    long = "x" * 2_000

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return [
            SpawnRequest(assignee="child", instruction=long, reason="why"),
            SpawnRequest(assignee="child", independent=True),
        ]

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="start")
    run = await ran(graph, child)
    first, second = (fact.data for fact in run.of("NodeSpawned"))
    assert (first["parent"], first["assignee"], first["independent"]) == ("start", "child", False)
    assert first["instruction"] == long[:512]
    assert first["reason"] == "why"
    assert (second["independent"], second["instruction"]) == (True, "")


async def test_S18_observers_of_spawns_that_raise():
    """S18: a plain and an async observer of NodeSpawned that raise: the run's result is unchanged."""
    seen = []

    def plain(envelope):
        seen.append(envelope.kind)
        raise RuntimeError("plain")

    async def waits(envelope):
        seen.append(envelope.kind)
        raise RuntimeError("async")

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return [SpawnRequest(assignee="child"), SpawnRequest(assignee="child", key="2")]

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="start")
    async with Session([child]) as session:
        taps = [session.tap(tap, kinds=("NodeSpawned",)) for tap in (plain, waits)]
        async with taps[0], taps[1]:
            run = await lawful(await session.start(graph))
    assert run.reason == "completed"
    assert run.result.spawned_operations == 2
    assert seen == ["NodeSpawned"] * 4


async def test_S19_on_settle_injects_before_the_run_closes():
    """S19: the hook of the last node may inject; the run closes after the injected node."""

    def hook(node, view):
        if node == "last":
            assert view.outcome == "last"
            return Inject("child", node_id="extra", parameters={"n": 3})
        return None

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="last")
    run = await ran(graph, child, on_settle=hook)
    assert run.statuses() == {"last": "completed", "extra": "completed"}
    assert (run["extra"].value, run["extra"].spawned_by) == (3, "last")
    assert run.reason == "completed"


async def test_S20_a_spawned_node_cancelled_with_the_run():
    """S20: it is still in the roster, with its outcome."""
    started = anyio.Event()

    @role()
    async def stays(turn):
        started.set()
        await anyio.sleep_forever()

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        await turn.emit(SpawnRequest(assignee="stays"))
        await turn.emit(SpawnRequest(assignee="child", after=["start.stays-1"]))

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="start")
    async with Session([stays, child]) as session:
        live = await session.start(graph)
        await started.wait()
        assert live.cancel()
        run = await lawful(live)
    assert run.reason == "cancelled"
    assert run.result.spawned == ("start.stays-1", "start.child-1")
    assert run.result.cancelled_operations == ("start.stays-1", "start.child-1")


async def test_S21_branch_created_once_for_each_clone():
    """S21, kernel 7: once for every clone, planned and grown, after the session has included it."""
    made = []

    async def talk(turn):
        turn.branch.say("assistant", turn.node)
        return [message.content for message in turn.branch.messages]

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        await turn.emit(SpawnRequest(assignee="child"))

    async with Session([child]) as session:
        session.register_operation("chat", talk)

        def hook(branch):
            made.append((branch.name, session.branches.get(branch.name) is branch))

        graph = OperationGraphBuilder()
        graph.add_operation(grows, node_id="start")
        graph.add_operation("chat", node_id="second", depends_on=["start"])
        graph.add_operation("chat", node_id="third", depends_on=["second"], inherit_context=True)
        run = await lawful(await session.start(graph, on_branch_created=hook))
    assert made == [("second", True), ("third", True)]
    assert run.nodes("BranchCreated") == ["second", "third"]
    assert run["third"].value == ["second", "third"]


async def test_S21_a_raising_hook_is_harmless():
    """S21, law 13: the hook cannot fail a node."""

    async def talk(turn):
        return isinstance(turn.branch, Branch)

    def hook(branch):
        raise RuntimeError("hook")

    async with Session() as session:
        session.register_operation("chat", talk)
        graph = OperationGraphBuilder()
        graph.add_operation("chat", node_id="one")
        graph.add_operation("chat", node_id="two")
        run = await lawful(await session.start(graph, on_branch_created=hook))
    assert run["two"].value is True
    assert run.reason == "completed"


async def test_S22_two_growing_runs_on_one_session():
    """S22: each request is handled by its own run only, and by that run's handlers and hooks only."""
    both = {name: anyio.Event() for name in "ab"}
    hooked = {name: [] for name in "ab"}

    @role(emits=(SpawnRequest, Finding))
    async def grows(turn):
        mine = turn.parameters["mine"]
        both[mine].set()
        for event in both.values():
            await event.wait()
        await turn.emit(SpawnRequest(assignee="child", parameters={"n": mine}, before="successors"))

    @role()
    async def joins(turn):
        return dict(turn.inputs)

    def graph(mine):
        built = OperationGraphBuilder(mine)
        built.add_operation(grows, node_id="start", mine=mine)
        built.add_operation(joins, node_id="join", depends_on=["start"])
        return built

    async with Session([child]) as session:
        lives = {
            mine: await session.start(
                graph(mine), on_settle=lambda node, view, mine=mine: hooked[mine].append((view.run, node))
            )
            for mine in "ab"
        }
        runs = {mine: await lawful(live) for mine, live in lives.items()}
    for mine, run in runs.items():
        assert run["join"].value == {"start": None, "start.child-1": mine}
        assert run.result.spawned_operations == 1
        assert {name for name, _ in hooked[mine]} == {run.result.run}
