"""Refusal loops in the core: what a new round is made of, what waits for it, what it costs (kernel.md 5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from emissions import Refused
from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.context import fold, view_at_end
from orchestrator.core.laws import check_facts
from orchestrator.core.loops import loops_of
from orchestrator.core.spec import Budget, Edge, Gate, Operation
from orchestrator.core.status import Status
from tests.core.small import Small, edge, plan


def gate(name: str, refusals: int = 1, back_to: str | None = None, **more: Any) -> Operation:
    return Operation(name=name, role="worker", gate=Gate(refusals=refusals, back_to=back_to, **more))


def reviewed(refusals: int = 1, **more: Any) -> Small:
    """scan > draft > review (a gate) > publish."""
    graph = plan(
        "scan", "draft", gate("review", refusals, "draft", **more), "publish",
        edges=("scan>draft", "draft>review", "review>publish"),
    )  # fmt: skip
    run = Small(graph)
    run.finish("scan")
    run.finish("draft", value=b'"first"')
    return run


def test_a_refusal_copies_the_loop_and_vetoes_nothing() -> None:
    """S31 with refusals, kernel 5, engine 16 and 19: draft@2 and review@2; publish waits for review@2."""
    run = reviewed()
    run.verdict("review", "REJECT")
    assert run.kinds()[-5:] == ["GateRefused", "RoundEnded", "RoundStarted", "NodeReady", "NodeStarted"]
    assert run.statuses() == {
        "scan": "completed", "draft": "completed", "review": "completed", "publish": "waiting",
        "draft@2": "running", "review@2": "waiting",
    }  # fmt: skip
    assert run.state.nodes["review"].judgement == "refused"
    assert [link.source for link in run.state.nodes["publish"].ins] == ["review@2"]
    assert [link.reads_as for link in run.state.nodes["publish"].ins] == ["review"]
    assert [(link.source, link.reads_as) for link in run.state.nodes["review@2"].ins] == [
        ("draft@2", "draft")
    ]
    assert [link.source for link in run.state.nodes["draft@2"].ins] == ["scan"]
    assert run.state.spawns == 0


def test_a_second_verdict_opens_or_exhausts() -> None:
    """Both arms of the last round: APPROVE completes, REJECT vetoes and ends refusals_exhausted."""
    run = reviewed()
    run.verdict("review", "REJECT")
    run.finish("draft@2")
    run.verdict("review@2", "APPROVE")
    run.finish("publish")
    assert run.state.ended == "completed"
    run = reviewed()
    run.verdict("review", "REJECT")
    run.finish("draft@2")
    run.verdict("review@2", "REJECT")
    assert run.status("publish") is Status.VETOED
    assert (run.state.ended, run.state.detail) == (
        "refusals_exhausted",
        "review@2 gave up after 1 refusal",
    )
    assert run.facts_of(f.GateRejected)[0].cause == "refusals_exhausted"
    assert check_facts(run.records) == []


def test_budget_of_two_gives_two_reworks() -> None:
    """A critic that always rejects: exactly as many rounds as the budget, whatever happens."""
    run = reviewed(2)
    for number in ("", "@2", "@3"):
        if number:
            run.finish(f"draft{number}")
        run.verdict(f"review{number}", "REJECT")
    assert [name for name in run.statuses() if name.startswith("draft")] == ["draft", "draft@2", "draft@3"]
    assert run.state.ended == "refusals_exhausted"
    assert [one.moved for one in run.state.rounds] == [None, False, False]


def test_the_round_is_recorded() -> None:
    """kernel 5, round record: verdict, whether it moved, tokens, time, nodes, continued or fresh."""
    run = reviewed()
    usage = c.Usage(1, 7, 3, 0.5)
    emission = c.EmissionIn("Verdict", 1, "result")
    payload = msgspec.json.encode({"verdict": "REJECT", "rationale": "thin"})
    run.finish("review", emissions=(emission,), values=(payload,), usage=usage)
    run.finish("draft@2")
    run.verdict("review@2", "APPROVE")
    first, second = run.state.rounds
    assert (first.number, first.judgement, first.verdict, first.moved) == (1, "refused", "REJECT", None)
    assert (first.nodes, first.tokens, first.cost_usd, first.rationale) == (2, 10, 0.5, "thin")
    assert first.duration > 0
    assert (second.number, second.judgement, second.verdict, second.moved) == (2, "approved", "APPROVE", True)
    assert (second.refusals, second.allowed) == (1, 1)


def test_what_grew_in_the_old_round_is_not_carried_over() -> None:
    """engine 19: planned nodes only: a child that joined the gate does not join the next."""
    run = Small(
        plan("draft", gate("review", 1, "draft"), "publish", edges=("draft>review", "review>publish"))
    )
    receipt = run.emit("draft", "SpawnRequest", instruction="look", before=["review", "publish"])
    run.finish("draft")
    run.finish(receipt.node or "")
    run.verdict("review", "REJECT")
    assert [link.source for link in run.state.nodes["review@2"].ins] == ["draft@2"]
    assert [link.source for link in run.state.nodes["publish"].ins] == ["review@2"]
    again = run.emit("draft@2", "SpawnRequest", instruction="look", before=["review"])
    assert again.node == "draft@2.worker-1"
    assert "draft@2.worker-1" in [link.source for link in run.state.nodes["review@2"].ins]


def test_a_child_that_waits_for_the_gate_waits_for_the_next_round() -> None:
    """Laws 3 and 6: what depends on a gate that refused runs only when the new round's gate opens."""
    run = Small(plan("draft", gate("review", 1, "draft"), edges=("draft>review",)))
    receipt = run.emit("draft", "SpawnRequest", instruction="later", after=["review"])
    child = receipt.node or ""
    run.finish("draft")
    run.verdict("review", "REJECT")
    assert [link.source for link in run.state.nodes[child].ins] == ["draft", "review@2"]
    run.finish("draft@2")
    assert run.status(child) is Status.WAITING
    run.verdict("review@2", "APPROVE")
    run.finish(child)
    assert run.state.ended == "completed"


def test_an_escalated_node_is_copied_at_its_tier() -> None:
    """engine 19, 20: a copy has the tier that last completed; a gate's child is the gate."""
    run = Small(
        plan("draft", gate("review", 1, "draft"), "publish", edges=("draft>review", "review>publish"))
    )
    run.emit("draft", "EscalationRequest", reason="hard", urgency="blocked", route=None, context={})
    run.finish("draft")
    run.finish("draft+1")
    run.emit("review", "EscalationRequest", reason="hard", urgency="blocked", route=None, context={})
    run.finish("review")
    run.verdict("review+1", "REJECT")
    copy = run.state.nodes["draft@2"]
    assert (copy.op.role, copy.rungs, copy.previous, copy.op.instruction) == ("senior", 1, "draft+1", "")
    assert run.state.nodes["review@2"].refused == 1
    assert [link.source for link in run.state.nodes["publish"].ins] == ["review@2"]
    run.finish("draft@2")
    run.verdict("review@2", "REJECT")
    assert run.state.ended == "refusals_exhausted"


def test_a_gate_inside_the_loop_of_another_has_its_refusals_anew() -> None:
    """Nested loops: a new outer round gives the inner gate its whole budget again."""
    graph = plan(
        "a", gate("inner", 1, "a"), "b", gate("outer", 1, "a"), edges=("a>inner", "inner>b", "b>outer")
    )
    run = Small(graph)
    run.finish("a")
    run.verdict("inner", "REJECT")
    run.finish("a@2")
    run.verdict("inner@2", "APPROVE")
    run.finish("b")
    run.verdict("outer", "REJECT")
    assert [name for name, node in run.state.nodes.items() if node.status is Status.RUNNING] == ["a@3"]
    assert (run.state.nodes["inner@3"].refused, run.state.nodes["outer@2"].refused) == (0, 1)
    run.finish("a@3")
    run.verdict("inner@3", "REJECT")
    run.finish("a@4")
    run.verdict("inner@4", "APPROVE")
    run.finish("b@2")
    run.verdict("outer@2", "APPROVE")
    assert run.state.ended == "completed"
    assert [(one.gate, one.number, one.judgement) for one in run.state.rounds] == [
        ("inner", 1, "refused"), ("inner", 2, "approved"), ("outer", 1, "refused"), ("outer", 2, "approved"),
        ("inner", 3, "refused"), ("inner", 4, "approved"),
    ]  # fmt: skip


def test_a_person_refuses_as_the_gate_would() -> None:
    """kernel 5: the REJECT of an undecided gate by a person sends the work back as well."""
    run = reviewed()
    run.finish("review")
    assert run.state.suspended == "gate_undecided"
    answer = msgspec.Raw(msgspec.json.encode(c.Answer("review", None, 0, "ann", "too thin")))
    run.tell(c.Resume("12:00", 2, controls=(c.ControlIn(1, answer),)), b'"REJECT"')
    assert run.status("draft@2") is Status.RUNNING
    assert (run.state.nodes["review"].decided_by, run.state.nodes["review"].because) == ("ann", "too thin")


@pytest.mark.parametrize(("policy", "judgement"), [("reject", "refused"), ("pass", "approved")])
def test_undecided_by_policy(policy: str, judgement: str) -> None:
    """kernel 5: ``on_undecided: reject`` counts as REJECT, and has its refusals."""
    run = reviewed(on_undecided=policy)
    run.finish("review", "failed")
    assert run.state.nodes["review"].judgement == judgement


def test_a_failure_of_a_round_that_is_over_is_nobodys() -> None:
    """Results take the latest round only: draft failed in round 1, draft@2 completed."""
    graph = plan(
        "draft", "notes", gate("review", 1, "draft"), edges=("draft>review", "notes>review"),
    )  # fmt: skip
    links = (Edge(source="draft", target="review", accept=("completed",)), edge("notes>review"))
    graph = msgspec.structs.replace(graph, edges=links)
    run = Small(graph)
    run.finish("draft", "failed")
    run.finish("notes")
    run.verdict("review", "REJECT")
    run.finish("draft@2")
    run.verdict("review@2", "APPROVE")
    assert run.state.ended == "completed"


def test_a_known_gate_keeps_its_verdict() -> None:
    """S48: a gate that is known to reject vetoes; nothing is sent back."""
    graph = plan("draft", gate("review", 3), "publish", edges=("draft>review", "review>publish"))
    run = Small(graph, b"1", known=(c.Known("review", "completed", 0, gate_verdict="reject"),))
    run.finish("draft")
    assert run.state.ended == "gate_rejected"


def test_context_takes_the_latest_round() -> None:
    """kernel 5: folds take a node's latest round only, whether it writes the key again or not."""
    graph = plan(
        "draft", gate("review", 2, "draft"), "log", edges=("draft>review", "draft>log"),
        reducers={"notes": "extend"},
    )  # fmt: skip
    run = Small(graph)
    write = c.WriteIn("notes", 1, ("",), False)
    other = c.WriteIn("title", 1, ("",), False)
    run.finish("draft", writes=(write, other), values=(b'["one"]',))
    run.finish("log", writes=(other,), values=(b'"of log"',))
    run.verdict("review", "REJECT")
    run.finish("draft@2", writes=(write, other), values=(b'["two"]',))
    run.verdict("review@2", "REJECT")
    run.finish("draft@3", writes=(other,), values=(b'["three"]',))
    run.verdict("review@3", "APPROVE")
    view = view_at_end(run.state)
    assert view.get("notes") in (("draft@3",), None)
    assert fold(run.state, "notes", view.get("notes", ())) == []
    assert fold(run.state, "title", view["title"]) == "of log"
    assert run.state.ended == "completed"


@pytest.mark.parametrize(
    ("back_to", "edges", "loop"),
    [
        ("a", ("a>b", "b>g", "x>b"), ("a", "b", "g")),
        (None, ("a>b", "b>g", "x>g"), ("x", "b", "g")),
        ("a", ("a>b", "b>g", "a>x", "x>g"), ("a", "b", "x", "g")),
        ("x", ("a>b", "b>g"), ()),
        (None, ("a>b",), ()),
    ],
)
def test_the_loop_of_a_gate(back_to: str | None, edges: tuple[str, ...], loop: tuple[str, ...]) -> None:
    """Every planned node on a path from back_to, or from what the gate judges, to the gate."""
    graph = plan("x", "a", "b", gate("g", 1, back_to), edges=edges)
    assert set(loops_of(graph.operations, graph.edges)["g"]) == set(loop)


def test_a_new_node_cannot_wait_for_a_gate_that_refused() -> None:
    """Nobody waits for an old round: its name means the new one, and said in full it is refused."""
    graph = plan(
        "scan", "draft", gate("review", 1, "draft"), "publish",
        edges=("scan>draft", "draft>review", "review>publish"), budget=Budget(spawns=5),
    )  # fmt: skip
    run = Small(graph)
    run.finish("scan")
    run.finish("draft")
    run.verdict("review", "REJECT")
    refused = run.emit("draft@2", "SpawnRequest", instruction="x", after=("review@1",))
    assert isinstance(refused, Refused)
    assert refused.reason == "vetoed"
    taken = run.emit("draft@2", "SpawnRequest", instruction="y", after=("scan",), before=("publish",))
    assert taken
    assert [link.source for link in run.state.nodes["publish"].ins] == ["review@2", "draft@2.worker-1"]


@pytest.mark.parametrize(("verdict", "status"), [("REJECT", "vetoed"), ("APPROVE", "running")])
def test_who_is_ready_below_a_gate_that_has_not_judged(verdict: str, status: str) -> None:
    """Law 6: a node between was cancelled, so its follower is ready; a rejection still stops it."""
    graph = plan(
        gate("check", 0), "middle", "other", "last", edges=("check>middle", "middle>last", "other>last")
    )
    run = Small(graph)
    run.tell(c.Cancel("middle", "not this"))
    run.tell(c.Pause())
    run.finish("other")
    assert run.status("last") is Status.READY
    run.verdict("check", verdict)
    run.tell(c.Unpause())
    assert run.status("last") == status
    assert check_facts(run.records) == []
