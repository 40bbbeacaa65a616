"""Planner-cast documents: a planner's tasks become the planned nodes; a faulty plan is returned once."""

from __future__ import annotations

import pytest

from orchestrator import RunReason, Session, open_journal
from orchestrator.flows.flow import load_flow
from orchestrator.runtime.recorded import read_run

pytestmark = pytest.mark.anyio

FLOW = """
version: 1
name: planned
cast: [cast.py]
prompt: "Build it"
max_nodes: 4
outputs: {all: "${nodes['join']}"}
"""
CAST = """
from orchestrator import SpawnRequest, TaskAssignment, role

seen = []

def task(name, *after, assignee="does", **more):
    return TaskAssignment(name=name, task=f"do {name}", assignee=assignee, depends_on=list(after), **more)

@role(emits=(TaskAssignment,))
async def planner(turn):
    seen.append(turn.instruction)
    return [task("a", inputs={"n": 1}), task("b"), task("join", "a", "b", exit_criteria="both are there")]

@role(emits=(SpawnRequest,))
async def does(turn):
    seen.append(turn.instruction)
    return [turn.node, sorted(turn.inputs), turn.parameters]
"""


@pytest.fixture
def write(tmp_path):
    def write(plan=None, flow=FLOW):
        cast = CAST
        if plan is not None:
            start = cast.index("    return [task")
            cast = cast[:start] + plan + cast[cast.index("@role(emits=(SpawnRequest,))") - 1 :]
        (tmp_path / "cast.py").write_text(cast)
        (tmp_path / "flow.yaml").write_text(flow)
        return tmp_path / "flow.yaml"

    return write


async def test_its_tasks_become_the_planned_nodes(write, tmp_path):
    """roles.md: named by the tasks, ordered by depends_on, told task and inputs; no spawn is counted."""
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await session.flow(write())
    assert result.reason is RunReason.COMPLETED, result.detail
    assert list(result.nodes) == ["planner", "a", "b", "join"]
    assert result["a"].value == ["a", ["planner"], {"n": 1}]
    assert result.outputs == {"all": ["join", ["a", "b"], {}]}
    assert (result.spawned, result["join"].spawned_by) == ((), None)
    with open_journal(tmp_path / "journal.db") as reader:
        state = read_run(reader, result.run).state
        assert state.nodes["join"].op.instruction == "do join\n\nDone when: both are there"
        assert state.spawns == 0
        planned = list(reader.facts(kinds=("NodesPlanned",)))
    assert len(planned) == 1


FAULTY = (
    '    return [task("a", "b"), task("b", "a"), task("c", assignee="nobody"), task("c"), task("d", "x"), '
    'task("no-name")]\n'
)


async def test_a_plan_with_faults_is_returned_once_with_all_of_them(write):
    """S70: an invalid plan comes back with everything that is wrong; a second one fails the run naming it."""
    async with Session() as session:
        result = await session.flow(write(FAULTY))
    assert result.reason is RunReason.FAILED
    assert (result["planner"].attempts, list(result.nodes)) == (2, ["planner"])
    error = result["planner"].error
    assert error.type == "PlanError"
    for part in (
        "it holds 6 tasks, at most 4 are allowed (max_nodes)",
        "2 tasks are called 'c'",
        "c: there is no assignee 'nobody'; there are does, planner",
        "d depends on 'x', which is no task of the plan",
        "'no-name' is not a node name",
        "tasks wait for each other: a -> b -> a",
    ):
        assert part in error.message, error.message


async def test_a_better_plan_is_taken(write):
    """The second attempt reads what was wrong in its instruction; tasks that it repeats count."""
    plan = (
        '    good = [task("a"), task("join", "a")]\n'
        '    if "[PLAN REFUSED]" in turn.instruction:\n        return good\n'
        '    return [*good, task("a", assignee="nobody")]\n'
    )
    async with Session() as session:
        run = await session.start(write(plan))
        result = await run.wait()
        assert result.reason is RunReason.COMPLETED, result["planner"].error
        assert list(result.nodes) == ["planner", "a", "join"]
        async with run.events(kinds=("PlanRefused",)) as events:
            (refused,) = [event async for event in events]
    assert refused.data["faults"] == [
        "2 tasks are called 'a'",
        "a: there is no assignee 'nobody'; there are does, planner",
    ]


async def test_no_task_is_no_plan(write):
    """Both ways: emitted by a call, and not at all."""
    async with Session() as session:
        result = await session.flow(write("    return None\n"))
        assert "it holds no task" in result["planner"].error.message
        result = await session.flow(write('    assert await turn.emit(task("join"))\n'))
        assert result.outputs == {"all": ["join", ["planner"], {}]}


async def test_a_task_cannot_be_called_like_the_planner(write):
    """A node never exists twice."""
    async with Session() as session:
        result = await session.flow(write('    return [task("planner")]\n'))
    assert "a node 'planner' exists already" in result["planner"].error.message


@pytest.mark.parametrize("reactive", [True, False])
async def test_who_may_spawn(write, tmp_path, reactive):
    """reactive: which roles may spawn; the others' requests are refused, whatever they declare."""
    flow = FLOW + ("reactive: [does]\nbudget: {spawns: 3}\n" if reactive else "")
    path = write('    return [task("join")]\n', flow)
    request = 'SpawnRequest(instruction="x", assignee="does", independent=True)'
    grows = f'    turn.node == "join" and await turn.emit({request})\n    return [turn.node,'
    cast = tmp_path / "cast.py"
    cast.write_text(cast.read_text().replace("    return [turn.node,", grows))
    async with Session() as session:
        result = await session.flow(path)
    assert result.spawned == (("join.does-1",) if reactive else ())


async def test_escalations_and_retries_of_a_planner_are_its_own(write):
    """A planner that fails is attempted again by its own retry; a returned plan is no failure."""
    plan = (
        "    if turn.attempt == 1:\n        return [task('x', 'gone')]\n"
        "    if turn.attempt == 2:\n        raise ValueError('later')\n    return [task('join')]\n"
    )
    path = write(plan, FLOW + "defaults: {retry: 2}\n")
    async with Session() as session:
        result = await session.flow(path)
    assert (result.reason, result["planner"].attempts) == (RunReason.COMPLETED, 3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("max_nodes: 4\n", ""), "4:1: say how many nodes a plan may have: max_nodes: 12"),
        (("max_nodes", "planner: does\nmax_nodes"), "5:10: role does cannot plan"),
        (("max_nodes", "planner: plnner\nmax_nodes"), "5:10: there is no role 'plnner'"),
        (("max_nodes", "reactive: [dos]\nmax_nodes"), "5:12: there is no role 'dos'; did you mean 'does'?"),
        (("max_nodes", "reactive: [does]\nmax_nodes"), "5:1: does may spawn nodes; state how many"),
        (("max_nodes", "nodes: {join: {role: does}}\nmax_nodes"), "4:1: a document has nodes, or a prompt"),
        (('prompt: "Build it"', "nodes: {join: {role: does}}"), "5:1: max_nodes is for a planner"),
        (("max_nodes: 4", "max_nodes: 0"), "5:12: max_nodes is 0; write at least 1"),
    ],
)
async def test_checks(write, change, told):
    """What such a document has to say, each at its place."""
    found = [str(one) for one in load_flow(write(flow=FLOW.lstrip().replace(*change))).check()]
    assert any(f"flow.yaml:{told}" in one for one in found), found


async def test_what_check_says_of_it(write):
    """A planner is a node that plans; nothing is wrong with a document without nodes."""
    flow = load_flow(write())
    assert [one for one in flow.check() if one.severity != "note"] == []
    assert flow.sentences() == {
        "planner": "planner runs at the start and plans at most 4 nodes, "
        "each of which runs if those it depends on completed"
    }
