"""Channels and the order of writes: C01 to C12, bad-inputs 43."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.supersteps.writes import behind
from orchestrator.supersteps import (
    END,
    START,
    BinaryOperatorAggregate,
    Command,
    EmptyChannelError,
    EmptyInputError,
    Ephemeral,
    InvalidUpdateError,
    LastValue,
    Messages,
    NamedBarrier,
    Overwrite,
    RemoveMessage,
    Send,
    StateGraph,
    Topic,
    Untracked,
    add_messages,
)
from orchestrator.supersteps.channels import Channel, Pending
from orchestrator.supersteps.channels.base import EMPTY, change
from tests.supersteps.rig import Log, chain, lawful, says

encode, decode = msgspec.json.encode, msgspec.json.decode


def folded(channel: Channel, raw: bytes | None, *writes: Any) -> bytes:
    """The channel's JSON after the writes of as many tasks."""
    made = channel.patch("k", raw, [Pending(f"t{n}", encode(w)) for n, w in enumerate(writes)])
    assert made.raw is not None
    return behind(raw or b"", made.raw) if made.append else made.raw


def test_C02_last_value_takes_one_write_in_a_step():
    channel = LastValue()
    assert channel.fold(EMPTY, []) is EMPTY
    assert channel.fold(EMPTY, [3]) == 3
    with pytest.raises(InvalidUpdateError):
        channel.fold(3, [5, 6])
    assert decode(folded(channel, None, 3)) == 3


async def test_C02_reading_a_key_that_nobody_wrote_names_it():
    async def reads(state):
        return {"log": [state["n"]]}

    graph = StateGraph(Log).add_node("reads", reads).add_edge(START, "reads")
    result = await graph.compile().invoke({"log": []}, thread_id="t")
    (failure,) = result.failures
    assert failure.type == EmptyChannelError.__name__ and "'n'" in failure.message


def test_C03_topic_keeps_a_step_or_everything():
    topic = Topic()
    assert decode(folded(topic, None, "a", "b")) == ["a", "b"]
    assert decode(folded(topic, b'["a","b"]', ["c", "d"], "d")) == ["c", "d", "d"]
    every = Topic(accumulate=True)
    assert decode(folded(every, b'["a","b"]', ["c", "d"], "d")) == ["a", "b", "c", "d", "d"]


async def test_C03_a_step_in_which_nobody_publishes_empties_a_topic():
    class State(TypedDict):
        topic: Annotated[list, Topic()]
        seen: Annotated[list, operator.add]

    async def publish(_state):
        return {"topic": ["a", "b"]}

    async def read(state):
        return {"seen": [state["topic"]]}

    graph = StateGraph(State).add_node("publish", publish).add_node("one", read).add_node("two", read)
    graph.add_edge(START, "publish").add_edge("publish", "one").add_edge("one", "two")
    result = await graph.compile().invoke({"seen": []}, thread_id="t")
    assert result.state["seen"] == [["a", "b"], []]


def test_C04_a_sum_begins_at_nothing_and_survives():
    total = BinaryOperatorAggregate(operator.add, 0)
    raw = folded(total, None, 1, 2, 3)
    assert decode(raw) == 6 and decode(folded(total, raw, 4)) == 10


async def test_C01_two_writes_to_one_key_fail_both_tasks_by_name():
    async def writes(_state):
        return {"n": 1}

    graph = StateGraph(Log).add_node("left", writes).add_node("right", writes)
    graph.add_edge(START, "left").add_edge(START, "right")
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    assert result.reason == "failed"
    assert [failure.node for failure in result.failures] == ["left", "right"]
    assert all(
        "at key 'n'" in failure.message and "left@1, right@1" in failure.message
        for failure in result.failures
    )
    lawful(app)


async def test_C01_with_a_reducer_both_are_kept():
    graph = StateGraph(Log).add_node("left", says("l")).add_node("right", says("r"))
    graph.add_edge(START, "left").add_edge(START, "right")
    result = await graph.compile().invoke({"log": ["in"]})
    assert result.state["log"] == ["in", "l", "r"]


async def test_C06_sends_are_not_merged_and_plain_targets_are():
    def twice(state):
        return [Send("two", {"n": 1}), Send("two", {"n": 1})]

    graph = StateGraph(Log)
    for name in ("one", "two", "three"):
        graph.add_node(name, says(name))
    graph.add_edge(START, "one").add_conditional_edges("one", twice).add_edge("two", "three")
    result = await graph.compile().invoke({"log": ["0"]})
    assert result.state["log"] == ["0", "one", "two", "two", "three"]


async def test_C08_several_commands_of_one_node_are_writes_in_their_order():
    class Root(TypedDict):
        text: Annotated[str, operator.add]

    async def both(_state):
        return [Command(update={"text": "a1"}), Command(update={"text": "a2"})]

    async def last(_state):
        return {"text": "b"}

    graph = StateGraph(Root).add_node("both", both).add_node("last", last)
    graph.add_edge(START, "both").add_edge("both", "last")
    app = graph.compile()
    result = await app.invoke({"text": ""}, thread_id="t")
    assert result.state == {"text": "a1a2b"}
    assert (await app.get_state("t")).values == {"text": "a1a2b"}


async def test_C09_overwrite_sets_the_reducer_aside():
    async def over(_state):
        return {"log": Overwrite(["b"])}

    graph = StateGraph(Log).add_node("a", says("a")).add_node("b", over)
    graph.add_edge(START, "a").add_edge("a", "b")
    assert (await graph.compile().invoke({"log": ["START"]})).state["log"] == ["b"]


async def test_C09_of_an_overwrite_and_an_append_in_one_step_the_append_is_lost():
    async def over(_state):
        return {"log": Overwrite(["b"])}

    graph = StateGraph(Log).add_node("a", says("a")).add_node("b", over)
    graph.add_node("c", says("c")).add_node("d", says("d"))
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "d")
    assert (await graph.compile().invoke({"log": []})).state["log"] == ["b", "d"]


async def test_C09_two_overwrites_in_one_step_are_an_error():
    async def over(_state):
        return {"log": Overwrite([])}

    graph = StateGraph(Log).add_node("b", over).add_node("c", over)
    graph.add_edge(START, "b").add_edge(START, "c")
    result = await graph.compile().invoke({"log": []})
    assert [failure.type for failure in result.failures] == ["InvalidUpdateError"] * 2


async def test_C12_an_untracked_value_is_seen_and_never_recorded():
    class State(TypedDict):
        secret: Annotated[str, Untracked()]
        seen: Annotated[list, operator.add]

    async def tells(_state):
        return {"secret": "swordfish"}

    async def hears(state):
        return {"seen": [len(state["secret"]) if "secret" in state else None]}

    graph = StateGraph(State).add_node("tells", tells).add_node("hears", hears).add_node("again", hears)
    graph.add_edge(START, "tells").add_edge("tells", "hears").add_edge("hears", "again")
    app = graph.compile(interrupt_before=["again"])
    result = await app.invoke({"seen": []}, thread_id="t")
    assert result.state == {"seen": [9]}
    journal = app._driver.session.store._logs["t"][0]
    assert b"swordfish" not in b"".join(journal._log)
    # another executor instance: the value is gone
    result = await app.invoke(None, thread_id="t")
    assert result.state["seen"] == [9, None]


async def test_ephemeral_values_are_seen_in_the_next_step_only():
    class State(TypedDict):
        note: Annotated[str, Ephemeral()]
        seen: Annotated[list, operator.add]

    async def writes(_state):
        return {"note": "hi"}

    async def reads(state):
        return {"seen": [state.get("note")]}

    graph = StateGraph(State).add_node("writes", writes).add_node("one", reads).add_node("two", reads)
    graph.add_edge(START, "writes").add_edge("writes", "one").add_edge("one", "two")
    assert (await graph.compile().invoke({"seen": []})).state["seen"] == ["hi", None]


def test_a_barrier_counts_names_once_and_refuses_others():
    barrier = NamedBarrier(["a", "b"])
    assert decode(folded(barrier, None, "b", "b")) == ["b"]
    with pytest.raises(InvalidUpdateError):
        folded(barrier, None, "x")


def test_messages_are_appended_replaced_and_removed():
    channel = Messages()
    raw = folded(channel, None, "hello", {"role": "assistant", "content": "hi", "id": "x"})
    assert [m["id"] for m in decode(raw)] == ["m1", "x"]
    raw = folded(channel, raw, {"role": "assistant", "content": "ho", "id": "x"})
    assert [m["content"] for m in decode(raw)] == ["hello", "ho"]
    assert [m["id"] for m in decode(folded(channel, raw, RemoveMessage("m1")))] == ["x"]
    with pytest.raises(InvalidUpdateError):
        folded(channel, raw, RemoveMessage("nobody"))
    assert add_messages([], "hi") == [{"role": "user", "content": "hi", "id": "m1"}]


@pytest.mark.parametrize(
    ("update", "told"),
    [
        ({"nope": 1}, "no state key"),
        ({"n": object()}, "n is a builtins.object"),
        ({"n": float("nan")}, "n is nan"),
        (7, "is int"),
    ],
)
async def test_S_validate_before_commit_what_does_not_fit_fails_its_task_by_path(update, told):
    async def bad(_state):
        return update

    graph = StateGraph(Log).add_node("bad", bad).add_node("good", says("good"))
    graph.add_edge(START, "bad").add_edge(START, "good")
    app = graph.compile()
    result = await app.invoke({"log": []}, thread_id="t")
    (failure,) = result.failures
    assert failure.node == "bad" and told in failure.message
    # the sibling's writes stay pending, the state stays readable
    assert result.state["log"] == ["good"] and result.next == ("bad",)


async def test_C13_an_input_that_writes_nothing_or_an_unknown_key():
    app = chain("a")
    with pytest.raises(EmptyInputError):
        await app.invoke({})
    with pytest.raises(InvalidUpdateError, match="nope"):
        await app.invoke({"nope": 1})


async def test_X1_changing_an_input_changes_nothing_anywhere():
    class State(TypedDict):
        items: list
        seen: Annotated[list, operator.add]

    async def spoils(state):
        state["items"].append("spoiled")

    async def looks(state):
        return {"seen": [list(state["items"])]}

    graph = StateGraph(State).add_node("spoils", spoils).add_node("looks", looks).add_node("later", looks)
    graph.add_edge(START, "spoils").add_edge(START, "looks").add_edge("spoils", "later")
    app = graph.compile()
    result = await app.invoke({"items": ["a"], "seen": []}, thread_id="t")
    assert result.state == {"items": ["a"], "seen": [["a"], ["a"]]}
    assert (await app.get_state("t")).values == result.state


def picky(old, new):
    if new == "bad":
        raise ValueError("no")
    return [*old, new]


class Picked(TypedDict):
    items: Annotated[list, picky]


async def test_a_reducer_that_raises_fails_the_task_whose_write_it_folded():
    async def good(_state):
        return {"items": "good"}

    async def bad(_state):
        return {"items": "bad"}

    graph = StateGraph(Picked).add_node("good", good).add_node("bad", bad)
    graph.add_edge(START, "good").add_edge(START, "bad").add_edge("good", END)
    result = await graph.compile().invoke({"items": "first"})
    (failure,) = result.failures
    assert failure.node == "bad" and "the reducer raised ValueError: no" in failure.message


json_lists = st.lists(
    st.one_of(st.integers(-5, 5), st.text(max_size=4), st.lists(st.integers(), max_size=2)), max_size=5
)


@given(json_lists, json_lists)
def test_a_change_is_what_it_was_made_from(before, more):
    """A list that grew is recorded as what it grew by, any other as a whole; either gives it back."""
    for old, new in ((before, before + more), (before, more), (str(before), str(before) + str(more))):
        raw, after = encode(old), encode(new)
        made = change(raw, after)
        assert (behind(raw, made.raw) if made.append else made.raw) == after
    assert change(encode([1]), encode([1, 2])).append


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=5))
def test_adding_lists_without_reading_them_is_adding_lists(writes):
    fast = BinaryOperatorAggregate(operator.add, [])
    slow = BinaryOperatorAggregate(lambda a, b: a + b, [])
    assert folded(fast, b"[0]", *writes) == folded(slow, b"[0]", *writes)
    assert folded(fast, None, *writes) == folded(slow, None, *writes)
