"""Growth: S14 to S16 of the kernel scenarios: who may be asked, between whom, and what fails with whom."""

from __future__ import annotations

import pytest

from orchestrator import (
    Budget,
    OperationGraphBuilder,
    SpawnRequest,
    create_operation,
    role,
)
from tests.scenarios.conftest import boom, ok, ran


@role()
async def child(turn):
    return turn.parameters.get("n", "child")


def graph_of(emitter, *, after=None):
    graph = OperationGraphBuilder()
    graph.add_operation(emitter, node_id="start")
    if after is not None:
        graph.add_operation(after, node_id="after", depends_on=["start"])
    return graph


async def test_S14_unknown_assignee():
    """S14: refused and no number consumed; the next child is number 1."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        bad = await turn.emit(SpawnRequest(assignee="architect-2"))
        good = await turn.emit(SpawnRequest(assignee="child"))
        return [bad.reason, good.node]

    run = await ran(graph_of(grows), child)
    assert run["start"].value == ["unknown_assignee", "start.child-1"]
    assert run.result.spawned_operations == 1


async def test_S14_a_node_stands_for_its_role():
    """S14, GROW 114: the name of a node of this run means its role; planned and grown names alike."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        planned = await turn.emit(SpawnRequest(assignee="architect_2"))
        grown = await turn.emit(SpawnRequest(assignee=planned.node))
        other = await turn.emit(SpawnRequest(assignee="Child"))
        return [planned.node, grown.node, other.reason]

    graph = graph_of(grows)
    for number in (1, 2):
        graph.add_operation(child, node_id=f"architect_{number}", depends_on=[])
    run = await ran(graph)
    assert run["start"].value == ["start.child-1", "start.child-2", "unknown_assignee"]
    assert [(d.reason, d.assignee) for d in run.result.dropped_spawns] == [("unknown_assignee", "Child")]


async def test_S14_a_disallowed_verb():
    """S14: a function role performs ``operate`` and nothing else."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return (await turn.emit(SpawnRequest(assignee="child", operation="chat"))).reason

    run = await ran(graph_of(grows), child)
    assert run["start"].value == "verb_not_allowed"
    assert [d.reason for d in run.result.dropped_spawns] == ["verb_not_allowed"]


async def test_S14_assignees_of_the_budget():
    """Kernel 3: ``budget.assignees`` lists who may be spawned."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        receipts = [await turn.emit(SpawnRequest(assignee=name)) for name in ("child", "ok")]
        return [receipt.node if receipt else receipt.reason for receipt in receipts]

    run = await ran(graph_of(grows), child, ok, budget=Budget(assignees=("ok",)))
    assert run["start"].value == ["assignee_not_allowed", "start.ok-1"]


@pytest.mark.parametrize("before", ["successors", ["after"]])
async def test_S15_between_emitter_and_successor(before):
    """S15: the successor waits for the child and reads it beside the emitter."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        receipts = [
            await turn.emit(SpawnRequest(assignee="child", parameters={"n": n}, before=before))
            for n in range(3)
        ]
        return [receipt.node for receipt in receipts]

    @role()
    async def joins(turn):
        return [list(turn.inputs), dict(turn.inputs)]

    run = await ran(graph_of(grows, after=joins), child)
    names = [f"start.child-{n}" for n in (1, 2, 3)]
    assert run["after"].value[0] == ["start", *names]
    assert run["after"].value[1] == {"start": names, **{name: n for n, name in enumerate(names)}}
    assert all(run.place("NodeStarted", "after") > run.place("NodeCompleted", name) for name in names)


@pytest.mark.parametrize(("required", "status"), [(False, "completed"), (True, "completed")])
async def test_S15_one_broken_child_does_not_stop_the_join(required, status):
    """Kernel 3: a ``before`` edge waits and delivers and accepts every outcome unless ``required``.

    With ``needs: any`` (the builder's) the emitter's own edge is enough to make the join live, either way.
    """

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        await turn.emit(SpawnRequest(assignee="boom", before="successors", required=required))
        await turn.emit(SpawnRequest(assignee="child", before="successors"))

    @role()
    async def joins(turn):
        return [sorted(turn.inputs), sorted(turn.failed)]

    run = await ran(graph_of(grows, after=joins), child, boom)
    assert run["after"].status == status
    assert run["after"].value == [["start", "start.child-1"], ["start.boom-1"]]
    assert run.result.failed_operations == ("start.boom-1",)


async def test_S15_a_required_child_that_fails_skips_an_all_join():
    """Kernel 3: with ``needs: all`` and ``required`` the join is skipped, naming the child."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        await turn.emit(SpawnRequest(assignee="boom", before="successors", required=True))

    graph = graph_of(grows)
    graph.add_operation(
        create_operation("operate", node_id="after", role="ok", needs="all"), depends_on=["start"]
    )
    run = await ran(graph, ok, boom)
    assert run.statuses() == {"start": "completed", "after": "skipped", "start.boom-1": "failed"}
    assert run["after"].reason == "blocked by start.boom-1 (failed)"
    assert run.reason == "failed"


async def test_S16_a_dependent_child_of_a_failed_emitter():
    """S16: accepted, then skipped and recorded; an independent sibling runs."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        await turn.emit(SpawnRequest(assignee="child", key="dependent"))
        await turn.emit(SpawnRequest(assignee="child", key="free", independent=True))
        raise ValueError("after asking")

    run = await ran(graph_of(grows), child)
    assert run.statuses() == {"start": "failed", "start.child-1": "skipped", "start.child-2": "completed"}
    assert run["start.child-1"].reason == "blocked by start (failed)"
    assert run.reason == "failed"
