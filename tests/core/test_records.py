"""Records: every command and every fact reads back as it was written."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.commands import COMMANDS, Command, Pause
from orchestrator.core.facts import FACTS, Fact, Failure, NodeFailed, NodeReady, NodeStarted
from orchestrator.core.records import Record, decode_record, encode_record
from tests.core.build import instances_of, raw

FEW = settings(max_examples=25)


def read_back(record: Record) -> Record:
    return decode_record(encode_record(record))


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_command(kind: type[Command]):
    """Whatever is in its fields."""

    @FEW
    @given(instances_of(kind))
    def check(command: Command) -> None:
        assert read_back(Record(1, 1, 5, command, [])).command == command

    check()


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
def test_fact(kind: type[Fact]):
    """Whatever is in its fields; the word that journals use is the name of its type."""

    @FEW
    @given(instances_of(kind))
    def check(fact: Fact) -> None:
        record = Record(1, 1, 5, Pause(), [fact])
        assert read_back(record).facts == [fact]
        assert msgspec.json.decode(encode_record(record))["facts"][0]["kind"] == kind.__name__

    check()


@given(st.lists(raw, max_size=4), st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**62))
def test_the_rest_of_a_record(values: list[msgspec.Raw], at: int, cause: int, wall: int):
    """Values keep their bytes; numbers are numbers; one record is always the same bytes."""
    record = Record(3, 9, at, Pause(), [NodeReady("a"), NodeStarted("a", 1)], values, cause, wall)
    again = read_back(record)
    assert again == record
    assert encode_record(again) == encode_record(record)
    assert [bytes(value) for value in again.values] == [bytes(value) for value in values]
    assert record.last == 10


@given(st.lists(st.sampled_from("ready started handles failed".split()), max_size=30))
def test_runs_of_ready_nodes(kinds: list[str]):
    """A wide fan is folded on disk and nobody who reads it sees that; order is kept."""
    makers = {
        "ready": lambda number: NodeReady(f"n{number}"),
        "started": lambda number: NodeStarted(f"n{number}", 1),
        "handles": lambda number: NodeReady(f"n{number}", ("x",)),
        "failed": lambda number: NodeFailed(f"n{number}", 1, Failure("E", "m", 1)),
    }
    facts = [makers[kind](number) for number, kind in enumerate(kinds)]
    given_facts = list(facts)
    record = Record(1, 1, 0, Pause(), facts)
    again = read_back(record)
    assert again.facts == given_facts
    assert record.facts == given_facts
    assert again.last == record.last


def test_a_fan_is_small():
    """engine.md 6: one fact for a fan of 10,000."""
    fan = Record(1, 1, 0, Pause(), [NodeReady(f"n{number}") for number in range(10_000)])
    assert len(msgspec.json.decode(encode_record(fan))["facts"]) == 1
    assert len(encode_record(fan)) < 10 * 10_000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"seq":1,"first":1,"at":0,"command":{"kind":"Nonsense"},"facts":[]}',
        b'{"seq":1,"first":1,"at":0,"command":{"kind":"Pause"},"facts":[{"kind":"Nonsense"}]}',
        b'{"seq":"1","first":1,"at":0,"command":{"kind":"Pause"},"facts":[]}',
    ],
)
def test_what_is_no_record(data: bytes):
    """Unknown kinds and wrong layouts are errors, not guesses."""
    with pytest.raises(msgspec.DecodeError):
        decode_record(data)


def test_names_are_kinds():
    """Commands, facts: one name, one meaning, and nothing is called twice."""
    names = [kind.__name__ for kind in (*COMMANDS, *FACTS)]
    assert len(set(names)) == len(names)
