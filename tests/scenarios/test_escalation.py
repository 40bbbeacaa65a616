"""Escalation: S24 to S30, bad-inputs 25."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from orchestrator import (
    Budget,
    EscalationRequest,
    Finding,
    OperationGraphBuilder,
    Retry,
    Session,
    SpawnRequest,
    Verdict,
    create_operation,
    role,
)
from tests.scenarios.conftest import lawful, ok, ran, reads


@role()
async def child(turn):
    return "child"


@role()
async def expert(turn):
    return {"by": "expert", "read": dict(turn.inputs), "told": turn.instruction}


def tiers(*models, until=None, emits=(), **request):
    """A role that asks for a higher tier until it runs on the model ``until``."""

    @role(name="worker", models=models, emits=emits)
    async def worker(turn):
        tier = turn.node.count("+") and int(turn.node.rpartition("+")[2])
        if until is not None and tier >= until:
            return {"tier": tier, "read": dict(turn.inputs), "told": turn.instruction}
        return EscalationRequest(**{"reason": f"too hard for tier {tier}", **request})

    return worker


def graph_of(first, *, after=None, **more):
    graph = OperationGraphBuilder()
    graph.add_operation(first, node_id="work", **more)
    if after is not None:
        graph.add_operation(after, node_id="after", depends_on=["work"])
    return graph


async def test_S24_blocked_moves_one_tier_up():
    """S24: one child one tier up, linked to its origin; the origin's lane is escalated; route and text
    told.
    """
    run = await ran(graph_of(tiers("small", "large", until=1), instruction="Solve it"))
    assert run.statuses() == {"work": "escalated", "work+1": "completed"}
    assert run.result.nodes["work"].superseded_by == "work+1"
    assert run["work+1"].spawned_by == "work"
    (fact,) = run.of("NodeEscalated")
    assert (fact.data["route"], fact.data["reason"], fact.data["child"], fact.data["tier"]) == (
        "higher_tier", "too hard for tier 0", "work+1", 1,
    )  # fmt: skip
    assert run.reason == "completed"
    assert run.result.spawned == ()  # an escalation is not a spawn
    told = run["work"].value["told"]
    assert told.endswith("Solve it")
    assert "too hard for tier 0" in told.partition("Solve it")[0]


async def test_S24_escalates_to_another_role():
    """S24: without a further model the role above takes over, and reads what the emitter read."""

    @role(escalates_to="expert")
    async def novice(turn):
        await turn.emit(EscalationRequest(reason="over my head", context={"seen": [1, 2]}))
        return "half done"

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="data")
    graph.add_operation(novice, node_id="work", depends_on=["data"])
    run = await ran(graph, expert)
    assert run["work+1"].role == "expert"
    assert run["work+1"].value["read"] == {"data": "data"}
    assert '{"seen":[1,2]}' in run["work+1"].value["told"]
    assert run.result.nodes["work"].status == "escalated"


async def test_S25_the_childs_result_goes_to_the_successors():
    """S25: successors wait for the child and read it under the origin's name; edge conditions are kept."""
    graph = OperationGraphBuilder()
    graph.add_operation(tiers("small", "large", until=1), node_id="work")
    for name, when in (("high", "result.tier == 1"), ("low", "result.tier == 0")):
        graph.add_operation(reads, node_id=name, depends_on=[])
        graph.add_edge("work", name, when=when)
    run = await ran(graph)
    assert run["high"].value["work"]["tier"] == 1
    assert run["low"].status == "skipped"
    assert run.place("NodeStarted", "high") > run.place("NodeCompleted", "work+1")
    assert list(run["high"].value) == ["work"]


async def test_S25_a_bare_name_means_the_child():
    """Kernel 1: conditions, ``after`` and the result follow the origin's name to the child."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        receipt = await turn.emit(SpawnRequest(assignee="reads", after=["work"]))
        return receipt.node

    graph = OperationGraphBuilder()
    graph.add_operation(tiers("small", "large", until=1), node_id="work")
    graph.add_operation(grows, node_id="grow", depends_on=["work"])
    graph.add_operation(
        create_operation("operate", node_id="when", role="ok", when="work.tier == 1"), depends_on=["grow"]
    )
    run = await ran(graph, ok, reads)
    assert run["work"].name == "work+1"
    assert run["when"].status == "completed"
    assert run["grow.reads-1"].status == "completed"
    assert run["grow.reads-1"].value["work"]["tier"] == 1


async def test_S26_fyi_only_notifies():
    """S26: the node stays completed, the notice is a fact, nothing grows."""

    @role(models=("small", "large"))
    async def worker(turn):
        return [EscalationRequest(reason="look at this", urgency="fyi"), "done"]

    run = await ran(graph_of(worker, after=ok))
    assert run.statuses() == {"work": "completed", "after": "completed"}
    (notified,) = run.of("NodeNotified")
    assert (notified.node, notified.data["route"], notified.data["reason"]) == (
        "work", "notify", "look at this",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("urgency", "route", "status"),
    [
        ("fyi", "higher_tier", "escalated"),
        ("blocked", "notify", "completed"),
        ("blocked", "give_up", "failed"),
        ("fyi", "give_up", "failed"),
    ],
)
async def test_S26_an_explicit_route_wins(urgency, route, status):
    """S26: the route that is named counts, whatever the urgency; give_up is recorded and not retried."""
    worker = tiers("small", "large", until=1, urgency=urgency, route=route, reason="why")
    run = await ran(graph_of(worker, retry=3))
    assert run.result.nodes["work"].status == status
    assert run.result.nodes["work"].attempts == 1
    assert ("work+1" in run.result) is (status == "escalated")
    if status == "failed":
        assert (run["work"].error.type, run["work"].error.message) == ("GaveUp", "why")
        assert run.of("NodeNotified")[0].data["route"] == "give_up"
        assert run.reason == "failed"


async def test_S27_the_same_request_twice_is_one():
    """S27: emitted and returned, and an equal copy: one retry node."""

    @role(models=("small", "large"))
    async def worker(turn):
        if "+" in turn.node:
            return "solved"
        request = EscalationRequest(reason="stuck")
        receipt = await turn.emit(request)
        assert receipt.node == "work+1"
        return [request, EscalationRequest(reason="stuck")]

    run = await ran(graph_of(worker))
    assert list(run.result.nodes) == ["work", "work+1"]
    assert len(run.of("NodeEscalated")) == 1
    assert run["work"].value == "solved"


async def test_S27_two_requests_have_two_numbers():
    """S27: two different ones are two entries of the ledger and one move, with both reasons."""

    @role(models=("small", "large"))
    async def worker(turn):
        if "+" in turn.node:
            return "solved"
        receipts = [await turn.emit(EscalationRequest(reason=reason)) for reason in ("one", "two")]
        return [receipt.emission for receipt in receipts]

    run = await ran(graph_of(worker))
    assert run.result.nodes["work"].value == [1, 2]
    (fact,) = run.of("NodeEscalated")
    assert fact.data["reason"] == "one; two"
    assert list(run.result.nodes) == ["work", "work+1"]


async def test_S28_two_tiers_per_lineage():
    """S28: the third move is refused ``escalation_exhausted``, and the node fails."""
    run = await ran(graph_of(tiers("a", "b", "c", "d", "e")))
    assert run.statuses() == {"work": "escalated", "work+1": "escalated", "work+2": "failed"}
    assert run["work"].error.type == "EscalationRefused"
    assert run["work"].error.message.startswith("escalation_exhausted")
    assert [fact.data["reason"] for fact in run.of("EmissionRefused")] == ["escalation_exhausted"]
    assert run.reason == "failed"


async def test_S28_the_runs_budget_of_escalations():
    """Kernel 8: ``escalations`` counts over the run; beyond it the node fails."""
    graph = OperationGraphBuilder()
    worker = tiers("a", "b", until=1)
    for number in range(3):
        graph.add_operation(worker, node_id=f"w{number}", depends_on=[])
    run = await ran(graph, budget=Budget(escalations=2, concurrency=1))
    assert run.result.escalated_operations == ("w0", "w1")
    assert run.result.failed_operations == ("w2",)
    assert run["w2"].error.message.startswith("escalation_exhausted")


async def test_S28_no_higher_tier():
    """Kernel 4: refused; the node fails unless it goes on."""

    @role()
    async def goes_on(turn):
        receipt = await turn.emit(EscalationRequest(reason="help"))
        return {"reason": receipt.reason}

    graph = OperationGraphBuilder()
    graph.add_operation(goes_on, depends_on=[])
    graph.add_operation(tiers("only"), depends_on=[])
    run = await ran(graph)
    assert run["goes_on"].value == {"reason": "no_higher_tier"}
    assert run["worker"].status == "failed"
    assert run["worker"].error.message.startswith("no_higher_tier")


async def test_S29_spawn_and_escalation_in_one_result():
    """S29: both are handled: the child runs, the work moves up, the successor reads both."""

    @role(models=("small", "large"), emits=(SpawnRequest,))
    async def worker(turn):
        if "+" in turn.node:
            return "solved"
        return [SpawnRequest(assignee="child", before="successors"), EscalationRequest(reason="too hard")]

    run = await ran(graph_of(worker, after=reads), child)
    assert run.statuses() == {
        "work": "escalated", "after": "completed", "work.child-1": "completed", "work+1": "completed",
    }  # fmt: skip
    assert run["after"].value == {"work": "solved", "work.child-1": "child"}


async def test_S30_a_failing_observer():
    """S30: an observer of NodeEscalated that raises leaves the result as it is."""

    async def raises(envelope):
        raise RuntimeError("observer")

    async with Session() as session, session.tap(raises, kinds=("NodeEscalated",)):
        run = await lawful(await session.start(graph_of(tiers("a", "b", until=1), after=ok)))
    assert run.reason == "completed"
    assert run["work"].value["tier"] == 1


@pytest.mark.parametrize(("verdict", "status"), [("APPROVE", "completed"), ("REJECT", "vetoed")])
async def test_a_gate_that_escalates_is_succeeded_by_its_child(verdict, status):
    """S24, S25, kernel 4: the child is the gate; the emitter is not judged; both arms."""

    @role(models=("small", "large"), emits=(Verdict,))
    async def judge(turn):
        if "+" in turn.node:
            return Verdict(verdict=verdict, rationale="seen")
        return EscalationRequest(reason="cannot judge")

    run = await ran(graph_of(judge, after=ok, gate=True))
    assert run["after"].status == status
    assert run.nodes("GateApproved") + run.nodes("GateRejected") == ["work+1"]
    assert run.nodes("GateUndecided") == []
    assert run["after"].vetoed_by == (("work+1",) if status == "vetoed" else ())


async def test_only_the_final_attempt_escalates():
    """Engine 14, 20: a request of a failed attempt is dropped; made again in the last one it is carried
    out.
    """

    @role(models=("small", "large"), retry=Retry(attempts=2))
    async def worker(turn):
        if "+" in turn.node:
            return "solved"
        await turn.emit(EscalationRequest(reason="stuck"))
        if turn.attempt == 1:
            raise ValueError("crash after asking")
        return "never mind the value"

    run = await ran(graph_of(worker))
    assert run.statuses() == {"work": "escalated", "work+1": "completed"}


async def test_a_request_of_a_failed_attempt_is_dropped():
    """Engine 14: attempt 1 asks and fails, attempt 2 does not ask: nothing moves up."""

    @role(models=("small", "large"), retry=2)
    async def worker(turn):
        if turn.attempt == 1:
            await turn.emit(EscalationRequest(reason="stuck"))
            raise ValueError("crash after asking")
        return "done alone"

    run = await ran(graph_of(worker))
    assert run.statuses() == {"work": "completed"}
    assert run["work"].value == "done alone"


async def test_bad_inputs_25_an_unknown_route():
    """Bad-inputs 25: refused where it is made, or recorded as ``invalid`` where it comes as text."""
    with pytest.raises(ValidationError, match="route"):
        EscalationRequest(reason="x", route="sideways")

    @role(models=("small", "large"), emits=(Finding,))
    async def worker(turn):
        return '```EscalationRequest\n{"reason": "x", "route": "sideways"}\n```'

    run = await ran(graph_of(worker))
    assert run["work"].status == "completed"
    (refused,) = run.of("EmissionRefused")
    assert (refused.data["emission"], refused.data["reason"]) == ("EscalationRequest", "invalid")
    assert "route" in refused.data["detail"]
