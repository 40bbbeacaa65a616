"""CAP and TIME of the bug reports, bad-inputs 11 and 19: slots, limits, deadlines."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from orchestrator import (
    Budget,
    OperationGraphBuilder,
    Retry,
    Session,
    SpawnRequest,
    Verdict,
    create_operation,
    role,
)
from orchestrator.testing.loops import run_virtual
from tests.scenarios.conftest import lawful, ok, ran


@role()
async def sleeps(turn):
    await anyio.sleep(turn.parameters["s"])
    return turn.attempt


async def test_CAP_limits_of_roles_and_names():
    """Kernel 2: ``limits`` by role and by name hold beside the slots; whoever lacks one lets others pass."""
    now = {"writer": 0, "db": 0}
    most = dict(now)

    def counted(name, *keys):
        @role(name=name)
        async def body(turn):
            for key in keys:
                now[key] += 1
                most[key] = max(most[key], now[key])
            await anyio.lowlevel.checkpoint()
            for key in keys:
                now[key] -= 1

        return body

    writer, reader = counted("writer", "writer", "db"), counted("reader", "db")
    graph = OperationGraphBuilder()
    for number in range(10):
        graph.add_operation(writer, node_id=f"w{number}", depends_on=[], uses=["db"])
        graph.add_operation(reader, node_id=f"r{number}", depends_on=[], uses=["db"])
        graph.add_operation(ok, node_id=f"f{number}", depends_on=[])
    limits = {"role:writer": 1, "name:db": 2}
    run = await ran(graph, session={"limits": limits}, budget=Budget(concurrency=8))
    assert most == {"writer": 1, "db": 2}
    assert run.reason == "completed"


async def test_CAP_first_in_first_out_beside_a_limit():
    """Kernel 2: FIFO by readiness: one that is woken and finds no slot keeps its place."""
    go = {}

    @role()
    async def held(turn):
        await go.setdefault(turn.node, anyio.Event()).wait()

    graph = OperationGraphBuilder()
    graph.add_operation(create_operation("operate", node_id="x", role="held", uses=["db"]), depends_on=[])
    graph.add_operation(held, node_id="y", depends_on=[])
    graph.add_operation(create_operation("operate", node_id="a", role="held", uses=["db"]), depends_on=[])
    for name in ("b", "c", "d"):
        graph.add_operation(held, node_id=name, depends_on=[])
    async with Session([held], limits={"name:db": 1}) as session:
        live = await session.start(graph, budget=Budget(concurrency=2))
        async for event in live.events(kinds=("NodeStarted",)):
            go.setdefault(event.node, anyio.Event()).set()
        run = await lawful(live)
    assert run.nodes("NodeStarted") == ["x", "y", "a", "b", "c", "d"]


def test_CAP_the_slot_is_held_by_the_attempt_only(anyio_backend):
    """CAP 122, kernel 2: asking and backing off free the slot; capacity 1 is enough for both to end."""

    @role(retry=Retry(attempts=2, backoff=3))
    async def retries(turn):
        if turn.attempt == 1:
            raise ValueError("once")

    graph = OperationGraphBuilder()
    graph.add_operation(retries, node_id="a", depends_on=[])
    graph.add_operation(ok, node_id="b", depends_on=[])
    run = run_virtual(lambda: ran(graph, budget=Budget(concurrency=1)), backend=anyio_backend)
    assert run.nodes("NodeStarted") == ["a", "b", "a"]


async def test_CAP_123_nothing_is_lost_between_cancel_and_delivery():
    """CAP 123: nodes are cancelled the moment they are started, over and over: none lost, none doubled."""

    @role()
    async def body(turn):
        await anyio.lowlevel.checkpoint()

    graph = OperationGraphBuilder()
    names = [graph.add_operation(body, node_id=f"n{number}", depends_on=[]) for number in range(300)]
    async with Session() as session:
        live = await session.start(graph, budget=Budget(concurrency=3))
        cancelled = []
        async for event in live.events(kinds=("NodeStarted",)):
            if len(cancelled) < 100 and live.cancel(event.node):
                cancelled.append(event.node)
        run = await lawful(live)
    assert set(run.result.cancelled_operations) == set(cancelled)
    assert set(run.result.completed_operations) == set(names) - set(cancelled)


@pytest.mark.parametrize("state", ["idle", "paused", "asking"])
def test_CAP_125_nothing_polls(anyio_backend, state):
    """CAP 125: a run that only waits, is paused or asks sets no timer: virtual time does not move."""

    @role()
    async def waits(turn):
        if state == "asking":
            return await turn.ask("well?")
        return await go.wait()

    go = None

    async def main():
        nonlocal go
        go = anyio.Event()
        graph = OperationGraphBuilder()
        graph.add_operation(waits, node_id="a")
        graph.add_operation(ok, node_id="b")
        async with Session() as session:
            live = await session.start(graph, waits_for_answers=True)
            if state == "paused":
                live.pause()
            ticks = 0
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            with anyio.move_on_after(7_200):
                while True:
                    await anyio.sleep(3_600)
                    ticks += 1
            assert ticks == 1
            assert anyio.current_time() == 7_200
            live.resume()
            go.set()
            if state == "asking":
                assert live.answer("a", True)
            return await lawful(live)

    assert run_virtual(main, backend=anyio_backend).reason == "completed"


# --- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["returns", "raises"])
def test_TIME_98_100_a_late_result_is_ignored(anyio_backend, late):
    """TIME 98, 100: attempt 1 outlives its limit and gives something; attempt 2 counts, nothing runs
    twice.
    """
    attempts = []

    @role(retry=2, timeout=5)
    async def works(turn):
        attempts.append((turn.attempt, anyio.current_time()))
        if turn.attempt == 2:
            return "good"
        try:
            await anyio.sleep(100)
        except BaseException:
            if late == "raises":
                raise ValueError("late") from None
        return "late"

    graph = OperationGraphBuilder()
    graph.add_operation(works, node_id="a")
    graph.add_operation(ok, node_id="b")
    run = run_virtual(ran, graph, backend=anyio_backend)
    assert run["a"].value == "good"
    assert attempts == [(1, 0.0), (2, 5.0)]
    assert run.nodes("NodeStarted") == ["a", "a", "b"]
    assert run.of("NodeRetryScheduled")[0].data["error"]["type"] == "TimeoutError"
    assert [(fact.node, fact.attempt) for fact in run.of("ResultStale")] == [("a", 1)]


@pytest.mark.parametrize("kind", ["function", "thread", "gate", "operation", "spawned"])
def test_TIME_103_every_kind_of_node_times_out(anyio_backend, kind):
    """TIME 103: a timeout is kept for each kind of node; a thread is left behind."""

    async def waits(turn):
        await anyio.sleep(10_000)

    def blocks(turn):
        done.wait(5)

    done = threading.Event()
    emits = (Verdict,) if kind == "gate" else ()
    body = role(name="body", emits=emits, timeout=0.1)(blocks if kind == "thread" else waits)

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        return SpawnRequest(assignee="body")

    async def main():
        graph = OperationGraphBuilder()
        async with Session([body]) as session:
            session.register_operation("waits", waits)
            if kind == "operation":
                graph.add_operation("waits", node_id="a", timeout=0.1)
            elif kind == "spawned":
                graph.add_operation(grows, node_id="start")
            else:
                graph.add_operation(body, node_id="a", gate=kind == "gate")
            return await lawful(await session.start(graph))

    run = run_virtual(main, backend=anyio_backend)
    done.set()
    node = run["start.body-1" if kind == "spawned" else "a"]
    assert node.status == "failed"
    assert node.error.type == "TimeoutError"


def test_TIME_102_the_first_cause_wins(anyio_backend):
    """TIME 102: a timed-out body whose clean-up raises, or outlasts its grace, is timed out."""

    @role(timeout=5)
    async def raises(turn):
        try:
            await anyio.sleep(100)
        finally:
            raise KeyError("clean-up")

    @role(timeout=5)
    async def lingers(turn):
        for _ in range(1_000):
            try:
                await anyio.sleep(100)
            except GeneratorExit:
                raise
            except BaseException:
                continue

    graph = OperationGraphBuilder()
    for body in (raises, lingers):
        graph.add_operation(body, depends_on=[])
    run = run_virtual(lambda: ran(graph, session={"grace": 2}), backend=anyio_backend)
    assert [run[name].error.type for name in ("raises", "lingers")] == ["TimeoutError", "TimeoutError"]


def test_RETRY_93_backoff_and_its_slot(anyio_backend):
    """RETRY 93: four attempts with the gaps as configured; the delay holds no slot."""
    starts = []

    @role(retry=Retry(attempts=4, backoff=2, factor=3, max_delay=10))
    async def fails(turn):
        starts.append(anyio.current_time())
        raise ValueError("again")

    graph = OperationGraphBuilder()
    graph.add_operation(fails, node_id="a", depends_on=[])
    graph.add_operation(sleeps, node_id="b", depends_on=[], s=1)
    run = run_virtual(lambda: ran(graph, budget=Budget(concurrency=1)), backend=anyio_backend)
    assert starts == [0.0, 2.0, 8.0, 18.0]
    assert run["b"].status == "completed"
    assert run["a"].attempts == 4
    assert run["a"].error.attempt == 4


def test_TIME_a_nodes_deadline_spans_its_attempts(anyio_backend):
    """Kernel 7: ``deadline`` per node, over attempts and delays; then it fails and is not attempted again."""
    graph = OperationGraphBuilder()

    @role()
    async def fails(turn):
        await anyio.sleep(3)
        raise ValueError("again")

    graph.add_operation(
        create_operation(
            "operate", node_id="a", role="fails", retry=Retry(attempts=100, backoff=1, factor=1), deadline=10
        )
    )
    run = run_virtual(lambda: ran(graph, fails), backend=anyio_backend)
    assert run["a"].error.type == "DeadlineExceeded"
    assert run["a"].attempts == 3


@pytest.mark.parametrize("asked", [1, 100])
def test_TIME_no_clock_runs_while_a_node_asks(anyio_backend, asked):
    """Kernel 7: a question stops the attempt's timeout, however long the answer takes; then it goes on."""

    @role(timeout=10)
    async def asks(turn):
        await anyio.sleep(6)
        answer = await turn.ask("well?")
        await anyio.sleep(answer)
        return "in time"

    async def main(rest):
        graph = OperationGraphBuilder()
        graph.add_operation(asks, node_id="a")
        async with Session() as session:
            live = await session.start(graph, waits_for_answers=True)
            async for _ in live.events(kinds=("QuestionAsked",)):
                break
            await anyio.sleep(asked)
            assert live.answer("a", rest)
            return await lawful(live)

    assert run_virtual(main, 3, backend=anyio_backend)["a"].value == "in time"
    assert run_virtual(main, 5, backend=anyio_backend)["a"].error.type == "TimeoutError"


@pytest.mark.parametrize("asked", [1, 100])
def test_TIME_a_deadline_stands_still_while_a_node_asks(anyio_backend, asked):
    """Kernel 7: it neither runs while a person thinks nor begins anew or gets lost with the answer."""

    @role()
    async def asks(turn):
        await anyio.sleep(6)
        await turn.ask("well?", key="1")
        await anyio.sleep(2)
        rest = await turn.ask("well?", key="2")
        await anyio.sleep(rest)
        return "in time"

    async def main(rest):
        graph = OperationGraphBuilder()
        graph.add_operation(create_operation("operate", node_id="a", role="asks", deadline=10))
        async with Session([asks], clock=lambda: int(anyio.current_time() * 1e9)) as session:
            live = await session.start(graph, waits_for_answers=True)
            async for _ in live.events(kinds=("QuestionAsked",)):
                await anyio.sleep(asked)
                assert live.answer("a", rest)
            return await lawful(live)

    assert run_virtual(main, 1.5, backend=anyio_backend)["a"].value == "in time"
    late = run_virtual(main, 2.5, backend=anyio_backend)
    assert late["a"].error.type == "DeadlineExceeded"
    assert late.run.engine.state.at == (10 + 2 * asked) * 10**9


def test_TIME_a_deadline_that_passes_before_an_answered_node_has_a_slot(anyio_backend):
    """Kernel 7: answered, it queues for the slot that another took meanwhile; its body is told to stop."""
    stopped = []

    @role()
    async def asks(turn):
        await anyio.sleep(1)
        try:
            await turn.ask("well?")
        finally:
            stopped.append(anyio.current_time())

    graph = OperationGraphBuilder()
    graph.add_operation(create_operation("operate", node_id="a", role="asks", deadline=10))
    graph.add_operation(sleeps, node_id="b", depends_on=[], s=50)

    async def main():
        async with Session([asks], clock=lambda: int(anyio.current_time() * 1e9)) as session:
            live = await session.start(graph, waits_for_answers=True, budget=Budget(concurrency=1))
            async for _ in live.events(kinds=("QuestionAsked",)):
                break
            await anyio.sleep(5)
            assert live.answer("a", "red")
            return await lawful(live)

    run = run_virtual(main, backend=anyio_backend)
    assert run["a"].error.type == "DeadlineExceeded"
    assert stopped == [15.0]
    assert run["b"].status == "completed"


def test_the_wall_clock_of_a_run(anyio_backend):
    """Kernel 8: ``wall_clock`` is reached: attempts are stopped and given back, suspended ``deadline``."""
    graph = OperationGraphBuilder()
    for number in range(3):
        graph.add_operation(sleeps, node_id=f"n{number}", s=4)
    run = run_virtual(lambda: ran(graph, budget=Budget(wall_clock=10)), backend=anyio_backend)
    assert run.reason == "deadline"
    assert run.statuses() == {"n0": "completed", "n1": "completed", "n2": "ready"}
    assert run.nodes("AttemptGivenBack") == ["n2"]
    assert "--budget" in run.result.next or run.result.next.startswith("callboard resume")


async def test_bad_inputs_11_the_wall_clock_goes_back(monkeypatch):
    """Bad-inputs 11: the machine's clock goes back a day in the run: order, numbers and durations are
    right.
    """
    real = time.time_ns
    back = []
    monkeypatch.setattr(time, "time_ns", lambda: real() - (86_400 * 10**9 if back else 0))

    @role()
    async def turns_back(turn):
        back.append(True)

    graph = OperationGraphBuilder()
    graph.add_operation(ok, node_id="a")
    graph.add_operation(turns_back, node_id="b")
    graph.add_operation(ok, node_id="c", retry=2)
    run = await ran(graph)
    assert run.reason == "completed"
    assert [fact.seq for fact in run.facts] == sorted(fact.seq for fact in run.facts)
    assert all(node.duration >= 0 and node.waited >= 0 for node in run.result.nodes.values())
    assert run.of("NodeCompleted")[-1].at < run.of("NodeCompleted")[0].at  # shown, and nothing more
