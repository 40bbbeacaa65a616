"""Refusal loops as a run shows them: seeds D5 to D7, kernel 5, engine 16 and 19; both arms of every gate."""

from __future__ import annotations

import pytest

from orchestrator import (
    Finding,
    Gate,
    GraphError,
    OperationGraphBuilder,
    RunReason,
    Session,
    SpawnRequest,
    UnknownNodeError,
    Verdict,
    role,
)
from tests.scenarios.conftest import lawful, ok, ran


def judging(*verdicts, name="judge"):
    """A gate's role that gives these verdicts, one in each of its rounds; the last again and again."""

    @role(name=name, emits=(Verdict,))
    async def judge(turn):
        number = 1 if turn.rework is None else turn.rework.round
        verdict = verdicts[min(number, len(verdicts)) - 1]
        return Verdict(verdict=verdict, rationale=f"round {number} is thin", reversible_by="an example")

    return judge


@role(name="author")
async def author(turn):
    rework = turn.rework
    if rework is None:
        return {"text": "first"}
    return {
        "text": f"{rework.value['text']}, again",
        "told": [rework.gate, rework.round, rework.verdict, rework.rationale, rework.reversible_by],
    }


@role(name="publisher")
async def publisher(turn):
    return {name: value.get("text", value.get("verdict")) for name, value in turn.inputs.items()}


def reviewed(judge, refusals=2, back_to="draft", **gate):
    """scan -> draft -> review (the gate) -> publish; publish reads draft as well."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="scan")
    graph.add_operation(author, node_id="draft", depends_on=["scan"])
    graph.add_operation(
        judge, node_id="review", depends_on=["draft"], gate=Gate(refusals=refusals, back_to=back_to, **gate)
    )
    graph.add_operation(publisher, node_id="publish", depends_on=["draft", "review"])
    return graph


async def test_a_critic_that_always_rejects():
    """D5, bad-inputs 26: budget 2 gives exactly 2 reworks; it ends refusals_exhausted and names the fork."""
    run = await ran(reviewed(judging("REJECT")))
    assert run.reason is RunReason.REFUSALS_EXHAUSTED
    drafts = [name for name in run.result.nodes if name.startswith("draft")]
    assert drafts == ["draft", "draft@2", "draft@3"]
    assert run.nodes("GateRefused") == ["review", "review@2"]
    assert run.nodes("GateRejected") == ["review@3"]
    assert run.result.vetoed_operations == ("publish",)
    assert run["publish"].vetoed_by == ("review@3",)
    assert run.result.detail == "review@3 gave up after 2 refusals"
    assert "--at review@3 --answer" in run.result.next
    assert run.result.spawned == ()


async def test_a_critic_that_approves_in_round_two():
    """The other arm: the run completes, publish reads the new round by its old names, the verdict moved."""
    run = await ran(reviewed(judging("REJECT", "APPROVE")))
    assert run.reason == "completed"
    assert run["publish"].value == {"draft": "first, again", "review": "APPROVE"}
    assert run["draft"].name == "draft@2"
    assert run["draft@1"].value == run.result.nodes["draft"].value == {"text": "first"}
    assert run.result.operation_results["draft"]["text"] == "first, again"
    told = run["draft"].value["told"]
    assert told == ["review", 2, "REJECT", "round 1 is thin", "an example"]
    first, second = run.result.rounds
    assert (first.gate, first.round, first.judgement, first.verdict, first.moved) == (
        "review", 1, "refused", "REJECT", None,
    )  # fmt: skip
    assert (second.judgement, second.verdict, second.moved, second.nodes) == ("approved", "APPROVE", True, 2)


async def test_a_verdict_that_does_not_refuse_sends_nothing_back():
    """S32: APPROVE-WITH-FIXES opens at once; REQUEST-CHANGES refuses only where the gate says so."""
    for verdict, refuse_on, rounds in (
        ("APPROVE-WITH-FIXES", ("REJECT",), 1),
        ("REQUEST-CHANGES", ("REJECT",), 1),
        ("REQUEST-CHANGES", ("REQUEST-CHANGES", "REJECT"), 2),
    ):
        run = await ran(reviewed(judging(verdict, "APPROVE"), refuse_on=refuse_on))
        assert (run.reason, len(run.result.rounds)) == ("completed", rounds)


async def test_without_back_to_the_gates_predecessors_work_again():
    """Default of back_to: what the gate judges is made again, what that was made from stands."""
    run = await ran(reviewed(judging("REJECT", "APPROVE"), back_to=None))
    assert sorted(name for name in run.result.nodes if "@" in name) == ["draft@2", "review@2"]


@pytest.mark.parametrize(
    ("back_to", "error", "says"),
    [
        ("drafd", UnknownNodeError, "did you mean 'draft'"),
        ("publish", GraphError, "back_to 'publish' is not above it"),
        ("review", GraphError, "back_to 'review' is not above it"),
    ],
)
async def test_back_to_must_be_above_its_gate(back_to, error, says):
    """kernel 5: refused before anything runs."""
    async with Session() as session:
        with pytest.raises(error, match=says):
            await session.flow(reviewed(judging("REJECT"), back_to=back_to))


async def test_emissions_and_growth_are_of_the_latest_round():
    """kernel 5: what grew in the old round is not carried over; findings of it are not read any more."""

    @role(name="scout", emits=(Finding, SpawnRequest))
    async def scout(turn):
        number = 1 if turn.rework is None else turn.rework.round
        await turn.emit(SpawnRequest(instruction="look", assignee="helper", before="successors"))
        return Finding(description=f"of round {number}")

    @role(name="helper", emits=(Finding,))
    async def helper(turn):
        return Finding(description=f"by {turn.node}")

    @role(name="reader")
    async def reader(turn):
        found = [one.description for one in turn.emissions(Finding)]
        return [found, [one.description for one in turn.emissions(Finding, of="scout")]]

    graph = OperationGraphBuilder()
    graph.add_operation(scout, node_id="scout")
    graph.add_operation(
        judging("REJECT", "APPROVE"), node_id="gate", depends_on=["scout"], gate=Gate(refusals=1)
    )
    graph.add_operation(reader, node_id="reader", depends_on=["gate"])
    run = await ran(graph, helper)
    assert run.reason == "completed"
    assert run.result.spawned == ("scout.helper-1", "scout@2.helper-1")
    assert run["reader"].value == [["of round 2", "by scout@2.helper-1"], ["of round 2"]]
    assert run.result.rounds[0].nodes == 3


def spoken(fresh):
    """A gate over two nodes that speak: what each has said before, and the instruction that it was given."""

    async def chat(turn):
        before = [message.content for message in turn.branch.messages]
        turn.branch.say("assistant", turn.node)
        return {"before": before, "branch": turn.branch.name, "told": turn.instruction}

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="scan")
    graph.add_operation("chat", node_id="draft", instruction="write it", fresh=fresh, depends_on=["scan"])
    graph.add_operation(
        judging("REJECT", "APPROVE"), node_id="review", depends_on=["draft"], gate=Gate(refusals=1)
    )
    graph.add_operation("chat", node_id="last", depends_on=["review"])
    return graph, chat


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_branch_is_continued_unless_fresh(fresh):
    """D6: a node that works again continues its conversation; ``fresh`` begins one; both are recorded."""
    graph, chat = spoken(fresh)
    async with Session() as session:
        session.register_operation("chat", chat)
        run = await lawful(await session.start(graph))
    first, second = run.result.nodes["draft"].value, run["draft"].value
    assert (second["before"] == ["draft"], second["branch"] == first["branch"]) == (not fresh, not fresh)
    assert first["told"] == "write it"
    assert second["told"].startswith("[REWORK]\nreview refused round 1 of this work: REJECT\n")
    assert ("Why: round 1 is thin" in second["told"], "an example" in second["told"]) == (True, True)
    assert second["told"].endswith("[/REWORK]\n\nwrite it")
    assert ("You had given" in second["told"]) is fresh
    (_, record) = run.result.rounds
    assert (record.continued, record.fresh) == ((), ("draft@2",)) if fresh else (("draft@2",), ())
