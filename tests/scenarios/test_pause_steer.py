"""Pause and steer: S50 to S53; STEER 117, 120, 121 as far as they need no resume from disk."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import Budget, OperationGraphBuilder, Refused, Session, role
from tests.scenarios.conftest import boom, lawful, ok, ran


class Gates:
    """Nodes that say that they run, and wait to be let go."""

    def __init__(self):
        self.running = {}
        self.go = {}

        @role(name="held")
        async def held(turn):
            key = f"{turn.node}#{turn.attempt}"
            self.event(self.running, key).set()
            await self.event(self.go, key).wait()
            if turn.parameters.get("fails", 0) >= turn.attempt:
                raise ValueError("again")
            return {
                "instruction": turn.instruction,
                "steers": list(turn.steers()),
                "context": dict(turn.context),
            }

        self.role = held

    @staticmethod
    def event(events, key):
        return events.setdefault(key, anyio.Event())

    async def until(self, key):
        await self.event(self.running, key).wait()

    def let(self, key):
        self.event(self.go, key).set()


async def test_S50_pausing_twice_is_pausing_once():
    """S50: pause twice = once; resuming what is not paused does nothing."""
    gates = Gates()
    graph = OperationGraphBuilder()
    graph.add_operation(gates.role, node_id="a")
    graph.add_operation(ok, node_id="b")
    async with Session() as session:
        live = await session.start(graph)
        await gates.until("a#1")
        live.resume()
        live.pause()
        live.pause()
        gates.let("a#1")
        async for event in live.events(kinds=("NodePaused",)):
            assert event.node == "b"
            break
        assert live.states() == {"a": "succeeded", "b": "paused"}
        live.resume()
        live.resume()
        run = await lawful(live)
    kinds = [fact.kind for fact in run.facts if fact.kind in {"RunPaused", "RunUnpaused", "NodePaused"}]
    assert kinds == ["RunPaused", "NodePaused", "RunUnpaused"]
    assert run.reason == "completed"


async def test_S50_a_fresh_pause_announces_anew():
    """S50, kernel 9: after a resume a pause gates anew, and the same node is announced again."""
    gates = Gates()
    graph = OperationGraphBuilder()
    graph.add_operation(gates.role, node_id="a", retry=3, fails=2)
    async with Session() as session:
        live = await session.start(graph)
        for attempt in (1, 2):
            await gates.until(f"a#{attempt}")
            live.pause()
            gates.let(f"a#{attempt}")
            seen = 0
            async for _ in live.events(kinds=("NodePaused",)):
                seen += 1
                if seen == attempt:
                    break
            live.resume()
        gates.let("a#3")
        run = await lawful(live)
    assert run.nodes("NodePaused") == ["a", "a"]
    assert run["a"].attempts == 3
    assert run.reason == "completed"


async def test_S51_what_runs_finishes_what_waits_is_held():
    """S51: the running node finishes; everything behind it is held, released on resume.

    "Pause before start holds everything" is read as: a pause that is there before a node's start holds it,
    however many become ready meanwhile; the handle exists from the run's start on, not before.
    """
    gates = Gates()
    graph = OperationGraphBuilder()
    graph.add_operation(gates.role, node_id="a", depends_on=[])
    for name in "bcd":
        graph.add_operation(ok, node_id=name, depends_on=["a"])
    async with Session() as session:
        live = await session.start(graph)
        await gates.until("a#1")
        live.pause()
        gates.let("a#1")
        names = []
        async for event in live.events(kinds=("NodePaused",)):
            names.append(event.node)
            if len(names) == 3:
                break
        assert live.states() == {"a": "succeeded", "b": "paused", "c": "paused", "d": "paused"}
        live.resume()
        run = await lawful(live)
    assert names == ["b", "c", "d"]
    unpaused = next(fact.seq for fact in run.of("RunUnpaused"))
    assert all(fact.seq > unpaused for fact in run.of("NodeStarted") if fact.node != "a")


async def test_S51_a_paused_run_can_be_cancelled():
    """S51, CAP 122: cancelling what is held by a pause settles it; nothing hangs."""
    gates = Gates()
    graph = OperationGraphBuilder()
    graph.add_operation(gates.role, node_id="a")
    graph.add_operation(ok, node_id="b")
    async with Session() as session:
        live = await session.start(graph)
        await gates.until("a#1")
        live.pause()
        gates.let("a#1")
        async for _ in live.events(kinds=("NodePaused",)):
            break
        live.cancel()
        run = await lawful(live)
    assert run.statuses() == {"a": "completed", "b": "cancelled"}
    assert run.reason == "cancelled"


async def test_S52_a_note_is_rendered_once():
    """S52: into the next node's instruction, with source and time; absent from context; on record."""
    gates = Gates()
    graph = OperationGraphBuilder()
    for name in "abc":
        graph.add_operation(gates.role, node_id=name, instruction=f"Do {name}")
    async with Session() as session:
        live = await session.start(graph)
        await gates.until("a#1")
        assert live.steer("mind the gap")
        for name in "abc":
            gates.let(f"{name}#1")
        run = await lawful(live)
    told = run["b"].value["instruction"]
    assert told.startswith("[OPERATOR STEER]\n")
    assert told.endswith("Do b")
    (received,) = run.of("SteerReceived")
    assert f"- {received.data['time']}: mind the gap" in told
    assert received.data["time"].endswith("Z")
    assert run["a"].value["instruction"] == "Do a"
    assert run["c"].value["instruction"] == "Do c"
    assert run["b"].value["context"] == run.result.final_context == {}
    assert run.nodes("SteerDelivered") == ["b"]


async def test_S52_the_seeds_context_key_is_a_steer():
    """S52, kernel 6: ``operator_messages`` of the first context is taken as notes and is no context key."""
    gates = Gates()
    graph = OperationGraphBuilder()
    graph.add_operation(gates.role, node_id="a", instruction="Do a")
    for key in ("a#1",):
        gates.let(key)
    messages = [{"text": "old", "rendered_into_op": "x"}, {"text": "new"}]
    run = await ran(graph, context={"operator_messages": messages, "other": 1})
    told = run["a"].value["instruction"]
    assert ": new\n" in told
    assert "old" not in told
    assert run["a"].value["context"] == {"other": 1}


async def test_S53_a_note_for_a_running_node():
    """S53: it reaches the running node on the way, and nobody else."""
    gates = Gates()
    graph = OperationGraphBuilder()
    for name in "ab":
        graph.add_operation(gates.role, node_id=name)
    async with Session() as session:
        live = await session.start(graph)
        await gates.until("a#1")
        assert live.steer("now", "a")
        assert live.steer("later", "b")
        for name in "ab":
            gates.let(f"{name}#1")
        run = await lawful(live)
    assert run["a"].value["steers"] == ["now"]
    assert run["a"].value["instruction"] == ""
    assert ": later" in run["b"].value["instruction"]
    assert run.nodes("SteerDelivered") == ["a", "b"]


async def test_S53_a_note_between_start_and_body():
    """S53: sent when the node is started but its body has not begun: still rendered, and not seen again."""
    gates = Gates()
    gates.let("a#1")
    gates.let("b#1")
    status = []

    @role()
    async def speaks(turn):
        (live,) = session.runs()
        status.append(live.engine.state.nodes["a"].status)
        assert live.steer("in between")

    graph = OperationGraphBuilder()
    graph.add_operation(speaks, node_id="first", depends_on=[])
    graph.add_operation(gates.role, node_id="a", depends_on=[], instruction="Do")
    graph.add_operation(gates.role, node_id="b", depends_on=["a"], instruction="Do")
    async with Session() as session:
        run = await lawful(await session.start(graph))
    assert status == ["running"]
    assert ": in between" in run["a"].value["instruction"]
    assert run["b"].value["instruction"] == "Do"


async def test_S53_a_second_attempt_does_not_render_old_notes_anew():
    """S53, kernel 6: a note is rendered once; a later attempt gets what came since."""
    gates = Gates()
    graph = OperationGraphBuilder()
    graph.add_operation(gates.role, node_id="a", retry=2, fails=1, instruction="Do")
    async with Session() as session:
        live = await session.start(graph)
        await gates.until("a#1")
        live.steer("first", "a")
        live.steer("second")
        gates.let("a#1")
        gates.let("a#2")
        run = await lawful(live)
    told = run["a"].value["instruction"]
    assert ": second" in told
    assert "first" not in told


@pytest.mark.parametrize("node", ["done", "ghost"])
async def test_steers_that_come_too_late(node):
    """Kernel 6, law 8: to a settled node ``too_late``, to nobody ``unknown_node``; nothing is delivered."""
    gates = Gates()
    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="done", depends_on=[])
    graph.add_operation(gates.role, node_id="a", depends_on=["done"])
    async with Session() as session:
        live = await session.start(graph)
        await gates.until("a#1")
        receipt = live.steer("hello", node)
        gates.let("a#1")
        run = await lawful(live)
    assert isinstance(receipt, Refused)
    assert receipt.reason == ("too_late" if node == "done" else "unknown_node")
    assert run.of("SteerReceived") == []


async def test_STEER_117_undelivered_notes_are_listed():
    """STEER 117: a note that nobody was given before the end is told as undelivered, once."""
    gates = Gates()
    graph = OperationGraphBuilder()
    graph.add_operation(gates.role, node_id="a")
    async with Session() as session:
        live = await session.start(graph)
        await gates.until("a#1")
        live.steer("for the next")
        gates.let("a#1")
        run = await lawful(live)
    assert [fact.data["text"] for fact in run.of("SteerUndelivered")] == ["for the next"]
    assert run.of("SteerDelivered") == []


async def test_STEER_120_parallel_questions():
    """STEER 120: three nodes ask, one twice: each gets its own answer, in whatever order they come."""

    @role()
    async def asks(turn):
        first = await turn.ask("same question")
        second = await turn.ask("same question", key="again") if turn.node == "a" else None
        return [first, second]

    graph = OperationGraphBuilder()
    for name in "abc":
        graph.add_operation(asks, node_id=name, depends_on=[])
    async with Session() as session:
        live = await session.start(graph, waits_for_answers=True, budget=Budget(concurrency=1))
        asked = []
        async for event in live.events(kinds=("QuestionAsked",)):
            asked.append((event.node, event.data["key"]))
            if len(asked) == 3:
                for name in "cab":
                    assert live.answer(name, f"to {name}")
            if len(asked) == 4:
                assert live.answer("a", "twice", key="again")
                break
        run = await lawful(live)
    assert sorted(asked) == [("a", "again"), *((name, "same question") for name in "abc")]
    assert [run[name].value for name in "abc"] == [["to a", "twice"], ["to b", None], ["to c", None]]
    assert all(node.attempts == 1 for node in run.result.nodes.values())


async def test_STEER_121_answered_questions_are_not_asked_again():
    """STEER 121: A is asked and answered once and does not run again while B is asked later."""
    bodies = []

    @role()
    async def asks(turn):
        bodies.append(turn.node)
        return await turn.ask(f"of {turn.node}")

    graph = OperationGraphBuilder()
    graph.add_operation(asks, node_id="a")
    graph.add_operation(asks, node_id="b")
    async with Session() as session:
        live = await session.start(graph, waits_for_answers=True)
        async for event in live.events(kinds=("QuestionAsked",)):
            assert live.answer(event.node, 1)
            assert not live.answer(event.node, 2)
            if event.node == "b":
                break
        run = await lawful(live)
    assert bodies == ["a", "b"]
    assert run.nodes("QuestionAsked") == ["a", "b"]


async def test_a_question_nobody_waits_for_suspends_the_run():
    """Kernel 7: everything else finishes, then the run is suspended ``awaiting_answer``."""

    @role()
    async def asks(turn):
        return await turn.ask("well?")

    graph = OperationGraphBuilder()
    graph.add_operation(asks, node_id="a", depends_on=[])
    graph.add_operation(boom, node_id="other", depends_on=[])
    graph.add_operation(ok, node_id="after", depends_on=["a"])
    run = await ran(graph)
    assert run.reason == "awaiting_answer"
    assert run.statuses() == {"a": "asking", "other": "failed", "after": "waiting"}
    assert run.result.waiters == {"a": "an answer to well?", "after": "a"}
