"""Refused growth leaves no trace but its refusal: the whole state before and after, reason by reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from emissions import Accepted, Refused
from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.spec import Budget, Gate, Operation, Retry, RoleSpec
from tests.core.plainly import plainly
from tests.core.small import ROLES, Small, plan

TWICE = Retry(attempts=2)
LIMITED = Budget(spawns=3, depth=1, assignees=("worker",))


def run_with(**options: Any) -> Small:
    """`a` runs; `b` waits for it; `c` waits for `b`; `done` completed, `lost` failed, `gate` rejected."""
    operations = (
        "a", "b", "c", "done", "lost", Operation(name="gate", role="worker", gate=Gate()), "below",
    )  # fmt: skip
    edges = ("a>b", "b>c", "gate>below")
    options.setdefault("budget", Budget(spawns=3, depth=1))
    run = Small(plan(*operations, edges=edges, **options))
    run.finish("done")
    run.finish("lost", "failed")
    run.verdict("gate", "REJECT")
    return run


#: reason -> (options of the run, fields of the request)
REFUSALS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("max_spawn_exceeded", {"budget": Budget(spawns=1)}, {"prepare": 1}),
    ("unknown_assignee", {}, {"assignee": "nobody"}),
    ("assignee_not_allowed", {"budget": LIMITED}, {"assignee": "senior"}),
    ("verb_not_allowed", {}, {"operation": "ReAct"}),
    ("unknown_node", {}, {"after": ["nowhere"]}),
    ("unknown_node", {}, {"before": ["nowhere"]}),
    ("too_late", {}, {"before": ["done"]}),
    ("need_failed", {}, {"after": ["lost"]}),
    ("vetoed", {}, {"after": ["gate"]}),
    ("vetoed", {}, {"after": ["below"]}),
    ("cycle", {}, {"before": ["a"]}),
    ("cycle", {}, {"before": ["b"], "after": ["b"]}),
    ("cycle", {}, {"before": ["b"], "after": ["c"]}),
]


@pytest.mark.parametrize(("reason", "options", "fields"), REFUSALS)
def test_spawn_refused(reason: str, options: dict[str, Any], fields: dict[str, Any]):
    """bad-inputs 17, 18: one recorded refusal and no other difference; the next request is considered."""
    run = run_with(**options)
    fields = dict(fields)
    for number in range(fields.pop("prepare", 0)):
        assert run.emit("a", "SpawnRequest", instruction=f"before {number}")
    before = plainly(run.state)
    receipt = run.emit("a", "SpawnRequest", instruction="x", **fields)
    assert isinstance(receipt, Refused)
    assert receipt.reason == reason
    assert receipt.detail
    assert run.kinds() == ["SpawnRefused"]
    assert run.state.refused[-1][:3] == ("a", reason, receipt.detail)
    assert changed(before, run) == {"facts", "refused"}
    if reason != "max_spawn_exceeded":
        good = run.emit("a", "SpawnRequest", instruction="a good one", assignee="worker")
        assert isinstance(good, Accepted)
        assert good.node == "a.worker-1"


def changed(before: dict[str, Any], run: Small) -> set[str]:
    after = plainly(run.state)
    return {name for name in before if before[name] != after[name]}


def not_granted(run: Small) -> Any:
    return run.emit("a", "Gap", area="x", what_is_unknown="y")


def boundary(reason: str) -> Callable[[Small], Any]:
    def say(run: Small) -> Any:
        emission = c.EmissionIn("Finding", reason=reason, detail="where and what")
        return run.tell(c.Emit("a", 1, emission)).receipts[0]

    return say


def stale(run: Small) -> Any:
    return run.tell(c.Emit("a", 7, c.EmissionIn("Finding", 0)), b'{"description":"x"}').receipts[0]


def handler_error(run: Small) -> Any:
    command = c.Emit("a", 1, c.EmissionIn("Finding", 0), failed="ValueError: no")
    return run.tell(command, b'{"description":"x"}').receipts[0]


def no_higher_tier(run: Small) -> Any:
    return run.emit("a", "EscalationRequest", reason="too hard")


SAID: list[tuple[str, Callable[[Small], Any]]] = [
    ("not_granted", not_granted),
    ("too_deep", boundary("too_deep")),
    ("forged", boundary("forged")),
    ("invalid", boundary("invalid")),
    ("not_running", stale),
    ("handler_error", handler_error),
    ("no_higher_tier", no_higher_tier),
]


@pytest.mark.parametrize(("reason", "say"), SAID)
def test_emission_refused(reason: str, say: Callable[[Small], Any]):
    """Law 8: each refusal is answered and on record; no state changes but the number of facts."""
    roles = (RoleSpec(name="worker", emits=("Verdict", "Finding")), ROLES[1])
    run = run_with(roles=roles)
    before = plainly(run.state)
    receipt = say(run)
    assert receipt.reason == reason
    assert run.kinds() == ["EmissionRefused"]
    assert changed(before, run) == {"facts"}


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("exists", {"node": "b"}),
        ("invalid", {"node": "not a name"}),
        ("unknown_assignee", {"assignee": "nobody"}),
        ("unknown_node", {"after": ("nowhere",)}),
        ("too_late", {"before": ("a",)}),
        ("need_failed", {"after": ("lost",)}),
        ("vetoed", {"after": ("gate",)}),
    ],
)
def test_injection_refused(reason: str, fields: dict[str, Any]):
    """S9: what comes from outside is judged alike."""
    run = run_with()
    before = plainly(run.state)
    proposal = c.Proposal("inject", **{"assignee": "worker", **fields})
    (receipt,) = run.tell(c.Inject(proposal)).receipts
    assert isinstance(receipt, Refused)
    assert receipt.reason == reason
    assert run.kinds() == ["SpawnRefused"]
    assert changed(before, run) == {"facts", "refused", "refused_outside"}


def test_assignments_are_spawns_that_name_their_node():
    """A TaskAssignment of a running node: its name is checked like a planned one's."""
    run = run_with()
    task = {"task": "look", "assignee": "worker"}
    assert isinstance(run.emit("a", "TaskAssignment", name="look", **task), Accepted)
    assert run.state.nodes["look"].parent == "a"
    before = plainly(run.state)
    for name, reason in (("look", "exists"), ("class", "invalid"), ("two words", "invalid")):
        receipt = run.emit("a", "TaskAssignment", name=name, assignee="worker", task=f"{name} again")
        assert isinstance(receipt, Refused)
        assert receipt.reason == reason
    assert changed(before, run) == {"facts", "refused"}


def test_one_channel_twice_and_two_channels():
    """engine.md 13: equal over another channel is the same; twice over one channel is two."""
    run = run_with()
    first = run.emit("a", "SpawnRequest", instruction="x")
    assert run.emit("a", "SpawnRequest", "result", instruction="x") == first
    second = run.emit("a", "SpawnRequest", instruction="x")
    assert isinstance(second, Accepted)
    assert second.node == "a.worker-2"
    assert run.emit("a", "SpawnRequest", "result", instruction="x") == second
    assert len(run.facts_of(f.NodeSpawned)) == 2


def test_a_key_stands_for_itself_over_attempts():
    """S12: the same key in a later attempt is the node that the first attempt got; not a second one."""
    run = Small(plan(Operation(name="a", role="worker", retry=TWICE)))
    first = run.emit("a", "SpawnRequest", instruction="x", key="file.py")
    run.finish("a", "failed")
    again = run.emit("a", "SpawnRequest", instruction="other words", key="file.py")
    assert again == first
    assert run.state.spawns == 1
    assert isinstance(run.emit("a", "SpawnRequest", instruction="x", key="file.py"), Refused | Accepted)
    assert run.state.spawns == 1


def test_a_million_refusals_cost_a_count():
    """engine.md 22: a hundred of a kind are facts, the rest a number in the settling decision."""
    run = Small(plan("a", budget=Budget(spawns=0)))
    for number in range(250):
        assert not run.emit("a", "SpawnRequest", instruction=str(number))
    assert len(run.facts_of(f.SpawnRefused)) == 100
    run.finish("a")
    assert run.facts_of(f.Refusals) == [f.Refusals("a", {"not_granted": 150})]
    assert run.state.counted_refusals == {("a", "not_granted"): 150}


def test_a_million_refusals_of_somebody_outside_cost_a_count():
    """engine.md 22: who injects from outside is an emitter like others; each stop records the number."""
    run = Small(plan("a", budget=Budget(spawns=0)))
    for number in range(250):
        key = f"key {number}"
        assert not run.tell(c.Inject(c.Proposal("inject", assignee="worker", key=key))).receipts[0]
    assert len(run.facts_of(f.SpawnRefused)) == 100
    run.tell(c.Drain())
    run.finish("a")
    assert run.facts_of(f.Refusals) == [f.Refusals(None, {"max_spawn_exceeded": 150})]
    assert run.state.counted_refusals == {(None, "max_spawn_exceeded"): 150}


def test_what_was_refused_outside_is_counted_on_after_a_suspension():
    """engine.md 22: a restart does not begin to record anew, and adds to the number."""
    gate = Operation(name="a", role="worker", gate=Gate())
    run = Small(plan(gate, "b", edges=["a>b"], budget=Budget(spawns=0)))
    refused = c.Inject(c.Proposal("inject", assignee="worker"))
    for _ in range(101):
        run.tell(refused)
    run.finish("a")
    assert run.state.suspended == "gate_undecided"
    answer = msgspec.json.encode(c.Answer("a", None, 0))
    run.tell(c.Resume(epoch=2, controls=(c.ControlIn(1, msgspec.Raw(answer)),)), b'"APPROVE"')
    for _ in range(3):
        run.tell(refused)
    run.finish("b")
    assert len(run.facts_of(f.SpawnRefused)) == 100
    assert run.state.counted_refusals == {(None, "max_spawn_exceeded"): 4}


def test_the_last_escalation_is_promised_once():
    """Law 4: two nodes that ask at once, one escalation left: one is accepted, and both settle."""
    run = Small(plan("a", "b", budget=Budget(escalations=1)))
    assert isinstance(run.emit("a", "EscalationRequest", reason="x"), Accepted)
    refused = run.emit("b", "EscalationRequest", reason="y")
    assert isinstance(refused, Refused)
    assert refused.reason == "escalation_exhausted"
    run.finish("b", only_escalation=True)
    run.finish("a")
    run.finish("a+1")
    assert run.statuses() == {"a": "escalated", "b": "failed", "a+1": "completed"}


def test_an_escalation_that_failed_with_its_attempt_is_free_again():
    """A request counts for its attempt only; the budget has it back."""
    operation = Operation(name="a", role="worker", retry=TWICE)
    run = Small(plan(operation, "b", budget=Budget(escalations=1)))
    assert run.emit("a", "EscalationRequest", reason="x")
    assert not run.emit("b", "EscalationRequest", reason="y")
    run.finish("a", "failed")
    assert run.state.escalating == 0
    assert run.emit("b", "EscalationRequest", reason="y again")
    assert not run.emit("a", "EscalationRequest", reason="x")
