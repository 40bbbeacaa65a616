"""The checker itself: it is silent on lawful runs and names what is broken in every broken one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core import laws
from orchestrator.core.node_laws import at_rest
from orchestrator.core.records import Record
from orchestrator.core.spec import Budget, Edge, Gate, Operation
from orchestrator.core.state import EdgeState, NodeState, RunState
from orchestrator.core.status import Status
from tests.core.small import Small, plan

S = Status


def busy() -> RunState:
    """`a` completed, `b` runs, `c` is ready, `d` waits; `gate` rejected above `low`; `e` escalated."""
    gate = Operation(name="gate", role="worker", gate=Gate())
    run = Small(
        plan("a", gate, "low", "e", "b", "c", "d", edges=["gate>low", "b>d"], budget=Budget(concurrency=2))
    )
    run.finish("a")
    run.verdict("gate", "REJECT")
    assert run.emit("e", "EscalationRequest", reason="x")
    assert run.emit("b", "SpawnRequest", instruction="look", independent=True)
    run.finish("e")
    return run.state


def test_a_lawful_state_breaks_nothing():
    """Empty, begun, busy: no breach."""
    assert laws.check(RunState()) == []
    state = busy()
    assert laws.check(state) == []
    statuses = {name: node.status.value for name, node in state.nodes.items()}
    assert statuses == {
        "a": "completed", "gate": "completed", "low": "vetoed", "e": "escalated", "b": "running",
        "c": "running", "d": "waiting", "b.worker-1": "ready", "e+1": "ready",
    }  # fmt: skip


def node_field(name: str, field: str, value: object) -> Callable[[RunState], None]:
    return lambda state: setattr(state.nodes[name], field, value)


def run_field(field: str, value: object) -> Callable[[RunState], None]:
    return lambda state: setattr(state, field, value)


def stray_edge(state: RunState) -> None:
    edge = Edge(source="a", target="d")
    state.nodes["a"].outs = (*state.nodes["a"].outs, EdgeState("a", "d", edge))


def half_edge(state: RunState) -> None:
    edge = Edge(source="a", target="d")
    state.nodes["d"].ins = (*state.nodes["d"].ins, EdgeState("a", "d", edge))


def moved_edge(state: RunState) -> None:
    state.nodes["b"].outs[0].source = "a"


def cycle(state: RunState) -> None:
    link = EdgeState("d", "b", Edge(source="d", target="b"))
    state.nodes["d"].outs, state.nodes["b"].ins = (link,), (link,)


def renamed(state: RunState) -> None:
    node = state.nodes["c"]
    node.op = msgspec.structs.replace(node.op, name="z")


def below_the_gate_runs(state: RunState) -> None:
    node = state.nodes["low"]
    node.status, node.vetoed_by, node.attempt, node.settled_at = S.RUNNING, (), 1, 0


def forgotten(state: RunState) -> None:
    state.parked.clear()


def a_free_slot(state: RunState) -> None:
    state.budget = msgspec.structs.replace(state.budget, concurrency=9)


#: what is broken, and words of the breach that must be told
BROKEN: list[tuple[Callable[[RunState], None], str]] = [
    (run_field("live", 4), "counter live is 4, a recount gives 5"),
    (run_field("running", 1), "counter running"),
    (run_field("slots", 1), "counter slots"),
    (run_field("backing_off", 1), "counter backing_off"),
    (run_field("asking", 1), "counter asking"),
    (run_field("undecided", 1), "counter undecided"),
    (run_field("failed_unhandled", 1), "counter failed_unhandled"),
    (run_field("spawns", 0), "counter spawns"),
    (run_field("escalations", 0), "counter escalations"),
    (run_field("escalating", 1), "counter escalating"),
    (run_field("injected", 1), "counter injected"),
    (run_field("waiting_steers", 1), "counter waiting_steers"),
    (run_field("tokens", 9), "counter tokens"),
    (run_field("ready", {}), "ready holds [], by status it is"),
    (run_field("rejected", []), "rejected holds []"),
    (run_field("used", {"name:db": 1}), "used is"),
    (run_field("written", {"k": None}), "written is"),
    (run_field("budget", Budget(spawns=0)), "cap: 1 spawns, at most 0"),
    (run_field("budget", Budget(escalations=0)), "cap: 1 escalations, at most 0"),
    (run_field("budget", Budget(concurrency=1)), "cap: 2 slots, at most 1"),
    (run_field("budget", Budget(depth=0)), "b.worker-1: it is 1 generations down, at most 0"),
    (run_field("ended", "completed"), "the run ended with 5 nodes unsettled"),
    (run_field("ended", "drained"), "drained is no reason to end"),
    (run_field("suspended", "completed"), "completed is no reason to suspend"),
    (run_field("suspended", "drained"), "suspended while 2 nodes run"),
    (forgotten, "is ready and waits in no queue"),
    (a_free_slot, "is ready, 7 slots are free and nothing holds it"),
    (stray_edge, "edge a -> d is unknown to its target"),
    (half_edge, "edge a -> d is unknown to its source"),
    (moved_edge, "stands among the outs of b"),
    (cycle, "acyclic: "),
    (renamed, "the node under 'c' calls itself 'z'"),
    (below_the_gate_runs, "gate: low depends on it and is running at attempt 1"),
    (node_field("d", "pending", 0), "d: it waits and nothing is owed to it"),
    (node_field("d", "pending", 2), "d: pending is 2, 1 predecessors have not let go"),
    (node_field("b", "released", True), "b: it has let go and is running"),
    (node_field("a", "released", False), "a: it has settled and has not let go"),
    (node_field("gate", "judgement", None), "gate: it is a gate that settled and was not judged"),
    (node_field("gate", "judgement", "undecided"), "gate: it is undecided and has let go"),
    (node_field("b", "judgement", "approved"), "b: it is approved and no gate"),
    (node_field("b", "value", b"1"), "b: it is running and has a value"),
    (node_field("a", "error", f.Failure("E")), "a: it completed with an error"),
    (node_field("a", "status", S.FAILED), "a: it failed without an error"),
    (node_field("a", "handled", True), "a: its failure is handled and it is completed"),
    (node_field("b", "status", S.STOPPING), "b: it is stopping and settles as ''"),
    (node_field("b", "attempt", 2), "b: attempt 2 with 0 given back, at most 1"),
    (node_field("b", "attempt", 0), "b: it is running before its first attempt"),
    (node_field("d", "attempt", 1), "d: it waits at attempt 1"),
    (node_field("a", "holds", ("name:db",)), "a: it has settled and holds"),
    (node_field("e+1", "holds", ("name:db",)), "e+1: it is ready and holds"),
    (node_field("b", "emitted", 3), "b: 3 emissions were accepted, 1 are in the ledger"),
    (node_field("b", "children", 2), "b: children is 2, 1 nodes name it"),
    (node_field("low", "vetoed_by", ()), "low: it is vetoed with vetoed_by ()"),
    (node_field("b.worker-1", "parent", "nobody"), "its parent 'nobody' is no node"),
    (node_field("b.worker-1", "depth", 3), "depth 3 and origin 'b' do not follow from b"),
    (node_field("c", "depth", 1), "c: it has no parent, depth 1"),
    (node_field("e+1", "rungs", 3), "e+1: it is 3 tiers up"),
    (node_field("e", "superseded_by", None), "e: it escalated and nobody took its place"),
    (node_field("e", "superseded_by", "zzz"), "e: zzz took its place and is no node"),
    (node_field("a", "superseded_by", "b"), "a: b took its place and it is completed"),
]


@pytest.mark.parametrize(("damage", "told"), BROKEN)
def test_a_broken_state_is_told(damage: Callable[[RunState], None], told: str):
    """Every law has a state that breaks it."""
    state = busy()
    damage(state)
    assert any(told in breach for breach in laws.check(state)), laws.check(state)


ODD: tuple[object, ...] = (
    *(None, True, False, 0, -1, 1, 2, 9, 1.5, "", "x", "a", "undecided", "rejected", b"1"),
    *((), ("name:db",), (1, 1), {}, {"k": ("a",)}, [], f.Failure("E"), *S),
)


@pytest.mark.parametrize("field", [one for one in NodeState.__struct_fields__ if one not in ("ins", "outs")])
def test_what_is_at_rest_breaks_nothing_and_counts_nowhere(field: str, monkeypatch: pytest.MonkeyPatch):
    """A node that is passed by would have been found lawful, whatever stands in any field of it."""
    run = Small(plan("a", "b", edges=["a>b"]))
    run.finish("a")
    state, node = run.state, run.state.nodes["a"]
    assert at_rest(state.nodes, node)
    before, rests = getattr(node, field), 0
    # where nothing stands anything may; else what is of the same kind
    values = [value for value in ODD if before is None or type(value) is type(before)]
    for value in values:
        setattr(node, field, value)
        if not at_rest(state.nodes, node):
            continue
        rests += 1
        told = laws.check(state)
        with monkeypatch.context() as patch:
            patch.setattr(laws, "at_rest", lambda _nodes, _node: False)
            assert told == laws.check(state), (field, value)
    setattr(node, field, before)
    assert laws.check(state) == []
    assert rests < len(values) or field not in {"status", "pending", "released", "holds", "judgement"}


def test_a_run_that_hangs_is_told():
    """Law 11: nothing runs, nothing is due, and no word about it."""
    state = Small(plan("a")).state
    node = state.nodes["a"]
    node.status, node.attempt = S.ASKING, 1
    state.running, state.slots, state.asking = 0, 0, 1
    assert laws.check(state) == [
        "nothing runs, nothing is due, and the run has neither ended nor been suspended"
    ]
    state.waits_for_answers = True
    assert laws.check(state) == []


def test_the_watch_sees_what_a_command_touched():
    """Cheap in between, everything at every so many commands and at the end."""
    run = Small(plan("a", "b", "c", edges=["a>b"]))
    watch = laws.Watch(run.state, every=3)
    run.state.nodes["c"].pending = 7
    assert watch([f.NodeReady("a")]) == []
    assert watch([f.NodeReady("c")]) != []
    assert watch([f.NodePaused("a")]) == laws.check(run.state) != []
    run.state.nodes["c"].pending = 0
    assert watch([]) == []


# --- the order of facts --------------------------------------------------------------------------


def records_of(*facts: f.Fact) -> list[Record]:
    """A run whose first record begins with the graph a -> b, with gate g -> b, and these facts."""
    gate = Operation(name="g", role="worker", gate=Gate())
    graph = plan("a", "b", gate, edges=["a>b", "g>b"], budget=Budget(spawns=1, concurrency=2))
    begun = [f.RunStarted("r", "flow"), f.GraphPlanned(graph), *facts]
    return [Record(1, 1, 0, c.Start("r", graph), begun)]


STARTED = (f.NodeReady("a"), f.NodeStarted("a", 1), f.NodeReady("g"), f.NodeStarted("g", 1))
DONE = (*STARTED, f.NodeCompleted("a", 1, None), f.NodeCompleted("g", 1, None))
SPAWN = f.EmissionAccepted("a", 1, "SpawnRequest", 1, 0, child="x")
ADDED = f.NodeAdded(Operation(name="x"), (), "a", 1, 1, "a")
TOLD = f.NodeSpawned("x", "a", None, independent=True)

OUT_OF_ORDER: list[tuple[tuple[f.Fact, ...], str]] = [
    ((f.NodeStarted("a", 1),), "a starts and is not ready"),
    ((f.NodeReady("a"), f.NodeReady("a")), "a is ready a second time"),
    ((f.NodeReady("a"), f.NodeStarted("a", 2)), "a starts attempt 2 after 0"),
    ((f.NodeCompleted("a", 1),), "NodeCompleted of a, which does not run"),
    ((*DONE, f.NodeCompleted("a", 1)), "a settles as NodeCompleted and is NodeCompleted"),
    ((*DONE, f.NodeCancelled("a")), "a settles as NodeCancelled and is NodeCompleted"),
    ((*DONE, f.NodeReady("a")), "NodeReady of a, which is NodeCompleted"),
    ((f.NodeReady("nobody"),), "which is no node"),
    ((*STARTED, f.NodeStopping("a", 2, "failed")), "whose attempt 2 does not run"),
    ((*STARTED, f.NodeReady("b"), f.NodeStarted("b", 1)), "3 nodes run, at most 2"),
    ((f.GateRejected("g", "REJECT"),), "g is rejected and has not settled"),
    ((*DONE, f.GateApproved("g", None), f.GateRejected("g", None)), "g is rejected after it was approved"),
    ((*DONE, f.GateRejected("g", None), f.NodeReady("b"), f.NodeStarted("b", 1)), "b starts below a gate"),
    ((*STARTED, f.NodeVetoed("a", ("g",))), "a is vetoed and has started"),
    ((*STARTED, SPAWN), "made 'x', which was not spawned"),
    ((*STARTED, ADDED, TOLD, TOLD), "without NodeAdded"),
    ((*STARTED, ADDED), "x was added and NodeSpawned does not follow"),
    ((*STARTED, ADDED, TOLD, ADDED, TOLD), "a second node is called 'x'"),
    ((*STARTED, f.EmissionAccepted("a", 1, "Finding", 2, 0)), "a emits number 2 after 0"),
    ((f.EmissionAccepted("a", 1, "Finding", 1, 0),), "EmissionAccepted of a, whose attempt 1 does not run"),
    ((f.BudgetRaised("spawns", 1),), "budget spawns goes from 1 to 1"),
    ((f.SteerReceived(2, "x", "now"),), "steer 2 after 0"),
    ((f.SteerDelivered(1, "a", 1),), "steer 1 is given out a second time, or was never received"),
    ((f.QuestionAnswered("a", "k", 0),), "a has no open question 'k'"),
    ((f.NodeReopened("a", 2),), "a opens again and has not settled"),
    ((f.RunEnded("completed"),), "the run ended as completed with a, b, g unsettled"),
    ((*STARTED, f.RunSuspended("drained", {"a": "", "b": "", "g": ""})), "suspended while 2 nodes run"),
    ((f.RunSuspended("drained", {"a": ""}),), "suspended with waiters ['a'], unsettled are ['a', 'b', 'g']"),
    ((f.RunSuspended("x", {"a": "", "b": "", "g": ""}), f.RunPaused()), "RunPaused after RunSuspended"),
    ((f.RunStarted("r", "flow"),), "RunStarted is fact 3"),
]


@pytest.mark.parametrize(("facts", "told"), OUT_OF_ORDER)
def test_facts_out_of_order_are_told(facts: tuple[f.Fact, ...], told: str):
    """Every law over the sequence has a sequence that breaks it."""
    assert any(told in breach for breach in laws.check_facts(records_of(*facts))), told


def test_lawful_facts_break_nothing():
    """The same pieces in order."""
    facts = (*STARTED, ADDED, TOLD, SPAWN, *DONE[4:], f.GateRejected("g", None), f.NodeVetoed("b", ("g",)))
    assert laws.check_facts(records_of(*facts)) == []


NUMBERS: list[tuple[dict[str, Any], str]] = [
    ({"seq": 4}, "record 4 follows record 1"),
    ({"first": 9}, "record 2 begins at fact 9"),
    ({"at": -1}, "record 2 is of -1 ns, the one before of 0 ns"),
    ({"cause": 3}, "record 2 is caused by #3"),
    ({"facts": []}, "record 2 holds no fact"),
]


@pytest.mark.parametrize(("change", "told"), NUMBERS)
def test_numbers_are_gapless(change: dict[str, Any], told: str):
    """Records and facts are numbered without a gap, time does not go back, causes come first."""
    second = Record(2, 3, 0, c.Pause(), [f.RunPaused()])
    assert laws.check_facts([*records_of(), second]) == []
    broken = msgspec.structs.replace(second, **change)
    assert any(told in breach for breach in laws.check_facts([*records_of(), broken]))
