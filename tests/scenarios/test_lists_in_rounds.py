"""Lists inside a refusal loop: a round copies the node; its instances stay in their round (kernel.md 5)."""

from __future__ import annotations

import pytest

from orchestrator import (
    EscalationRequest,
    Finding,
    ForEach,
    Gate,
    OperationGraphBuilder,
    Verdict,
    create_operation,
    role,
)
from tests.scenarios.conftest import ran

EACH = ForEach(over="draft.files", max=5, name="file")


@role(name="author")
async def author(turn):
    return {"files": ["a", "b"] if turn.rework is None else ["a", "c", "d"]}


@role(name="checker", emits=(Finding, EscalationRequest), escalates_to="senior")
async def checker(turn):
    path = turn.parameters["path"]
    if path == "b":
        return EscalationRequest(reason="too hard", urgency="blocked")
    await turn.emit(Finding(description=path, severity="low"))
    turn.write("seen", [path])
    return [turn.node, path]


@role(name="senior", emits=(Finding,))
async def senior(turn):
    return [turn.node, turn.parameters["path"]]


@role(name="judge", emits=(Verdict,))
async def judge(turn):
    return Verdict(
        verdict="REJECT" if turn.rework is None else "APPROVE", rationale=str(len(turn.inputs["check"]))
    )


@role(name="publisher")
async def publisher(turn):
    found = [one.node for one in turn.emissions(Finding)]
    return {"check": turn.inputs["check"], "found": found, "seen": turn.context["seen"]}


def looped(**gate):
    """draft -> check (once per file) -> review, which sends it all back -> publish."""
    graph = OperationGraphBuilder()
    graph.add_operation(author, node_id="draft")
    graph.add_operation(
        create_operation(checker, {"path": "${file}"}, node_id="check", for_each=EACH),
        depends_on=["draft"],
        role=checker,
    )
    gate = Gate(refusals=1, back_to="draft", **gate)
    graph.add_operation(judge, node_id="review", depends_on=["check"], gate=gate)
    graph.add_operation(publisher, node_id="publish", depends_on=["check", "review"])
    return graph


async def test_a_round_makes_its_own_list():
    """The copy is due when the new draft has settled: another list, other instances, nothing carried over."""
    run = await ran(looped(), senior, reducers={"seen": "extend"})
    assert run.reason == "completed"
    names = [name for name in run.result if name.startswith("check")]
    assert names == [
        "check",
        "check.1",
        "check.2",
        "check.2+1",
        "check@2",
        "check@2.1",
        "check@2.2",
        "check@2.3",
    ]
    assert run.result.nodes["check"].value == [["check.1", "a"], ["check.2+1", "b"]]
    expected = [["check@2.1", "a"], ["check@2.2", "c"], ["check@2.3", "d"]]
    assert run["check"].value == expected
    assert run["publish"].value["check"] == expected
    assert run["publish"].value["found"] == ["check@2.1", "check@2.2", "check@2.3"]
    assert run.result.spawned_operations == 0
    assert [fact.node for fact in run.of("InstancesAdded")] == ["check", "check@2"]


@pytest.mark.parametrize("refused", [True, False])
async def test_an_expression_reads_the_round_s_own_list(refused):
    """A bare name means the latest round: what follows counts the copy's instances."""
    graph = looped(**({} if refused else {"refuse_on": ("REQUEST-CHANGES",)}))
    graph.add_operation(publisher, node_id="many", depends_on=["check", "review"], when="len(check) > 2")
    run = await ran(graph, senior, reducers={"seen": "extend"})
    assert run["many"].status == ("completed" if refused else "skipped")
