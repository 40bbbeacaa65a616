"""Control of a live run (kernel 8, 9): drain, interrupt, inject, raised budgets, questions, odd moments."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest

from orchestrator import (
    Accepted,
    Budget,
    Inject,
    OperationError,
    OperationGraphBuilder,
    Session,
    SpawnRequest,
    role,
)
from orchestrator.testing.loops import run_virtual
from tests.scenarios.conftest import lawful, ok, ran


class Holding:
    """A role whose nodes wait until they are let go."""

    def __init__(self):
        self.events = {}

        @role(name="holds")
        async def holds(turn):
            self.event("begun", turn.node).set()
            await self.event("go", turn.node).wait()
            return turn.node

        self.role = holds

    def event(self, what, node):
        return self.events.setdefault((what, node), anyio.Event())


async def test_drain_finishes_what_runs():
    """Kernel 9, journal: running nodes finish, nothing new starts, the run is suspended ``drained``."""
    holding = Holding()
    graph = OperationGraphBuilder()
    graph.add_operation(holding.role, node_id="a")
    graph.add_operation(ok, node_id="b")
    async with Session() as session:
        live = await session.start(graph)
        await holding.event("begun", "a").wait()
        live.drain()
        live.drain()
        holding.event("go", "a").set()
        run = await lawful(live)
    assert run.reason == "drained"
    assert run.statuses() == {"a": "completed", "b": "ready"}
    assert len(run.of("DrainRequested")) == 1
    assert run.result.next == f"callboard resume {run.result.run}"


@pytest.mark.parametrize("drained", [False, True])
async def test_interrupt_gives_attempts_back(drained):
    """Kernel 9, journal: running attempts are given back, suspended ``interrupted``, which is told before
    drained.
    """
    holding = Holding()
    graph = OperationGraphBuilder()
    graph.add_operation(holding.role, node_id="a")
    graph.add_operation(ok, node_id="b")
    async with Session() as session:
        live = await session.start(graph)
        await holding.event("begun", "a").wait()
        if drained:
            live.drain()
        live.interrupt()
        run = await lawful(live)
    assert run.reason == "interrupted"
    assert run.statuses() == {"a": "ready", "b": "waiting"}
    assert run.nodes("AttemptGivenBack") == ["a"]
    assert not run.result.ok


async def test_leaving_the_session_interrupts():
    """Law 15: a live run does not outlive its session; it is suspended, not lost."""
    holding = Holding()
    graph = OperationGraphBuilder()
    graph.add_operation(holding.role, node_id="a")
    async with Session() as session:
        live = await session.start(graph)
        await holding.event("begun", "a").wait()
    run = await lawful(live)
    assert run.reason == "interrupted"


async def test_inject_from_any_thread():
    """Kernel 3, api: ``run.inject`` from a thread: accepted, joined before a waiting node, read by it."""
    holding = Holding()

    @role()
    async def joins(turn):
        return [list(turn.inputs), [turn.instruction, dict(turn.parameters)]]

    @role()
    async def told(turn):
        return [turn.instruction, dict(turn.parameters)]

    graph = OperationGraphBuilder()
    graph.add_operation(holding.role, node_id="a")
    graph.add_operation(joins, node_id="b")
    async with Session([told]) as session:
        live = await session.start(graph)
        await holding.event("begun", "a").wait()

        def inject():
            return live.inject(
                "told", node_id="extra", instruction="Do", parameters={"x": 1}, after=["a"], before=["b"]
            )

        receipt = await anyio.to_thread.run_sync(inject)
        holding.event("go", "a").set()
        run = await lawful(live)
    assert receipt == Accepted("extra")
    assert run["extra"].value == ["Do", {"x": 1}]
    assert run["b"].value[0] == ["a", "extra"]
    assert run["extra"].spawned_by is None
    assert run.result.spawned == ("extra",)


async def test_inject_a_verb():
    """Api: ``inject(role_or_operation)``: a verb of the session works with no role at all, from a hook
    too.
    """

    async def work(turn):
        return dict(turn.parameters)

    holding = Holding()
    graph = OperationGraphBuilder()
    graph.add_operation(holding.role, node_id="a")
    async with Session() as session:
        session.register_operation("work", work)
        live = await session.start(
            graph, on_settle=lambda node, view: Inject("work", key="hook") if node == "a" else None
        )
        await holding.event("begun", "a").wait()
        receipt = live.inject("work", parameters={"x": 2})
        refused = live.inject("rest")
        holding.event("go", "a").set()
        run = await lawful(live)
    assert run[receipt.node].value == {"x": 2}
    assert refused.reason == "unknown_assignee"
    assert run["a.work-1"].status == "completed"


async def test_S21_injected_and_spawned_clones():
    """S21, kernel 7: a grown node without a role clones its emitter's branch; the hook hears of each once."""
    made = []

    async def chat(turn):
        turn.branch.say("assistant", turn.node)
        return [message.content for message in turn.branch.messages]

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="first")
    graph.add_operation("chat", node_id="talk")
    async with Session() as session:
        session.register_operation("chat", chat)
        live = await session.start(
            graph,
            on_settle=lambda node, view: Inject("chat", key="more") if node == "talk" else None,
            on_branch_created=lambda branch: made.append((branch.name, branch.name in session.branches)),
        )
        run = await lawful(live)
    assert run["talk.chat-1"].value == ["talk", "talk.chat-1"]
    assert made == [("talk", True), ("talk.chat-1", True)]


async def test_a_raised_budget():
    """Kernel 8: a raised budget is a fact and counts at once; a lower or equal one is refused."""
    holding = Holding()

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        (live,) = session.runs()
        receipts = [await turn.emit(SpawnRequest(assignee="ok", key=str(n))) for n in range(2)]
        assert live.raise_budget("spawns", 2)
        assert not live.raise_budget("spawns", 2)
        receipts.append(await turn.emit(SpawnRequest(assignee="ok", key="more")))
        return [bool(receipt) for receipt in receipts]

    graph = OperationGraphBuilder()
    graph.add_operation(grows, node_id="grow", depends_on=[])
    for name in "ab":
        graph.add_operation(holding.role, node_id=name, depends_on=[])
    async with Session([ok]) as session:
        live = await session.start(graph, budget=Budget(spawns=1, concurrency=1))
        await holding.event("begun", "a").wait()
        assert not holding.event("begun", "b").is_set()
        assert live.raise_budget("concurrency", 2)
        await holding.event("begun", "b").wait()
        for name in "ab":
            holding.event("go", name).set()
        run = await lawful(live)
    assert run["grow"].value == [True, False, True]
    assert [fact.data["name"] for fact in run.of("BudgetRaised")] == ["spawns", "concurrency"]


@pytest.mark.parametrize(
    "budget",
    [{"spawns": -1}, {"depth": -1}, {"escalations": -2}, {"concurrency": 0}, {"assignees": ("ghost",)}],
)
async def test_budgets_that_mean_nothing(budget):
    """GROW 113, law 8: a negative number or an unknown role is refused before anything runs."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    async with Session() as session:
        with pytest.raises(OperationError, match=next(iter(budget))):
            await session.flow(graph, budget=Budget(**budget))
        assert session.runs() == []


async def test_a_steer_for_a_node_that_asks():
    """Kernel 6: a node that asks is running as far as notes go: it reads the note when it goes on."""

    @role()
    async def asks(turn):
        answer = await turn.ask("well?")
        return [answer, list(turn.steers())]

    graph = OperationGraphBuilder()
    graph.add_operation(asks, node_id="a")
    async with Session() as session:
        live = await session.start(graph, waits_for_answers=True)
        async for _ in live.events(kinds=("QuestionAsked",)):
            break
        assert live.steer("by the way", "a")
        assert live.answer("a", 1)
        run = await lawful(live)
    assert run["a"].value == [1, ["by the way"]]
    assert run.nodes("SteerDelivered") == ["a"]


def test_a_question_that_expires(anyio_backend):
    """Kernel 7: ``expires`` answers with the default, recorded, and the node goes on."""

    @role()
    async def asks(turn):
        return await turn.ask("well?", expires=30, default={"assume": True})

    async def main():
        graph = OperationGraphBuilder()
        graph.add_operation(asks, node_id="a")
        async with Session() as session:
            return await lawful(await session.start(graph, waits_for_answers=True))

    run = run_virtual(main, backend=anyio_backend)
    assert run["a"].value == {"assume": True}
    assert run.of("QuestionAnswered")[0].data["by"] == "expired"


def test_a_body_that_stops_waiting_for_its_answer(anyio_backend):
    """Law 2, 11: a body gives its own question up and returns: the node settles with what it returned."""

    @role()
    async def asks(turn):
        with anyio.move_on_after(10):
            return await turn.ask("well?")
        return "on my own"

    async def main():
        graph = OperationGraphBuilder()
        graph.add_operation(asks, node_id="a")
        graph.add_operation(ok, node_id="b")
        async with Session() as session:
            live = await session.start(graph, waits_for_answers=True)
            with anyio.fail_after(100):
                return await lawful(live)

    run = run_virtual(main, backend=anyio_backend)
    assert run["a"].value == "on my own"
    assert run.reason == "completed"


async def test_a_body_that_asks_twice_at_once():
    """Kernel 7, STEER 120: two questions of one body at once, in either order: both are answered."""

    @role()
    async def asks(turn):
        answers = []

        async def ask(question):
            answers.append([question, await turn.ask(question)])

        async with anyio.create_task_group() as group:
            for question in ("one?", "two?"):
                group.start_soon(ask, question)
        return sorted(answers)

    graph = OperationGraphBuilder()
    graph.add_operation(asks, node_id="a")
    async with Session() as session:
        live = await session.start(graph, waits_for_answers=True)
        asked = []
        async for event in live.events(kinds=("QuestionAsked",)):
            asked.append(event.data["key"])
            assert live.answer("a", f"to {asked[-1]}", key=asked[-1])
            if len(asked) == 2:
                break
        run = await lawful(live)
    assert run["a"].value == [["one?", "to one?"], ["two?", "to two?"]]
    assert sorted(asked) == ["one?", "two?"]


async def test_plain_functions_speak_from_their_threads():
    """Engine 11: ``emit_sync`` and ``report`` from a plain role; the receipt is there when it returns."""
    seen = []

    def grows(turn):
        turn.report("begun")
        receipt = turn.emit_sync(SpawnRequest(assignee="ok", before="successors"))
        return [receipt.node, threading.current_thread().daemon]

    async def tap(envelope):
        seen.append(envelope.data["text"])

    graph = OperationGraphBuilder()
    graph.add_operation(role(name="grows", emits=(SpawnRequest,))(grows), node_id="a")
    graph.add_operation(ok, node_id="b")
    async with Session([ok]) as session, session.tap(tap, kinds=("NodeProgress",)):
        run = await lawful(await session.start(graph))
    assert run["a"].value == ["a.ok-1", True]
    assert seen == ["begun"]


async def test_many_threads_at_once():
    """Engine 11, bad-inputs 19: thirty plain roles emit from their threads at once: the cap holds."""
    gate = threading.Barrier(30)

    def grows(turn):
        gate.wait(30)
        return bool(turn.emit_sync(SpawnRequest(assignee="ok")))

    graph = OperationGraphBuilder()
    body = role(name="grows", emits=(SpawnRequest,))(grows)
    for number in range(30):
        graph.add_operation(body, node_id=f"n{number}", depends_on=[])
    run = await ran(graph, ok, budget=Budget(spawns=7, concurrency=30))
    assert sum(run[f"n{number}"].value for number in range(30)) == 7
    assert run.result.spawned_operations == 7
