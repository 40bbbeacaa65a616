"""``for_each`` in the core: random fans against a model of a few lines, every law after every command."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emissions import Accepted, Refused
from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.laws import check_facts
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record
from orchestrator.core.spec import Budget, Edge, ForEach, Operation, Retry
from orchestrator.core.status import TERMINAL, Status
from tests.core.small import Small, plan
from tests.flows.counting import calls

OVER = "a.files"
LEFT = ("failed", "cancelled")


def fan(count, *, skip=False, most=100, attempts=1, accept=("completed",), **options):
    """a -> fan -> z; the list has ``count`` elements, and ``a`` has given it."""
    each = ForEach(over=OVER, max=most, skip=skip)
    node = Operation(name="fan", role="worker", for_each=each, retry=Retry(attempts=attempts), needs="all")
    edges = ["a>fan", Edge(source="fan", target="z", accept=accept)]
    run = Small(plan("a", node, Operation(name="z", role="worker", needs="all"), edges=edges, **options))
    run.finish("a", value=json.dumps({"files": list(range(count))}).encode())
    return run


@dataclass
class Model:
    """What a fan comes to, by what became of each instance."""

    skip: bool
    values: dict[int, object] = field(default_factory=dict)
    ends: dict[int, str] = field(default_factory=dict)

    @property
    def left_out(self) -> list[int]:
        return [index for index in sorted(self.ends) if self.ends[index] in LEFT]

    @property
    def status(self) -> str:
        return "failed" if self.left_out and not self.skip else "completed"

    @property
    def value(self) -> list[object]:
        return [self.values[index] for index in sorted(self.values)]


OUTCOMES = st.sampled_from(["completed", "failed", "not_applicable", "cancelled", "escalated", "given back"])


@given(
    outcomes=st.lists(OUTCOMES, max_size=7),
    skip=st.booleans(),
    attempts=st.integers(1, 3),
    slots=st.integers(1, 4),
    data=st.data(),
)
def test_any_fan_comes_to_what_the_model_says(outcomes, skip, attempts, slots, data):
    """Whatever becomes of the instances, in whichever order: one list in list order, or one error."""
    run = fan(len(outcomes), skip=skip, attempts=attempts, budget=Budget(concurrency=slots))
    model, nodes = Model(skip), run.state.nodes
    while any(node.status is Status.RUNNING and node.op.instance for node in nodes.values()):
        names = [n for n, node in nodes.items() if node.status is Status.RUNNING and node.op.instance]
        name = data.draw(st.sampled_from(names))
        index = nodes[name].op.instance.index
        wanted = outcomes[index - 1]
        assert nodes["fan"].status is Status.WAITING
        if wanted == "escalated" and "+" not in name:
            assert run.emit(name, "EscalationRequest", reason="too hard")
            run.finish(name)
            assert nodes[name].status is Status.ESCALATED
        elif wanted == "cancelled":
            run.tell(c.Cancel(name))
            run.stopped(name)
            model.ends[index] = "cancelled"
        elif wanted in ("failed", "not_applicable"):
            run.finish(name, wanted)
            if nodes[name].status in TERMINAL:
                model.ends[index] = str(nodes[name].status)
        else:
            run.finish(name, value=json.dumps([index, name]).encode())
            model.values[index], model.ends[index] = [index, name], "completed"
    node = nodes["fan"]
    assert node.status == model.status
    assert node.left_out == len(model.left_out)
    if model.status == "completed":
        assert json.loads(node.value or b"null") == model.value
        assert nodes["z"].status is Status.RUNNING
        run.finish("z")
        assert run.state.ended == "completed"
    else:
        assert nodes["z"].status is Status.SKIPPED
        assert f"{len(model.left_out)} of {len(outcomes)} instances failed" in node.error.message
        assert run.state.ended == "failed"
    assert [
        one.op.instance.index for one in nodes.values() if one.op.instance and "+" not in one.name
    ] == list(range(1, len(outcomes) + 1))
    assert run.state.spawns == 0
    assert check_facts(run.records) == []
    run.decided_again()


@given(count=st.integers(0, 6), done=st.integers(0, 6), how=st.sampled_from(["node", "run", "drain"]))
def test_a_fan_that_is_stopped(count, done, how):
    """Cancelling the node or the run cancels what is left of its instances; nothing is live after the end."""
    run = fan(count, budget=Budget(concurrency=3))
    for _ in range(done):
        names = [n for n, node in run.state.nodes.items() if node.status is Status.RUNNING and n != "z"]
        if names:
            run.finish(names[0])
    if run.state.nodes["fan"].status in TERMINAL:
        return
    if how == "drain":
        run.tell(c.Drain())
    else:
        run.tell(c.Cancel("fan" if how == "node" else None))
    for name in [n for n, node in run.state.nodes.items() if node.status is Status.STOPPING]:
        run.stopped(name)
    for name in [n for n, node in run.state.nodes.items() if node.status is Status.RUNNING]:
        run.finish(name)
    if how == "drain":
        assert run.state.suspended == "drained" or run.state.nodes["fan"].status is Status.COMPLETED
    else:
        assert run.statuses()["fan"] == "cancelled"
        assert run.statuses()["z"] in ("skipped", "cancelled")
        assert run.state.live == 0
    assert check_facts(run.records) == []
    run.decided_again()


def test_two_fans_that_settle_in_one_decision():
    """Values that a decision makes stand in the record once and are found again when it is decided again."""
    each = ForEach(over="[]", max=1)
    one, two = (Operation(name=name, role="worker", for_each=each) for name in ("one", "two"))
    run = Small(plan(one, two))
    assert run.state.ended == "completed"
    assert [node.value for node in run.state.nodes.values()] == [b"[]", b"[]"]
    assert run.records[-1].values == [msgspec.Raw(b"[]")]
    run.decided_again()


def test_a_steer_for_the_node_reaches_the_next_instance():
    """S52: the node itself is never invoked; the note goes to the first of its instances that is."""
    run = fan(2, budget=Budget(concurrency=1))
    (receipt,) = run.tell(c.Steer("look twice", "now", "fan")).receipts
    assert receipt == Accepted("fan", 1)
    run.tell(c.TakeSteers("fan.1", 1))
    assert run.state.steers[0].delivered_to == "fan.1"


@pytest.mark.parametrize("opened", [False, True])
def test_a_veto_of_a_handler_comes_in_time_or_too_late(opened):
    """A node whose instances exist has begun, although it makes no attempt."""
    run = (
        fan(2)
        if opened
        else Small(
            plan(
                "a", Operation(name="fan", role="worker", for_each=ForEach(over=OVER, max=9)), edges=["a>fan"]
            )
        )
    )
    veto = c.Proposal("veto", node="fan", reason="no", emission=0)
    emission = c.EmissionIn("Finding", 0)
    name = "fan.1" if opened else "a"
    run.tell(c.Emit(name, 1, emission, (veto,)), b'{"description":"x"}')
    if opened:
        (refused,) = run.facts_of(f.ChangeRefused)
        assert refused.reason == "too_late"
    else:
        assert run.statuses()["fan"] == "vetoed"


def test_a_known_list_needs_no_instances():
    """S48: a node that is given its value is settled; nothing is added."""
    node = Operation(name="fan", role="worker", for_each=ForEach(over=OVER, max=9))
    run = Small(plan("a", node, edges=["a>fan"]), b"[1]", known=(c.Known("fan", "completed", 0),))
    run.finish("a", value=b'{"files":[1,2]}')
    assert run.state.ended == "completed"
    assert not run.facts_of(f.InstancesAdded)


def test_a_join_before_the_node_is_waited_for():
    """kernel.md 3: a node joined before a fan delivers to its instances, too late once they exist."""
    run = fan(1)
    asked = c.Proposal("inject", assignee="worker", before=("fan.1",))
    (receipt,) = run.tell(c.Inject(asked)).receipts
    assert isinstance(receipt, Refused)
    assert receipt.reason == "too_late"


def test_the_cost_is_linear_in_the_instances():
    """Twice as many instances make at most 2.2 times as many calls, whatever machine it is."""

    def work(count):
        machine = GraphMachine()
        node = Operation(name="fan", role="worker", for_each=ForEach(over=OVER, max=100_000))
        graph = plan("a", node, "z", edges=["a>fan", "fan>z"], budget=Budget(concurrency=None))
        machine.handle(c.Start("r", graph), 1)
        machine.handle(c.Finish("a", 1, value=0), 1, (json.dumps({"files": list(range(count))}).encode(),))
        for index in range(1, count + 1):
            machine.handle(c.Finish(f"fan.{index}", 1, value=0), 1, (b"1",))
        assert machine.state.nodes["z"].status is Status.RUNNING

    assert calls(lambda: work(400)) < 2.2 * calls(lambda: work(200))


def test_a_record_carries_its_list_once():
    """The list that a decision makes is in the record that decided it."""
    run = fan(2)
    run.finish("fan.1", value=b'"x"')
    run.finish("fan.2", value=b'"y"')
    record: Record = run.records[-1]
    (fact,) = [fact for fact in record.facts if isinstance(fact, f.NodeCompleted) and fact.node == "fan"]
    assert bytes(record.values[fact.value]) == b'["x","y"]'
