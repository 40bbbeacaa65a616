"""Roles as nodes: turns, emissions, gates, spawns, conversations (supersteps.md 18, engine.md 31)."""

from __future__ import annotations

import gc
import operator
import sys
from typing import Annotated, Any, TypedDict

import pytest

from emissions import EscalationRequest, Finding, SpawnRequest, TaskAssignment, Verdict
from orchestrator.core.spec import Gate
from orchestrator.errors import GraphError, OperationError
from orchestrator.runtime.session import Session
from orchestrator.supersteps import END, START, Answer, Budget, Command, RetryPolicy, Send, StateGraph
from roles import NotApplicable, Role, role
from tests.supersteps.rig import lawful, records


class State(TypedDict):
    """A draft, and words that are added to."""

    draft: Any
    log: Annotated[list, operator.add]


@role()
async def writer(turn):
    return {"draft": f"draft {len(turn.inputs['log'])}", "log": ["wrote"]}


@role()
def threaded(turn):
    return {"log": [dict(turn.parameters), turn.instruction]}


def facts(app, thread="t", *kinds):
    return [fact for record in records(app, thread) for fact in record.facts if type(fact).__name__ in kinds]


def judge(*words, **more):
    """A critic that gives these verdicts, one a visit, the last one for ever."""
    left = list(words)

    @role(emits=(Verdict, SpawnRequest, Finding))
    async def critic(turn):
        word = left.pop(0) if len(left) > 1 else left[0]
        return Verdict(verdict=word, rationale="so", **more)

    return critic


# --- nodes ---------------------------------------------------------------------------------------


async def test_a_role_reads_the_state_and_writes_it():
    """Async and plain functions; the state is turn.inputs and turn.context, a copy of its own."""
    seen = []

    @role()
    async def reads(turn):
        seen.append((turn.inputs["draft"], turn.input("log", list[str]), dict(turn.context), turn.node))
        turn.inputs["log"].append("nobody sees this")
        turn.write("log", ["by write"])
        turn.write("draft", "over", replace=True)

    graph = StateGraph(State).add_node(writer).add_node("second", reads)
    graph.add_node(threaded, instruction="do it", parameters={"n": 1})
    graph.add_edge(START, "writer").add_edge("writer", "second").add_edge("second", "threaded")
    app = graph.compile()
    result = await app.invoke({"log": ["in"]}, thread_id="t")
    assert result.reason == "completed", result.failures
    assert result.state == {"draft": "over", "log": ["in", "wrote", "by write", {"n": 1}, "do it"]}
    assert seen == [("draft 1", ["in", "wrote"], {"draft": "draft 1", "log": ["in", "wrote"]}, "second@2")]
    lawful(app)


@pytest.mark.parametrize(
    ("given", "draft"), [("text", "text"), (None, None), ([1, 2], [1, 2]), ({"a": 1}, {"a": 1})]
)
async def test_writes_names_the_key_of_a_value(given, draft):
    @role()
    async def gives(turn):
        return given

    app = StateGraph(State).add_node(gives, writes="draft").add_edge(START, "gives").compile()
    assert (await app.invoke({"log": []})).state["draft"] == draft


async def test_a_role_gives_commands_like_any_node():
    @role()
    async def sends(turn):
        return [Command(update={"log": ["sent"]}), Command(goto=[Send("threaded", {"n": n}) for n in (1, 2)])]

    graph = StateGraph(State).add_node(sends).add_node(threaded, parameters={"m": 0, "n": 0})
    app = graph.add_edge(START, "sends").compile()
    result = await app.invoke({"log": []})
    assert result.state["log"] == ["sent", {"m": 0, "n": 1}, "", {"m": 0, "n": 2}, ""]


async def test_what_a_send_carries_is_the_roles_input():
    seen = []

    @role()
    async def takes(turn):
        seen.append((dict(turn.inputs), turn.parameters))

    graph = StateGraph(State).add_node(takes)
    graph.add_conditional_edges(START, lambda state: [Send("takes", {"n": 1}), Send("takes", "text")])
    await graph.compile().invoke({"log": []})
    assert seen == [({"n": 1}, {"n": 1}), ({"arg": "text"}, {"arg": "text"})]


async def test_a_failing_role_is_retried_handled_or_ends_the_run():
    tries = []

    @role(emits=(Finding,))
    async def flaky(turn):
        tries.append(turn.attempt)
        await turn.emit(Finding(description="before it failed"))
        if turn.attempt < 2:
            raise ConnectionError("no")
        return {"log": [f"attempt {turn.attempt}"]}

    async def handler(state, error):
        return {"log": [f"{error.node}: {error.type}"]}

    for options, log in (
        ({"retry": RetryPolicy(max_attempts=2, initial_interval=0)}, ["attempt 2"]),
        ({"error_handler": handler}, ["flaky: ConnectionError"]),
        ({}, []),
    ):
        app = StateGraph(State).add_node(flaky, **options).add_edge(START, "flaky").compile()
        result = await app.invoke({"log": []}, thread_id="t")
        assert result.state["log"] == log
        assert result.ok is bool(log)
        (taken,) = facts(app, "t", "EmissionAccepted")
        assert taken.emission == "Finding"
        lawful(app)
    assert tries == [1, 2, 1, 1]


async def test_not_applicable_writes_nothing_and_leads_on():
    @role()
    async def declines(turn):
        raise NotApplicable("nothing to do")

    graph = StateGraph(State).add_node(declines).add_node(writer)
    app = graph.add_edge(START, "declines").add_edge("declines", "writer").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok and result.state["log"] == ["wrote"]
    lawful(app)


def test_faults_of_role_nodes_are_told_at_once():
    graph = StateGraph(State)
    speaker = Role("speaker", body="B", models=("test",))
    for name, cast, options, words in (
        ("a", speaker, {}, "nowhere to go; give writes="),
        ("a", writer, {"writes": "nope"}, "no state key; there are draft, log"),
        ("a", writer, {"bogus": 1}, "takes no bogus="),
        ("a", judge("REJECT"), {"gate": Gate(refusals=1)}, "no refusals"),
    ):
        with pytest.raises(GraphError, match=words):
            graph.add_node(name, cast, **options)
    with pytest.raises(OperationError, match="does not declare Verdict"):
        graph.add_node("a", writer, gate=True)
    with pytest.raises(GraphError, match="are for the node of a role"):
        graph.add_node("a", _plain, writes="draft")
    silent = StateGraph(State).add_node("a", Role("silent", body="B"), writes="draft").add_edge(START, "a")
    with pytest.raises(OperationError, match="no function, no program and no model"):
        silent.compile()
    silent.compile(Session(model="test"))


async def _plain(state):
    return None


# --- gates ---------------------------------------------------------------------------------------


def gated(critic, gate=True, **options):
    """writer -> critic, a gate -> threaded, an independent neighbour beside them."""
    graph = StateGraph(State).add_node(writer).add_node(critic, gate=gate, writes="draft", **options)
    graph.add_node(threaded)
    graph.add_edge(START, "writer").add_edge("writer", "critic").add_edge("critic", "threaded")
    return graph


@pytest.mark.parametrize("word", ["APPROVE", "APPROVE-WITH-FIXES", "REQUEST-CHANGES"])
async def test_a_verdict_that_does_not_refuse_routes_on(word):
    app = gated(judge(word)).compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "completed"
    assert result.state["draft"]["verdict"] == word and "gate_verdict" not in result.state["draft"]
    assert result.state["log"] == ["wrote", {}, ""]
    (fact,) = facts(app, "t", "GateApproved")
    assert fact.node == "critic@2"
    lawful(app)


async def test_a_rejecting_verdict_leads_nowhere_and_ends_the_run():
    """GateRejected; static edges, conditional edges and joins of that task count for nothing."""

    def never(state):
        raise AssertionError("its edges are not judged")

    graph = gated(judge("REJECT"))
    graph.add_conditional_edges("critic", never, ["threaded"])
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "gate_rejected" and result.detail == "critic" and not result.failures
    assert result.state["draft"]["gate_verdict"] == "reject"
    assert result.state["log"] == ["wrote"]
    assert [fact.node for fact in facts(app, "t", "GateRejected")] == ["critic@2"]
    assert (await app.invoke({"log": []}, thread_id="t")).reason == "gate_rejected"
    lawful(app)


async def test_nothing_is_transitive_others_go_on_and_the_run_has_not_succeeded():
    """The neighbour of a rejecting gate goes on; the same gate may approve in a later activation."""

    async def neighbour(state):
        return {"log": ["neighbour"]}

    async def later(state):
        return {"log": ["later"]}

    for words, reason in ((("REJECT",), "gate_rejected"), (("REJECT", "APPROVE"), "completed")):
        graph = StateGraph(State).add_node(judge(*words), gate=True)
        graph.add_node("neighbour", neighbour).add_node("later", later)
        graph.add_edge(START, "critic").add_edge(START, "neighbour").add_edge("neighbour", "later")
        graph.add_conditional_edges(
            "later", lambda s: "critic" if len(s["log"]) < 3 else END, ["critic", END]
        )
        app = graph.compile()
        result = await app.invoke({"log": []}, thread_id="t")
        assert result.state["log"] == ["neighbour", "later"]
        assert result.reason == reason
        lawful(app)


@pytest.mark.parametrize(("policy", "reason"), [("reject", "gate_rejected"), ("pass", "completed")])
async def test_an_undecided_gate_does_what_its_graph_says(policy, reason):
    @role(emits=(Verdict,))
    async def mute(turn):
        return {"log": ["mute"]}

    graph = StateGraph(State).add_node(mute, gate=Gate(on_undecided=policy)).add_node(threaded)
    app = graph.add_edge(START, "mute").add_edge("mute", "threaded").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == reason
    assert len(result.state["log"]) == (1 if policy == "reject" else 3)
    lawful(app)


@pytest.mark.parametrize(
    ("answer", "reason"), [("approve with fixes", "completed"), ("REJECT", "gate_rejected")]
)
async def test_an_undecided_gate_waits_for_a_person(answer, reason):
    """hold: siblings finish, the run is suspended; a verdict is an answer, None asks the gate again."""
    calls = []

    @role(emits=(Verdict,))
    async def mute(turn):
        calls.append(turn.attempt)
        return {"log": ["mute"]}

    graph = StateGraph(State).add_node(mute, gate=True).add_node(writer).add_node(threaded)
    graph.add_edge(START, "mute").add_edge(START, "writer").add_edge("mute", "threaded")
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "gate_undecided"
    (asked,) = result.interrupts
    assert asked.id == "mute@1:verdict" and asked.value == "a verdict: it gave no readable verdict"
    again = await app.invoke(None, thread_id="t")
    assert again.reason == "gate_undecided" and calls == [1, 2]
    with pytest.raises(OperationError, match="is no verdict"):
        await app.invoke(Answer("perhaps"), thread_id="t")
    result = await app.invoke(Answer(answer), thread_id="t")
    assert result.reason == reason and calls == [1, 2]
    assert result.state["log"][:2] == ["mute", "wrote"]
    lawful(app)


async def test_a_gate_that_crashes_is_undecided_and_does_not_open():
    @role(emits=(Verdict,))
    async def crashes(turn):
        raise RuntimeError("broken")

    graph = StateGraph(State).add_node(crashes, gate=True).add_node(threaded)
    app = graph.add_edge(START, "crashes").add_edge("crashes", "threaded").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "failed" and result.state["log"] == []
    assert facts(app, "t", "GateUndecided") and not facts(app, "t", "GateApproved")
    lawful(app)


# --- spawns --------------------------------------------------------------------------------------


def asking(*requests):
    """A scout that emits these, and keeps the receipts."""
    receipts = []

    @role(emits=(SpawnRequest, TaskAssignment, Finding))
    async def scout(turn):
        for request in requests:
            receipts.extend([await turn.emit(request)])
        return {"log": ["scouted"]}

    return scout, receipts


@role()
async def inspector(turn):
    return {"log": [[turn.node, turn.instruction, turn.parameters]]}


def scouting(scout, *, more=()):
    graph = StateGraph(State).add_node(scout).add_node("look", inspector)
    for name, cast in more:
        graph.add_node(name, cast)
    return graph.add_edge(START, "scout").compile()


async def test_a_spawn_request_becomes_a_send():
    """By the node's name, its role's, and the emitter's own; the receipt names the task."""
    scout, receipts = asking(
        SpawnRequest(assignee="look", instruction="by node", parameters={"n": 1}, key="a"),
        SpawnRequest(assignee="inspector", instruction="by role", parameters={"n": 2}),
        TaskAssignment(name="third", task="assigned", assignee="look", inputs={"n": 3}),
    )
    app = scouting(scout)
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok, result
    assert [receipt.node for receipt in receipts] == [f"look@2.scout-{n}" for n in (1, 2, 3)]
    assert result.state["log"] == [
        "scouted",
        ["look@2.scout-1", "by node", {"n": 1}],
        ["look@2.scout-2", "by role", {"n": 2}],
        ["look@2.scout-3", "assigned", {"n": 3}],
    ]
    made = facts(app, "t", "TaskSpawned")
    assert [(one.node, one.to, one.assignee) for one in made] == [
        ("scout@1", "look", "look"), ("scout@1", "look", "inspector"), ("scout@1", "look", "look"),
    ]  # fmt: skip
    lawful(app)


async def test_one_key_is_one_task_and_a_returned_request_that_was_emitted_is_one():
    receipts = []

    @role(emits=(SpawnRequest,))
    async def scout(turn):
        for _ in range(2):
            receipts.extend([await turn.emit(SpawnRequest(assignee="look", key="a.py"))])
        request = SpawnRequest(assignee="look", instruction="once")
        await turn.emit(request)
        return [request, {"log": ["scouted"]}]

    app = scouting(scout)
    result = await app.invoke({"log": []}, thread_id="t")
    assert bool(receipts[0]) and not receipts[1] and receipts[1].reason == "duplicate"
    assert len(result.state["log"]) == 3, result
    lawful(app)


async def test_what_cannot_be_sent_is_refused_with_the_reason():
    scout, receipts = asking(
        SpawnRequest(assignee="nobody"),
        SpawnRequest(assignee="look", before="successors"),
        SpawnRequest(assignee="look", after=["scout"]),
        SpawnRequest(assignee="look", operation="chat"),
        SpawnRequest(assignee="inspector"),
        TaskAssignment(name="t", task="x", assignee="look", depends_on=["other"]),
        Verdict(verdict="REJECT", rationale="not granted"),
    )
    app = scouting(scout, more=[("other", inspector)])
    result = await app.invoke({"log": []}, thread_id="t")
    assert [one.reason for one in receipts] == [
        "unknown_assignee", "invalid", "invalid", "verb_not_allowed", "unknown_assignee", "invalid",
        "not_granted",
    ]  # fmt: skip
    assert "no before" in receipts[1].detail and "look, other; name the node" in receipts[4].detail
    assert result.ok and result.state["log"] == ["scouted"]
    assert len(facts(app, "t", "SpawnRefused")) == 6
    lawful(app)


@pytest.mark.parametrize(
    ("budget", "taken", "reason"),
    [
        (Budget(spawns=2), 2, "max_spawn_exceeded"),
        (Budget(spawns=0), 0, "not_granted"),
        (Budget(tasks=3), 2, "max_spawn_exceeded"),
        (Budget(depth=0), 0, "depth"),
        (Budget(assignees=("scout",)), 0, "assignee_not_allowed"),
    ],
)
async def test_spawns_are_under_the_budgets(budget, taken, reason):
    scout, receipts = asking(*(SpawnRequest(assignee="look", key=str(n)) for n in range(4)))
    app = scouting(scout)
    result = await app.invoke({"log": []}, thread_id="t", budget=budget)
    assert result.ok, result
    assert [bool(one) for one in receipts] == [True] * taken + [False] * (4 - taken)
    assert {one.reason for one in receipts if not one} == {reason}
    # each input has the whole of it
    assert (await app.invoke({"log": []}, thread_id="t", budget=budget)).ok
    assert len(facts(app, "t", "TaskSpawned")) == 2 * taken
    lawful(app)


async def test_a_role_that_sends_itself_ends_at_the_depth():
    @role(emits=(SpawnRequest,))
    async def digger(turn):
        receipt = await turn.emit(SpawnRequest(parameters={"from": turn.node}))
        return {"log": [receipt.node if receipt else receipt.reason]}

    app = StateGraph(State).add_node(digger).add_edge(START, "digger").compile()
    result = await app.invoke({"log": []}, thread_id="t", budget=Budget(depth=2))
    assert result.state["log"] == ["digger@2.digger-1", "digger@3.digger-digger-1-1", "depth"]
    lawful(app)


async def test_a_task_that_runs_again_asks_again_and_nothing_is_sent_twice():
    """An attempt that fails keeps what it asked for; a task that is run again by the operator does not."""
    broken = [True]

    @role(emits=(SpawnRequest,))
    async def scout(turn):
        await turn.emit(SpawnRequest(assignee="look", key="a"))
        if broken[0] or turn.attempt == 1:
            raise ConnectionError("no")
        return {"log": ["scouted"]}

    graph = StateGraph(State).add_node(scout, retry=RetryPolicy(max_attempts=2, initial_interval=0))
    app = graph.add_node("look", inspector).add_edge(START, "scout").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "failed" and len(facts(app, "t", "TaskSpawned")) == 1
    broken.clear()
    broken.append(False)
    result = await app.invoke(None, thread_id="t")
    assert result.ok, result
    assert result.state["log"] == ["scouted", ["look@2.scout-2", "", {}]]
    assert [one.tasks for one in facts(app, "t", "TasksWithdrawn")] == [("look@2.scout-1",)]
    lawful(app)


async def test_a_rejecting_gate_sends_only_what_does_not_depend_on_it():
    @role(emits=(Verdict, SpawnRequest))
    async def gate(turn):
        await turn.emit(SpawnRequest(assignee="look", key="bound"))
        await turn.emit(SpawnRequest(assignee="look", key="free", independent=True))
        return Verdict(verdict="REJECT", rationale="no")

    graph = StateGraph(State).add_node(gate, gate=True).add_node("look", inspector)
    app = graph.add_edge(START, "gate").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "gate_rejected"
    assert [one[0] for one in result.state["log"]] == ["look@2.gate-2"]
    lawful(app)


# --- other emissions ------------------------------------------------------------------------------


async def test_findings_are_in_the_ledger_and_later_steps_read_them():
    @role(emits=(Finding,))
    async def finder(turn):
        await turn.emit(Finding(description="called"))
        return [Finding(description="returned"), {"log": ["found"]}]

    @role()
    async def reader(turn):
        found = turn.emissions(Finding, of="finder")
        return {"log": [[one.description, one.node, one.role] for one in found]}

    graph = StateGraph(State).add_node(finder).add_node(reader).add_edge(START, "finder")
    app = graph.add_edge("finder", "reader").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.state["log"] == [
        "found", ["called", "finder@1", "finder"], ["returned", "finder@1", "finder"],
    ]  # fmt: skip
    assert [fact.emission for fact in facts(app, "t", "EmissionAccepted")] == ["Finding"] * 2
    # a second input begins without them
    again = await app.invoke({"log": []}, thread_id="t")
    assert len(again.state["log"]) == 6
    lawful(app)


@pytest.mark.parametrize(
    ("route", "reason", "kind"),
    [("notify", "completed", None), ("give_up", "failed", "GaveUp"), (None, "failed", "EscalationRefused")],
)
async def test_escalation_has_no_tier_to_go_to(route, reason, kind):
    """A notice is a fact, a give-up fails the task, a higher tier is refused with the way out."""

    @role()
    async def stuck(turn):
        return EscalationRequest(reason="too hard", **({} if route is None else {"route": route}))

    app = StateGraph(State).add_node(stuck).add_edge(START, "stuck").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == reason
    assert [one.type for one in result.failures] == ([] if kind is None else [kind])
    refused = facts(app, "t", "EmissionRefused")
    assert [one.reason for one in refused] == (["no_higher_tier"] if route is None else [])
    lawful(app)


async def test_a_handler_steers_and_changes_nothing_else():
    from orchestrator import Inject, Steer, Write

    session = Session()
    session.handles(Finding, lambda f, view: [Inject("told"), Write("log", 1), Steer("mind")])

    @role(emits=(Finding,))
    async def finder(turn):
        return Finding(description="x")

    @role()
    async def told(turn):
        return {"log": [*turn.steers(), turn.instruction]}

    graph = StateGraph(State).add_node(finder).add_node(told).add_edge(START, "finder")
    app = graph.add_edge("finder", "told").compile(session)
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok, result
    assert result.state["log"][0] == "mind" and "OPERATOR STEER" in result.state["log"][1]
    assert [one.change for one in facts(app, "t", "ChangeRefused")] == ["write"]
    assert [one.reason for one in facts(app, "t", "SpawnRefused")] == ["invalid"]
    lawful(app)


async def test_a_program_is_a_node():
    code = 'import sys; sys.stdin.read(); print(\'```finding\\n{"description": "seen"}\\n```\')'
    worker = Role("worker", emits=(Finding,), program=(sys.executable, "-c", code))
    app = StateGraph(State).add_node(worker, writes="draft").add_edge(START, "worker").compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.ok, result.failures
    assert result.state["draft"]["exit_code"] == 0
    assert [one.emission for one in facts(app, "t", "EmissionAccepted")] == ["Finding"]
    lawful(app)


async def test_the_folders_of_a_graph_in_memory_go_with_it():
    """No session was entered, so none is left: what its roles wrote goes when nobody holds the graph."""
    left = []

    @role()
    async def writes(turn):
        (turn.workdir / "note").write_text("x")
        left.append(turn.workdir / "note")

    app = StateGraph(State).add_node(writes).add_edge(START, "writes").compile()
    assert (await app.invoke({"log": []})).ok
    assert left[0].exists()
    del app
    gc.collect()
    assert not left[0].exists()
