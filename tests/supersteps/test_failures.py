"""Pending writes, failures, handlers, timeouts, cancellation: C20 to C36, X3, X4, X5, STATE and RESUME."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from orchestrator import Session
from orchestrator.errors import OperationError
from orchestrator.supersteps import (
    END,
    START,
    Command,
    PendingWorkError,
    RetryPolicy,
    StateGraph,
    TimeoutPolicy,
    interrupt,
)
from tests.supersteps.rig import Log, lawful, records, says

AT_ONCE = {"initial_interval": 0.0, "jitter": 0.0}


class Value(TypedDict):
    value: Annotated[int, operator.add]


class Calls:
    """Counts its calls; raises while it is told to."""

    def __init__(self, gives: Any, fails: int = 0, error: type[Exception] = ValueError) -> None:
        self.gives, self.fails, self.error, self.calls = gives, fails, error, 0

    async def __call__(self, _state):
        self.calls += 1
        if self.calls <= self.fails:
            raise self.error("it does not work")
        return self.gives


def parallel(one, two, *, retry=None, schema=Value):
    graph = StateGraph(schema).add_node("one", one).add_node("two", two, retry=retry)
    return graph.add_edge(START, "one").add_edge(START, "two")


async def test_C20_a_finished_sibling_is_kept_and_never_run_again():
    one = Calls({"value": 2})
    two = Calls({"value": 3}, fails=2, error=ConnectionError)
    app = parallel(one, two, retry=RetryPolicy(max_attempts=2, **AT_ONCE)).compile()
    result = await app.invoke({"value": 1}, thread_id="t")
    assert (result.reason, one.calls, two.calls) == ("failed", 1, 2)
    state = await app.get_state("t")
    assert state.values == {"value": 3} and state.next == ("two",)
    assert state.tasks[0].result == {"value": 2} and state.tasks[1].error.type == "ConnectionError"
    explicit = await app.get_state("t", at=state.checkpoint)
    assert explicit.values == {"value": 1} and explicit.next == ("one", "two")
    result = await app.invoke(None, thread_id="t")
    # C21: a failed task is opened again, with fresh attempts
    assert result.ok and result.state == {"value": 6} and (one.calls, two.calls) == (1, 3)
    lawful(app)


async def test_C22_C23_a_failed_input_leaves_the_total_and_a_new_input_replaces_it():
    class Total(TypedDict):
        given: int
        total: Annotated[int, operator.add]
        out: int

    async def one(state):
        if state["given"] == 4:
            raise ValueError("four")
        out = state["total"] + state["given"]
        return {"total": out, "out": out}

    graph = StateGraph(Total).add_node("one", one).add_edge(START, "one")
    app = graph.compile()
    for given, out in ((2, 2), (3, 5)):
        assert (await app.invoke({"given": given}, thread_id="1")).state["out"] == out
    failed = await app.invoke({"given": 4}, thread_id="1")
    assert failed.reason == "failed" and failed.state["total"] == 7 and failed.next == ("one",)
    with pytest.raises(PendingWorkError, match="one"):
        await app.invoke({"given": 2}, thread_id="1")
    last = await app.invoke({"given": 2}, thread_id="1", on_pending="replace")
    assert last.state["out"] == 9 and last.state["total"] == 16
    other = await app.invoke({"given": 5}, thread_id="2")
    assert other.state["total"] == 5 and (await app.get_state("1")).values["total"] == 16
    history = await app.get_state_history("1")
    # an input and a step for each of three, and an input that came to nothing
    assert [one.source for one in history] == ["step", "input", "input", "step", "input", "step", "input"]
    assert len(await app.get_state_history("1", limit=1)) == 1
    child = await app.update_state("1", {"given": 9}, at=2)
    assert child.thread_id != "1" and child.values["given"] == 9
    lawful(app, "1")


async def test_C24_recovery_by_a_new_input():
    class State(TypedDict):
        steps: Annotated[list, operator.add]
        attempt: int

    async def node1(state):
        if state["attempt"] == 1:
            raise ValueError("first")
        return {"steps": ["node1"]}

    async def node2(_state):
        return {"steps": ["node2"]}

    graph = StateGraph(State).add_node("node1", node1).add_node("node2", node2)
    graph.add_edge(START, "node1").add_edge("node1", "node2")
    app = graph.compile()
    assert (await app.invoke({"steps": ["start"], "attempt": 1}, thread_id="t")).reason == "failed"
    assert (await app.get_state("t")).tasks[0].error.message == "first"
    result = await app.invoke({"steps": [], "attempt": 2}, thread_id="t", on_pending="replace")
    assert result.state["steps"] == ["start", "node1", "node2"]
    lawful(app)


async def test_C26_a_journal_that_fails_raises_and_nothing_is_swallowed():
    class Broken:
        def __init__(self) -> None:
            self.left = 2

        def submit(self, batch, done):
            self.left -= 1
            done(None if self.left >= 0 else OSError("the disk is gone"))

        def flush(self):
            pass

        def close(self):
            pass

        def __len__(self):
            return 0

        def read(self, start, stop=None):
            return []

    graph = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b"))
    graph.add_edge(START, "a").add_edge(START, "b")
    async with Session(journal=Broken) as session:
        with pytest.raises(OSError, match="the disk is gone"):
            await graph.compile(session=session).invoke({"log": []}, thread_id="t")


async def test_C27_siblings_of_a_failure_finish_within_the_grace_and_are_kept():
    failed = anyio.Event()

    async def bad(_state):
        failed.set()
        raise ValueError("bad")

    async def slow(_state):
        await failed.wait()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return {"value": 5}

    app = parallel(bad, slow).compile()
    result = await app.invoke({"value": 1}, thread_id="t")
    assert [str(one) for one in result.failures] == ["one@1: ValueError: bad"]
    assert result.state == {"value": 6} and result.next == ("one",)


async def test_C27_a_sibling_that_outlasts_the_grace_is_stopped_and_run_again():
    stopped = []

    async def bad(_state):
        if not stopped:
            raise ValueError("bad")
        return {"value": 1}

    async def stays(_state):
        if stopped:
            return {"value": 10}
        try:
            await anyio.sleep_forever()
        except BaseException:
            stopped.append(True)
            raise

    async with Session(grace=0.01) as session:
        app = parallel(bad, stays).compile(session=session)
        result = await app.invoke({"value": 0}, thread_id="t")
        assert result.reason == "failed" and stopped and result.failures[0].message == "bad"
        assert (await app.invoke(None, thread_id="t")).state == {"value": 11}
        lawful(app)


async def test_C28_a_reader_that_leaves_suspends_the_run():
    cancelled = []

    async def waits(_state):
        try:
            await anyio.sleep_forever()
        except BaseException:
            cancelled.append(True)
            raise

    graph = parallel(Calls({"value": 2}), waits)
    graph.add_node("later", Calls({"value": 100})).add_edge("two", "later")
    app = graph.compile()
    async with app.stream({"value": 1}, thread_id="t") as stream:
        async for item in stream:
            assert item == {"one": {"value": 2}}
            break
    state = await app.get_state("t")
    assert cancelled and state.values == {"value": 3} and state.next == ("two",)
    lawful(app)


async def test_C28_cancelling_whoever_invokes_leaves_a_thread_that_can_go_on():
    begun = anyio.Event()
    waits = True

    async def two(_state):
        begun.set()
        if waits:
            await anyio.sleep_forever()
        return {"value": 10}

    app = parallel(Calls({"value": 2}), two).compile()
    async with anyio.create_task_group() as group:

        async def drive():
            await app.invoke({"value": 1}, thread_id="t")

        group.start_soon(drive)
        await begun.wait()
        group.cancel_scope.cancel()
    waits = False
    assert (await app.get_state("t")).next == ("two",)
    assert (await app.invoke(None, thread_id="t")).state == {"value": 13}
    lawful(app)


async def test_C30_a_step_that_takes_too_long_fails_what_has_not_finished():
    async def slow(_state):
        await anyio.sleep_forever()

    app = parallel(Calls({"value": 2}), slow).compile(step_timeout=0.05)
    async with app.stream({"value": 1}, thread_id="t") as stream:
        seen = [item async for item in stream]
    assert seen == [{"one": {"value": 2}}]
    (failure,) = stream.result.failures
    assert failure.type == "TimeoutError" and failure.node == "two"


async def test_a_timeout_of_one_attempt_is_a_failure_that_a_handler_takes_up():
    async def slow(_state):
        await anyio.sleep_forever()

    async def handler(_state, error):
        return {"log": [error.type]}

    graph = StateGraph(Log).add_node("slow", slow, timeout=TimeoutPolicy(run=0.01), error_handler=handler)
    result = await graph.add_edge(START, "slow").compile().invoke({"log": []})
    assert result.state["log"] == ["TimeoutError"]


async def test_C31_a_handler_runs_when_no_attempt_is_left_and_may_route():
    told = []
    bad = Calls(None, fails=9)

    async def handler(_state, error):
        told.append((error.node, type(error.exception), error.message, error.attempt))
        return Command(update={"log": ["handled"]}, goto="after")

    graph = StateGraph(Log).add_node(
        "bad", bad, retry=RetryPolicy(max_attempts=2, **AT_ONCE), error_handler=handler
    )
    graph.add_node("after", says("after")).add_node("usual", says("usual"))
    graph.add_edge(START, "bad").add_edge("bad", "usual")
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert bad.calls == 2 and told == [("bad", ValueError, "it does not work", 2)]
    assert result.ok and result.state["log"] == ["handled", "after"]
    routed = [f for r in records(app, "t") for f in r.facts if type(f).__name__ == "RouteSelected"]
    assert routed[0].handled.type == "ValueError"


async def test_C31_without_a_goto_the_failed_nodes_edges_are_followed():
    async def handler(_state, _error):
        return {"log": ["handled"]}

    graph = StateGraph(Log).add_node("bad", Calls(None, fails=9), error_handler=handler)
    graph.add_node("usual", says("usual")).add_edge(START, "bad").add_edge("bad", "usual")
    assert (await graph.compile().invoke({"log": []})).state["log"] == ["handled", "usual"]


async def test_C32_a_handler_that_raises_fails_the_run_with_its_error():
    async def handler(_state, _error):
        raise RuntimeError("and this")

    graph = StateGraph(Log).add_node("bad", Calls(None, fails=9), error_handler=handler)
    (failure,) = (await graph.add_edge(START, "bad").compile().invoke({"log": []})).failures
    assert (failure.type, failure.message) == ("RuntimeError", "and this")


async def test_C32_C36_a_handler_answers_for_its_own_node_only():
    async def handler(_state, _error):
        return {"value": 100}

    graph = StateGraph(Value).add_node("bad", Calls(None, fails=9), error_handler=handler)
    graph.add_node("good", Calls({"value": 2})).add_edge(START, "bad").add_edge(START, "good")
    result = await graph.compile().invoke({"value": 1})
    assert result.ok and result.state == {"value": 103}
    graph.add_node("worse", Calls(None, fails=9)).add_edge(START, "worse")
    assert [one.node for one in (await graph.compile().invoke({"value": 1})).failures] == ["worse"]


async def test_C34_an_interrupt_is_no_failure_that_a_handler_or_an_except_swallows():
    handled = []

    async def asks(_state):
        try:
            return {"log": [await interrupt("which?")]}
        except Exception as error:
            handled.append(error)

    async def handler(_state, error):
        handled.append(error)

    graph = StateGraph(Log).add_node("asks", asks, error_handler=handler).add_node("good", says("good"))
    graph.add_edge(START, "asks").add_edge(START, "good")
    result = await graph.compile().invoke({"log": []})
    assert result.reason == "awaiting_answer" and not handled and result.state["log"] == ["good"]


async def test_a_failure_beside_a_question_leaves_the_question_open():
    async def asks(_state):
        return {"log": [await interrupt("which?")]}

    graph = StateGraph(Log).add_node("asks", asks).add_node("bad", Calls(None, fails=9))
    graph.add_edge(START, "asks").add_edge(START, "bad")
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "failed" and [one.node for one in result.interrupts] == ["asks"]
    lawful(app)


class One(TypedDict):
    n: int
    log: Annotated[list, operator.add]


def clashing():
    async def writes(_state):
        return {"n": 1, "log": ["w"]}

    graph = (
        StateGraph(One).add_node("left", writes).add_node("right", writes).add_node("after", says("after"))
    )
    graph.add_edge(START, "left").add_edge(START, "right").add_edge(["left", "right"], "after")
    return graph.compile()


@pytest.mark.parametrize(
    ("how", "value", "log"),
    [("drop", None, ["w", "after"]), ("value", {"log": ["mine"]}, ["w", "mine", "after"])],
)
async def test_X3_a_conflict_leaves_a_readable_thread_and_a_way_out(how, value, log):
    app = clashing()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "failed"
    state = await app.get_state("t")
    # everything has finished and nothing is committed: next lists both
    assert state.values == {"log": []} and state.next == ("left", "right")
    for task in ("left@1", "right@1"):
        if task == "left@1":
            await app.resolve("t", task, "value", {"n": 7, "log": ["w"]})
        else:
            await app.resolve("t", task, how, value)
    result = await app.invoke(None, thread_id="t")
    assert result.ok and result.state == {"n": 7, "log": log}
    lawful(app)
    with pytest.raises(OperationError, match="no refused write"):
        await app.resolve("t", "left@1", "drop")


async def test_X3_rerun_runs_the_task_again(tmp_path):
    """Also where each step of it is taken by another process."""
    first = True

    async def writes(_state):
        return {"n": 1} if first else {"log": ["again"]}

    def opened():
        graph = StateGraph(One).add_node("left", writes).add_node("right", writes)
        return graph.add_edge(START, "left").add_edge(START, "right").compile(journal=tmp_path / "j.db")

    await opened().invoke({"log": []}, thread_id="t")
    first = False
    await opened().resolve("t", "left@1", "rerun")
    await opened().resolve("t", "right@1", "value", {"n": 3})
    app = opened()
    assert (await app.invoke(None, thread_id="t")).state == {"n": 3, "log": ["again"]}
    lawful(app)


async def test_X4_an_update_between_failure_and_resume_runs_no_finished_sibling():
    one = Calls({"value": 2})

    async def two(state):
        if state["value"] < 10:
            raise ValueError("too small")
        return {"value": 1}

    app = parallel(one, two).compile()
    await app.invoke({"value": 1}, thread_id="t")
    state = await app.update_state("t", {"value": 10})
    assert state.next == ("two",)
    result = await app.invoke(None, thread_id="t")
    assert result.state == {"value": 14} and one.calls == 1
    lawful(app)


async def test_X5_a_fork_at_the_head_keeps_what_has_finished():
    one, two = Calls({"value": 2}), Calls({"value": 3}, fails=1)
    app = parallel(one, two).compile()
    await app.invoke({"value": 1}, thread_id="t")
    new = await app.fork("t", name="mine")
    assert (await app.invoke(None, thread_id=new)).state == {"value": 6}
    assert one.calls == 1 and (await app.get_state("t")).next == ("two",)
    lawful(app, "mine")


async def test_update_as_a_node_settles_its_task():
    two = Calls({"value": 3}, fails=9)
    graph = parallel(Calls({"value": 2}), two)
    graph.add_node("after", Calls({"value": 100})).add_edge("two", "after")
    app = graph.compile()
    await app.invoke({"value": 1}, thread_id="t")
    await app.update_state("t", {"value": 50}, as_node="two")
    result = await app.invoke(None, thread_id="t")
    assert result.ok and result.state == {"value": 153} and two.calls == 1
    lawful(app)


async def test_C43_update_as_end_keeps_what_has_finished_and_leaves_nothing():
    app = parallel(Calls({"value": 2}), Calls(None, fails=9)).compile()
    await app.invoke({"value": 1}, thread_id="t")
    state = await app.update_state("t", None, as_node=END)
    assert state.next == () and state.values == {"value": 3}
    assert (await app.invoke({"value": 1}, thread_id="t")).reason == "failed"
    lawful(app)
