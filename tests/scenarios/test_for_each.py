"""``for_each``: one instance per element, in list order, without a model call (flows.md, kernel.md 8)."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from orchestrator import (
    Budget,
    EdgeCondition,
    EscalationRequest,
    Finding,
    ForEach,
    GraphError,
    NotApplicable,
    OperationError,
    OperationGraphBuilder,
    SpawnRequest,
    Verdict,
    create_operation,
    role,
)
from tests.scenarios.conftest import ok, ran, reads


def gives(value, *, name="gives"):
    @role(name=name)
    async def source(turn):
        return {"files": value}

    return source


@role()
async def inspect(turn):
    """Fails where the element says so; gives what it was made for."""
    item = turn.parameters["item"]
    if item == "bad":
        message = f"{item} is broken"
        raise ValueError(message)
    if item == "no":
        raise NotApplicable("not that one")
    return [turn.node, item, turn.parameters["index"], list(turn.inputs)]


def fan(value, *, what=inspect, after=reads, each=None, **more):
    """scan -> check (once per file) -> after."""
    graph = OperationGraphBuilder()
    graph.add_operation(gives(value), node_id="scan")
    operation = create_operation(
        what,
        {"item": "${item}", "index": "${index}"},
        node_id="check",
        for_each={"over": "scan.files", "max": 5, **(each or {})},
        **more,
    )
    graph.add_operation(operation, depends_on=["scan"], role=what)
    graph.add_operation(after, node_id="after", depends_on=["check"])
    return graph


async def test_one_instance_per_element():
    """Names count from 1, each instance reads what its node reads, the value is the list in list order."""
    run = await ran(fan(["a", "b", {"c": 1}]))
    assert run.reason == "completed"
    assert list(run.result) == ["scan", "check", "after", "check.1", "check.2", "check.3"]
    assert run["check"].value == [
        ["check.1", "a", 1, ["scan"]],
        ["check.2", "b", 2, ["scan"]],
        ["check.3", {"c": 1}, 3, ["scan"]],
    ]
    assert (run["check"].attempts, run["check"].instances, run["check"].left_out) == (0, 3, 0)
    assert run["after"].value == {"check": run["check"].value}
    assert run.result.spawned_operations == 0
    assert run.result.not_run == ()
    assert run["check.1"].spawned_by is None
    assert run.place("InstancesAdded", "check") > run.place("NodeCompleted", "scan")


async def test_the_list_is_in_list_order_whoever_is_first():
    """Law 10: the last element settles first and stands last."""
    order = []
    done = [anyio.Event() for _ in range(5)]

    @role(name="slow")
    async def slow(turn):
        index = turn.parameters["index"]
        if index < len("abcd"):
            await done[index].wait()
        order.append(turn.node)
        done[index - 1].set()
        return turn.parameters["item"]

    run = await ran(fan(["a", "b", "c", "d"], what=slow))
    assert order == ["check.4", "check.3", "check.2", "check.1"]
    assert run["check"].value == ["a", "b", "c", "d"]


async def test_an_empty_list_completes():
    """Empty: completes with ``[]``, and what depends on it runs (JOIN: the empty case is no other case)."""
    run = await ran(fan([]))
    assert run.reason == "completed"
    assert (run["check"].value, run["check"].instances) == ([], 0)
    assert run["after"].value == {"check": []}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (list("abcdef"), "scan.files has 6 elements and max is 5"),
        ("abc", "for_each: scan.files gave str, not a list"),
        ({"a": 1}, "for_each: scan.files gave a mapping, not a list"),
        (None, "gave NoneType, not a list"),
    ],
)
async def test_a_list_that_does_not_fit_fails_the_node(value, message):
    """kernel.md 8: more than ``max`` names both numbers; what is no list fails by name. Nothing is added."""
    graph = OperationGraphBuilder()
    graph.add_operation(gives(value), node_id="scan")
    each = ForEach(over="scan.files", max=5)
    graph.add_operation(
        create_operation(inspect, node_id="check", for_each=each), depends_on=["scan"], role=inspect
    )
    run = await ran(graph)
    assert run.reason == "failed"
    assert run["check"].error.type == "ForEachError"
    assert message in run["check"].error.message
    assert not run.of("NodeAdded")
    assert "check" in run.result.not_run


async def test_a_missing_list_is_no_empty_one():
    """Law 8: a name that is not there is an error."""
    graph = fan([], each={"over": "scan.fils"})
    run = await ran(graph)
    assert "has no 'fils'; did you mean files?" in run["check"].error.message


async def test_a_failed_instance_fails_the_node_when_the_others_have_settled():
    """flows.md: the others run to their end; the error names who failed and why."""
    graph = fan(["a", "bad", "c", "bad"], retry=2)
    graph.add_operation(ok, node_id="strict", depends_on=[])
    graph.add_edge("check", "strict", accept=("completed",))
    run = await ran(graph)
    assert run["strict"].reason == "blocked by check (failed)"
    assert run.result.completed_operations == ("scan", "after", "check.1", "check.3")
    assert run["check"].status == "failed"
    message = (
        "2 of 4 instances failed: check.2 (ValueError: bad is broken), check.4 (ValueError: bad is broken)"
    )
    assert run["check"].error.message == message
    assert [run[f"check.{n}"].attempts for n in (1, 2, 3, 4)] == [1, 2, 1, 2]
    assert run.result.failed_operations == ("check", "check.2", "check.4")


async def test_a_failure_that_somebody_accepts_is_handled_with_its_instances():
    """Law 12: an instance's failure is its node's; the builder's edge accepts it, and the run completes."""

    @role(name="takes")
    async def takes(turn):
        return turn.failed["check"].type

    run = await ran(fan(["bad"], after=takes))
    assert run["after"].value == "ForEachError"
    assert run.reason == "completed"


async def test_skip_leaves_its_place_out_and_counts_it():
    """flows.md: ``on_failure: skip``; ``check.failed`` can be read, the run completes."""
    graph = fan(["bad", "b", "bad", "d"], each={"skip": True})
    graph.add_operation(
        create_operation("operate", {"n": "${check.failed}"}, node_id="counts", role=gives_n, renders=True),
        depends_on=["check"],
        role=gives_n,
    )
    graph.add_operation(ok, node_id="many", depends_on=["check"], when="check.failed > 2")
    run = await ran(graph)
    assert run.reason == "completed"
    assert [one[0] for one in run["check"].value] == ["check.2", "check.4"]
    assert run["check"].left_out == 2
    assert run["counts"].value == 2
    assert run["many"].status == "skipped"


@role()
async def gives_n(turn):
    return turn.parameters["n"]


async def test_all_left_out_is_an_empty_list():
    """A list of which nothing is left is a list."""
    run = await ran(fan(["bad"], each={"skip": True}))
    assert (run.reason, run["check"].value, run["check"].left_out) == ("completed", [], 1)


async def test_an_instance_that_is_not_applicable_leaves_its_place_out():
    """Not needed is not failed: it is not counted."""
    run = await ran(fan(["a", "no"]))
    assert run["check.2"].status == "skipped"
    assert [one[1] for one in run["check"].value] == ["a"]
    assert (run.reason, run["check"].left_out) == ("completed", 0)


@pytest.mark.parametrize(
    ("when", "given"),
    [("item != 'b'", ["a", "c"]), ("index <= 2", ["a", "b"]), ("len(scan.files) > 5", None)],
)
async def test_when_of_an_element_and_of_the_node(when, given):
    """flows.md: ``when`` may name the element; then it is judged for each, else once for the node."""
    run = await ran(fan(["a", "b", "c"], when=when))
    if given is None:
        assert run["check"].status == "skipped"
        assert not run.of("NodeAdded")
    else:
        assert [one[1] for one in run["check"].value] == given
        assert run.reason == "completed"


async def test_a_condition_of_an_element_that_cannot_be_judged_fails_it():
    """COND: an error of a condition is a failure with its text, here of the one element."""
    run = await ran(fan([{"n": 1}, {}], when="item.n > 0"))
    assert run["check.2"].error.type == "ConditionError"
    assert "check.2 (ConditionError" in run["check"].error.message


async def test_the_element_has_another_name():
    """``as``: the element is called so, and not ``item``."""
    graph = OperationGraphBuilder()
    graph.add_operation(gives(["x"]), node_id="scan")
    each = ForEach(over="scan.files", max=1, name="file")
    graph.add_operation(
        create_operation(tells, node_id="check", for_each=each, instruction="${file}-${index}"),
        depends_on=["scan"],
        role=tells,
    )
    run = await ran(graph)
    assert run["check"].value == ["x-1"]


@role()
async def tells(turn):
    return turn.instruction


async def test_limits_and_slots_are_shared():
    """Each instance takes its slot and its limits: at no time more than either allows."""
    running, most = 0, 0

    @role(name="busy")
    async def busy(turn):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return turn.parameters["index"]

    run = await ran(fan(list("abcde"), what=busy, uses=("db",)), session={"limits": {"name:db": 2}})
    assert run["check"].value == [1, 2, 3, 4, 5]
    assert most == 2


async def test_spawns_are_untouched():
    """flows.md: instances cost no spawns and no depth; what an instance spawns does."""

    @role(name="grows", emits=(SpawnRequest,))
    async def grows(turn):
        receipt = await turn.emit(SpawnRequest(assignee="ok"))
        return receipt.node if receipt else receipt.reason

    run = await ran(fan(["a", "b"], what=grows), ok, budget=Budget(spawns=1, depth=1))
    assert run["check"].value == ["check.ok-1", "max_spawn_exceeded"]
    assert run.result.spawned == ("check.ok-1",)
    none = await ran(fan(["a", "b"]), budget=Budget(spawns=0, depth=0))
    assert none.reason == "completed"


async def test_the_list_waits_for_children_that_join_it():
    """``before="successors"`` of an instance is its node: the child settles first and is no element."""

    @role(name="grows", emits=(SpawnRequest,))
    async def grows(turn):
        await turn.emit(SpawnRequest(assignee="ok", before="successors"))
        return turn.node

    run = await ran(fan(["a"], what=grows), ok)
    assert run["check"].value == ["check.1"]
    assert run.place("NodeCompleted", "check.ok-1") < run.place("NodeCompleted", "check")


async def test_emissions_and_context_of_instances_reach_what_follows():
    """kernel.md 6: instances are ancestors of what depends on their node, in list order."""

    @role(name="finds", emits=(Finding,))
    async def finds(turn):
        turn.write("seen", [turn.parameters["item"]])
        turn.write(turn.parameters["item"], turn.parameters["index"])
        return Finding(description=turn.parameters["item"], severity="low")

    @role(name="last")
    async def last(turn):
        found = [(one.node, one.description) for one in turn.emissions(Finding)]
        return {"found": found, "context": dict(turn.context)}

    run = await ran(fan(["x", "y"], what=finds, after=last, writes="all"), reducers={"seen": "extend"})
    value = run["after"].value
    assert value["found"] == [["check.1", "x"], ["check.2", "y"]]
    assert value["context"]["seen"] == ["x", "y"]
    assert (value["context"]["x"], value["context"]["y"]) == (1, 2)
    assert value["context"]["all"] == run["check"].value


async def test_instances_that_write_one_key_are_a_conflict():
    """S57: two unordered writes meet in the node of the list, which names both writers."""

    @role(name="writes")
    async def writes(turn):
        turn.write("key", turn.parameters["index"])

    run = await ran(fan(["a", "b"], what=writes, after=ok))
    assert run["check"].error.type == "ContextConflictError"
    assert "'check.1' and 'check.2' both wrote" in run["check"].error.message


async def test_an_instance_that_escalates_is_succeeded_by_its_child():
    """kernel.md 4: the child one tier up takes its place in the list and knows the element."""

    @role(name="senior")
    async def senior(turn):
        return ["senior", turn.parameters["item"]]

    @role(name="junior", emits=(EscalationRequest,), escalates_to="senior")
    async def junior(turn):
        if turn.parameters["item"] == "hard":
            return EscalationRequest(reason="too hard", urgency="blocked")
        return ["junior", turn.parameters["item"]]

    run = await ran(fan(["easy", "hard", "fine"], what=junior), senior)
    assert run["check"].value == [["junior", "easy"], ["senior", "hard"], ["junior", "fine"]]
    assert run["check.2"].name == "check.2+1"


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
async def test_a_veto_above_adds_nothing(verdict):
    """Law 6: below a gate that rejects there is no list and no instance; below one that opens there is."""

    @role(name="judge", emits=(Verdict,))
    async def judge(turn):
        return Verdict(verdict=verdict, rationale="so")

    graph = OperationGraphBuilder()
    graph.add_operation(judge, node_id="gate", gate=True)
    graph.add_operation(
        create_operation(tells, node_id="check", for_each={"over": "['a']", "max": 2}, instruction="${item}"),
        depends_on=["gate"],
        role=tells,
    )
    run = await ran(graph)
    if verdict == "REJECT":
        assert run["check"].vetoed_by == ("gate",)
        assert not run.of("NodeAdded")
    else:
        assert run["check"].value == ["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate": True}, "a gate gives one verdict"),
        ({"branch": "shared"}, "cannot share one"),
        ({"for_each": {"over": "scan.files"}}, "max"),
        ({"for_each": {"over": "scan.files", "max": 0}}, "write 1 to 100,000"),
        ({"for_each": {"over": "scan.files", "max": 3, "name": "context"}}, "has a meaning in expressions"),
        ({"for_each": {"over": "scan.files", "max": 3, "name": "a-b"}}, "try 'a_b'"),
        ({"for_each": {"over": "1 +", "max": 3}}, "for_each of check"),
        ({"for_each": {"over": "'text'", "max": 3}}, "gives a str, not a list"),
        ({"for_each": 3}, "write {over: 'scan.files', max: 20}"),
    ],
)
async def test_what_does_not_fit_is_refused_where_it_is_made(options, message):
    """Nothing has run: the message names the node and the accepted form."""
    given = {"for_each": {"over": "scan.files", "max": 3}, "node_id": "check", **options}
    with pytest.raises(
        OperationError, match=message.replace("(", r"\(").replace("{", r"\{").replace("+", r"\+")
    ):
        create_operation("operate", **given)


async def test_a_graph_refuses_what_only_it_can_see():
    """An element that is called like a node would hide it; a condition object has no actor to judge it."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="scan")
    graph.add_operation(
        create_operation(
            "operate", node_id="check", for_each={"over": "[1]", "max": 1, "name": "scan"}, role=ok
        ),
        role=ok,
    )
    with pytest.raises(GraphError, match="calls its elements 'scan', which is a node"):
        await ran(graph)

    class Never(EdgeCondition):
        def apply(self, result, context):
            return False

    graph = fan([])
    graph.add_operation(ok, node_id="other", depends_on=[])
    with pytest.raises(OperationError, match="nothing runs there that could judge it"):
        graph.add_edge("check", "other", Never())
