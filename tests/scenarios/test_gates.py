"""Gates: S31 to S39 and S41, bad-inputs 21 to 23; both arms of every gate."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import (
    Accepted,
    EscalationRequest,
    Gate,
    NotApplicable,
    OperationError,
    OperationGraphBuilder,
    RunReason,
    Session,
    SpawnRequest,
    Verdict,
    VerdictValue,
    role,
)
from orchestrator.testing.loops import run_virtual
from tests.scenarios.conftest import lawful, ok, ran, reads

OPENS = ("APPROVE", "APPROVE-WITH-FIXES", "REQUEST-CHANGES")


def says(*verdicts, name="judge", emits=(Verdict,), **keys):
    """A gate's role that returns one verdict, or a list of them; any other value as it is."""

    @role(name=name, emits=emits, **keys)
    async def judge(turn):
        if not all(isinstance(verdict, str) for verdict in verdicts):
            return verdicts[0]
        made = [Verdict(verdict=verdict, rationale=f"it is {verdict}") for verdict in verdicts]
        return made[0] if len(made) == 1 else made

    return judge


def behind(judge, *, gate=True, **more):
    """work -> gate -> one -> two, and work -> beside."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="work")
    graph.add_operation(judge, node_id="gate", depends_on=["work"], gate=gate, **more)
    graph.add_operation(ok, node_id="one", depends_on=["gate"])
    graph.add_operation(ok, node_id="two", depends_on=["one"])
    graph.add_operation(ok, node_id="beside", depends_on=["work"])
    return graph


async def test_S31_reject_vetoes_the_subtree():
    """S31, PROP 12: all transitive dependents vetoed naming the gate; siblings run; ``gate_rejected``."""
    run = await ran(behind(says("REJECT")))
    assert run.reason == "gate_rejected"
    assert run.result.vetoed_operations == ("one", "two")
    assert run.result.completed_operations == ("work", "gate", "beside")
    assert run.result.gate_rejected_operations == ("gate",)
    for name in ("one", "two"):
        assert run[name].vetoed_by == ("gate",)
        assert run[name].reason == "rejected by gate"
    assert run.result.skipped_operations == ()
    assert set(run.result.not_run) == {"one", "two"}
    assert run["gate"].value["gate_verdict"] == "reject"
    assert run["gate"].judgement == "rejected"
    assert run.of("RunEnded")[0].data["detail"] == "gate"


@pytest.mark.parametrize("verdict", OPENS)
async def test_S32_the_other_verdicts_open(verdict):
    """S32, PROP 12, bad-inputs 22: dependents run, no veto, nothing is set in the value."""
    run = await ran(behind(says(verdict)))
    assert run.reason == "completed"
    assert run.result.vetoed_operations == ()
    assert run["two"].status == "completed"
    assert "gate_verdict" not in run["gate"].value
    assert run["gate"].judgement == "approved"
    assert run.result.gate_rejected_operations == ()


@pytest.mark.parametrize("verdict", list(VerdictValue))
async def test_S32_refuse_on_is_total(verdict):
    """Kernel 5: a verdict in ``refuse_on`` rejects, every other opens; one row per member."""
    gate = Gate(refuse_on=("REQUEST-CHANGES", "REJECT"))
    run = await ran(behind(says(str(verdict)), gate=gate))
    assert run["one"].status == ("vetoed" if verdict in gate.refuse_on else "completed")
    assert run.reason == ("gate_rejected" if verdict in gate.refuse_on else "completed")


@pytest.mark.parametrize(
    ("spelling", "status"),
    [
        ("reject", "vetoed"),
        (" Reject ", "vetoed"),
        ("approve with fixes", "completed"),
        ("Approve_With_Fixes", "completed"),
        ("request changes", "completed"),
    ],
)
async def test_S33_spelled_otherwise(spelling, status):
    """S33: another case, spaces or underscores: the same verdict."""
    run = await ran(behind(says(spelling)))
    assert run["one"].status == status


async def nothing(turn):
    return {"looked": True}


async def crashes(turn):
    raise ValueError("no verdict")


async def declines(turn):
    raise NotApplicable("nothing to judge")


async def contradicts(turn):
    return [Verdict(verdict="APPROVE", rationale="a"), Verdict(verdict="REJECT", rationale="b")]


async def garbles(turn):
    return '```Verdict\n{"verdict": "MAYBE", "rationale": "?"}\n```'


async def gives_up(turn):
    return EscalationRequest(reason="no idea", route="give_up")


UNDECIDED = [nothing, crashes, declines, contradicts, garbles, gives_up]


@pytest.mark.parametrize("body", UNDECIDED)
async def test_S33_S39_undecided_holds(body):
    """S33, S39, bad-inputs 22, TRUTH 18: no readable verdict, two, a crash: dependents wait, others
    finish.
    """
    judge = role(name="judge", emits=(Verdict,))(body)
    run = await ran(behind(judge))
    assert run.reason == "gate_undecided"
    assert run.reason is not RunReason.COMPLETED
    assert not run.result.ok
    assert run["gate"].judgement == "undecided"
    assert run.nodes("NodeStarted") == ["work", "gate", "beside"]
    assert run.statuses()["one"] == run.statuses()["two"] == "waiting"
    assert set(run.result.waiters) == {"gate", "one", "two"}
    assert run.result.waiters["one"] == "gate"
    assert run.result.next.startswith("callboard answer")


@pytest.mark.parametrize("body", UNDECIDED)
@pytest.mark.parametrize(("policy", "status"), [("reject", "vetoed"), ("pass", "completed")])
async def test_S39_the_authors_policy(body, policy, status):
    """S39, kernel 5: ``on_undecided`` reject counts it as REJECT, pass opens the dependents."""
    judge = role(name="judge", emits=(Verdict,))(body)
    graph = OperationGraphBuilder()
    graph.add_operation(judge, node_id="gate", gate=Gate(on_undecided=policy))
    graph.add_operation(ok, node_id="one", depends_on=[])
    graph.add_edge("gate", "one", accept=("completed", "failed", "skipped"))
    graph.add_operation(ok, node_id="two", depends_on=["one"])
    run = await ran(graph)
    assert run["one"].status == run["two"].status == status
    if policy == "reject":
        assert run["one"].vetoed_by == run["two"].vetoed_by == ("gate",)
        assert run.result.gate_rejected_operations == ("gate",)


def test_S39_an_unknown_policy():
    """Law 8: a policy that is none of the three is refused where it is written."""
    with pytest.raises(OperationError, match="'maybe'; write hold, reject or pass"):
        Gate(on_undecided="maybe")


def test_S39_a_gate_that_times_out(anyio_backend):
    """S39: a timed-out gate is undecided; its dependents wait."""

    @role(emits=(Verdict,), timeout=5)
    async def judge(turn):
        await anyio.sleep(60)
        return Verdict(verdict="APPROVE", rationale="too late")

    run = run_virtual(ran, behind(judge), backend=anyio_backend)
    assert run.reason == "gate_undecided"
    assert run["gate"].error.type == "TimeoutError"
    assert run["one"].status == "waiting"


async def test_S34_a_reject_shaped_result_of_a_plain_node():
    """S34, bad-inputs 23: ``gate_verdict`` or a Verdict of a node that is no gate is data."""

    @role(emits=(Verdict,))
    async def opinion(turn):
        await turn.emit(Verdict(verdict="REJECT", rationale="I would not"))
        return {"gate_verdict": "reject", "mine": Verdict(verdict="REJECT", rationale="really")}

    graph = OperationGraphBuilder()
    graph.add_operation(opinion, node_id="plain")
    graph.add_operation(reads, node_id="after", depends_on=["plain"])
    run = await ran(graph)
    assert run.reason == "completed"
    assert run["after"].value["plain"]["gate_verdict"] == "reject"
    assert len(run.of("EmissionAccepted")) == 2
    assert run.of("GateRejected") == []


@pytest.mark.parametrize("first", ["clean", "gated"])
async def test_S35_a_diamond_with_one_clean_path(first):
    """S35: vetoed, whichever edge was added first."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="clean", depends_on=[])
    graph.add_operation(says("REJECT"), node_id="gated", depends_on=[], gate=True)
    graph.add_operation(ok, node_id="join", depends_on=[])
    for source in sorted(("clean", "gated"), key=lambda name: name != first):
        graph.add_edge(source, "join")
    run = await ran(graph)
    assert run["join"].status == "vetoed"
    assert run["join"].vetoed_by == ("gated",)


async def test_S36_the_veto_is_there_before_the_barrier():
    """S36: the rejection stands before any dependent is judged; also for nodes joined while it ran."""
    added = anyio.Event()

    @role(emits=(Verdict,))
    async def judge(turn):
        await added.wait()
        return Verdict(verdict="REJECT", rationale="no")

    async with Session([ok]) as session:
        graph = behind(judge)
        graph.add_operation(ok, node_id="other", depends_on=[])
        live = await session.start(graph)
        receipt = live.inject("ok", after=["gate"], key="late")
        added.set()
        run = await lawful(live)
    assert isinstance(receipt, Accepted)
    assert run[receipt.node].status == "vetoed"
    rejected = run.place("GateRejected", "gate")
    assert all(fact.seq > rejected for fact in run.of("NodeVetoed"))
    assert run.place("NodeCompleted", "gate") < rejected


@pytest.mark.parametrize(("broken", "status"), [(True, "skipped"), (False, "completed")])
async def test_law_7_a_gate_that_never_judged_is_no_untaken_branch(broken, status):
    """`after` discounts what was skipped, but not a gate that was skipped for somebody's failure."""

    @role()
    async def draft(turn):
        if broken:
            raise ValueError("no draft")
        raise NotApplicable("nothing to draft")

    graph = OperationGraphBuilder()
    graph.add_operation(reads, "scan", depends_on=[])
    graph.add_operation(draft, depends_on=[])
    for name, body, after in (("review", says("APPROVE"), ["draft"]), ("publish", reads, ["review", "scan"])):
        graph.add_operation(body, name, [], gate=name == "review", needs="all")
        for source in after:
            graph.add_edge(source, name, accept=("completed",))
    result = await ran(graph)
    assert result["review"].status == "skipped"
    assert result["publish"].status == status
    assert result["publish"].reason == ("blocked by review (skipped)" if broken else "")


async def test_S37_spawns_at_a_rejected_gate():
    """S37: a dependent spawn ``after`` it is refused ``vetoed``; an independent one runs."""

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        held = await turn.emit(SpawnRequest(assignee="ok", after=["gate"]))
        below = await turn.emit(SpawnRequest(assignee="ok", after=["one"]))
        free = await turn.emit(SpawnRequest(assignee="ok", independent=True))
        return [held.reason, below.reason, free.node]

    graph = behind(says("REJECT"))
    graph.add_operation(ok, node_id="slow", depends_on=["beside"])
    graph.add_operation(grows, node_id="grow", depends_on=["slow"])
    run = await ran(graph, ok)
    assert run["grow"].value == ["vetoed", "vetoed", "grow.ok-1"]
    assert run["grow.ok-1"].status == "completed"


async def test_S37_children_of_the_gate_itself():
    """S37: what a rejecting gate spawned: the dependent child is vetoed, the independent one runs."""

    @role(emits=(Verdict, SpawnRequest))
    async def judge(turn):
        await turn.emit(SpawnRequest(assignee="ok"))
        await turn.emit(SpawnRequest(assignee="ok", independent=True, key="free"))
        return Verdict(verdict="REJECT", rationale="no")

    run = await ran(behind(judge), ok)
    assert run["gate.ok-1"].vetoed_by == ("gate",)
    assert run["gate.ok-2"].status == "completed"


async def test_S38_every_rejecting_gate_is_named():
    """S38: two rejecting gates: both named; a chain of 20 all vetoed; a gate behind a gate never judges."""
    graph, no = OperationGraphBuilder(), says("REJECT")
    for name in ("g1", "g2"):
        graph.add_operation(no, node_id=name, depends_on=[], gate=True)
    graph.add_operation(ok, node_id="n0", depends_on=["g1", "g2"])
    for number in range(1, 20):
        graph.add_operation(ok, node_id=f"n{number}", depends_on=[f"n{number - 1}"])
    graph.add_operation(says("APPROVE", name="other"), node_id="g3", depends_on=["n19"], gate=True)
    graph.add_operation(ok, node_id="end", depends_on=["g3"])
    run = await ran(graph)
    assert len(run.result.vetoed_operations) == 22
    assert all(run[name].vetoed_by == ("g1", "g2") for name in run.result.vetoed_operations)
    assert run["end"].reason == "rejected by g1, g2"
    assert run.nodes("GateApproved") == run.nodes("GateUndecided") == []
    assert run.result.gate_rejected_operations == ("g1", "g2")


async def test_S38_a_gate_behind_an_open_gate():
    """S38: gate after gate: the second decides about what is behind it."""
    graph = behind(says("APPROVE"))
    graph.add_operation(says("REJECT", name="other"), node_id="second", depends_on=["two"], gate=True)
    graph.add_operation(ok, node_id="end", depends_on=["second"])
    run = await ran(graph)
    assert run.result.vetoed_operations == ("end",)
    assert run["end"].vetoed_by == ("second",)
