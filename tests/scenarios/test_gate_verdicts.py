"""Gates: S41, bad-inputs 21, and whose verdict counts."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import (
    Finding,
    OperationGraphBuilder,
    Refused,
    Retry,
    Session,
    Verdict,
    role,
)
from tests.scenarios.conftest import lawful, ok, ran

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


async def nothing(turn):
    return {"looked": True}


@pytest.mark.parametrize(("verdict", "status"), [("APPROVE", "completed"), ("REJECT", "vetoed")])
@pytest.mark.parametrize("way", ["bundle", "model", "text", "fence", "emitted"])
async def test_S41_wherever_the_verdict_stands(way, verdict, status):
    """S41: nested in a bundle, in a text block, emitted on the way: recognised; both arms."""
    made = {"verdict": verdict, "rationale": "seen"}
    block = f'Here it is:\n```Verdict\n{{"verdict": "{verdict}", "rationale": "seen"}}\n```\n'

    @role(emits=(Verdict, Finding))
    async def judge(turn):
        if way == "emitted":
            assert await turn.emit(Verdict(**made))
            return "said"
        findings = [Finding(description="a")]
        return {
            "bundle": {"report": {"findings": findings, "final": [Verdict(**made)]}},
            "model": [*findings, Verdict(**made)],
            "text": {"text": block},
            "fence": block,
        }[way]

    run = await ran(behind(judge))
    assert run["one"].status == status
    assert run["gate"].judgement == ("approved" if status == "completed" else "rejected")


@pytest.mark.parametrize(
    ("value", "reason"), [("reject", "gate_rejected"), ("approve", "completed"), (None, "gate_undecided")]
)
async def test_an_operation_without_a_role_may_be_a_gate(value, reason):
    """Kernel 5: it decides by the top-level ``gate_verdict`` of its value."""

    async def check(turn):
        return {"gate_verdict": value} if value else {"nothing": 1}

    async with Session() as session:
        session.register_operation("check", check)
        graph = OperationGraphBuilder()
        graph.add_operation("check", node_id="gate", gate=True)
        graph.add_operation(ok, node_id="one", depends_on=["gate"])
        run = await lawful(await session.start(graph))
    assert run.reason == reason


async def test_only_the_final_attempts_verdict_counts():
    """Engine 14, 19: attempt 1 says REJECT and crashes, attempt 2 says APPROVE: open."""

    @role(emits=(Verdict,), retry=Retry(attempts=2))
    async def judge(turn):
        verdict = "REJECT" if turn.attempt == 1 else "APPROVE"
        await turn.emit(Verdict(verdict=verdict, rationale="r"))
        if turn.attempt == 1:
            raise ValueError("crash")

    run = await ran(behind(judge))
    assert run.reason == "completed"
    assert run["gate"].judgement == "approved"


@pytest.mark.parametrize(("verdict", "reason"), [("APPROVE", "completed"), ("REJECT", "gate_rejected")])
async def test_a_verdict_repeated_in_the_final_attempt_counts(verdict, reason):
    """Engine 13, 19: the same verdict in attempts 1 and 2 is one ledger entry, and decides the gate."""

    @role(emits=(Verdict,), retry=2)
    async def judge(turn):
        receipt = await turn.emit(Verdict(verdict=verdict, rationale="r"))
        if turn.attempt == 1:
            raise ValueError("crash")
        return receipt.emission

    run = await ran(behind(judge))
    assert run.reason == reason
    assert run["gate"].value == 1


async def test_a_person_decides_an_undecided_gate():
    """Kernel 5: while the run is live ``answer`` decides, recorded with who and why; both arms."""
    for verdict, status in (("approve", "completed"), ("REJECT", "vetoed")):
        held, judged = anyio.Event(), anyio.Event()

        async def waits(turn, held=held, judged=judged):
            judged.set()
            await held.wait()

        async with Session() as session:
            session.register_operation("waits", waits)
            graph = behind(role(name="judge", emits=(Verdict,))(nothing))
            graph.add_operation("waits", node_id="slow", depends_on=["gate"], needs="any")
            graph.add_operation("waits", node_id="other", depends_on=["work"])
            live = await session.start(graph)
            await judged.wait()
            assert isinstance(live.answer("gate", "PERHAPS"), Refused)
            assert live.answer("gate", verdict, by="ada", because="I looked")
            assert isinstance(live.answer("gate", "approve"), Refused)
            held.set()
            run = await lawful(live)
        assert run["one"].status == run["slow"].status == status
        fact = (run.of("GateApproved") or run.of("GateRejected"))[0]
        assert (fact.data["by"], fact.data["because"]) == ("ada", "I looked")


async def test_bad_inputs_21_a_rejection_while_others_run():
    """Bad-inputs 21: what runs beside the gate finishes; what joins both never starts."""
    running, rejected = anyio.Event(), anyio.Event()

    @role(emits=(Verdict,))
    async def judge(turn):
        await running.wait()
        return Verdict(verdict="REJECT", rationale="no")

    @role()
    async def beside(turn):
        running.set()
        await rejected.wait()
        return "finished"

    async def watch(envelope):
        rejected.set()

    graph = OperationGraphBuilder()
    graph.add_operation(judge, node_id="gate", depends_on=[], gate=True)
    graph.add_operation(beside, node_id="beside", depends_on=[])
    graph.add_operation(ok, node_id="join", depends_on=["beside", "gate"])
    async with Session() as session, session.tap(watch, kinds=("GateRejected",)):
        run = await lawful(await session.start(graph))
    assert run["beside"].value == "finished"
    assert run["join"].vetoed_by == ("gate",)
    assert run.reason == "gate_rejected"
