"""Thousands of random histories of the graph machine, each beside a naive model, each law after each command.

A history is a random plan (gates, roles, retries, tiers, conditions, budgets, needs any and all) and random
commands (outcomes with emissions and writes, spawns good and bad, escalations, verdicts, questions, stops,
stale news, timers, pauses, cancellations, injections, raised budgets). At its end everything that can run is
finished: the run must end, or be suspended for the reason that the model gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from orchestrator.core.status import RunReason
from tests.core.driver import Driver, Seeded

T = TypeVar("T")
LENGTH = 60


class Drawn:
    """A chooser that Hypothesis shrinks."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def pick(self, options: Sequence[T]) -> T:
        return self._data.draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))


class Histories(RuleBasedStateMachine):
    """One rule per kind of command, so that Hypothesis can leave out what does not matter."""

    limits = rounds = False

    def __init__(self) -> None:
        super().__init__()
        self.driver: Driver | None = None

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.driver = Driver(Drawn(data), limits=self.limits, rounds=self.rounds)

    def go(self, data: st.DataObject, action: str) -> None:
        assert self.driver is not None
        self.driver.choose = Drawn(data)
        getattr(self.driver, action)()

    def can(self, *statuses: str) -> bool:
        return self.driver is not None and not self.driver.over and bool(self.driver.of(*statuses))

    @precondition(lambda self: self.can("running"))
    @rule(
        data=st.data(), action=st.sampled_from(("finish", "spawn", "say", "ask", "stale", "finish", "spawn"))
    )
    def a_running_node(self, data: st.DataObject, action: str) -> None:
        self.go(data, action)

    @precondition(lambda self: self.can("stopping"))
    @rule(data=st.data())
    def an_attempt_stops(self, data: st.DataObject) -> None:
        self.go(data, "stopped")

    @precondition(lambda self: self.can("asking"))
    @rule(data=st.data())
    def a_person_answers(self, data: st.DataObject) -> None:
        self.go(data, "answer")

    @precondition(lambda self: self.can("backing_off"))
    @rule(data=st.data())
    def a_delay_is_over(self, data: st.DataObject) -> None:
        self.go(data, "elapse")

    @precondition(lambda self: self.can("completed", "failed", "skipped") and self.driver.undecided())
    @rule(data=st.data())
    def a_person_decides(self, data: st.DataObject) -> None:
        self.go(data, "decide")

    @precondition(lambda self: self.driver is not None and not self.driver.over)
    @rule(
        data=st.data(),
        action=st.sampled_from(
            (
                "pause", "unpause", "unpause", "cancel_node", "steer", "inject", "raise_budget", "deadline",
                "rare", "again",
            )
        ),
    )  # fmt: skip
    def the_world(self, data: st.DataObject, action: str) -> None:
        self.go(data, action)

    @precondition(lambda self: self.driver is None or self.driver.over)
    @rule()
    def nothing_happens_after_the_end(self) -> None:
        if self.driver is not None:
            self.driver.too_late()

    def teardown(self) -> None:
        """A chooser by seed from here on: there is nothing left to shrink."""
        if self.driver is not None:
            self.driver.choose = Seeded(0)
            self.driver.finish_all()


class WithResources(Histories):
    """The same with limits and a shared branch."""

    limits = True


class WithRounds(Histories):
    """The same with gates that send work back."""

    rounds = True


@pytest.mark.parametrize("machine", [Histories, WithResources, WithRounds])
def test_histories(machine: type[Histories]) -> None:
    """All laws; the model's statuses, attempts, judgements and reason (shrinks to a short history)."""
    few = settings(
        max_examples=60,
        stateful_step_count=30,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(machine, settings=few)


def history(seed: int, *, limits: bool, rounds: bool = False) -> str:
    """One whole history by seed; why it stopped."""
    choose = Seeded(seed)
    driver = Driver(choose, limits=limits, rounds=rounds)
    for _ in range(choose.number(0, LENGTH)):
        if driver.over:
            break
        driver.step()
    driver.finish_all()
    return driver.state.ended or driver.state.suspended


def reasons(seeds: range, **kind: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        try:
            found[history(seed, **{"limits": False, **kind})] += 1
        except Exception as error:
            error.add_note(f"to see it run history({seed}, **{kind})")
            raise
    return found


@pytest.mark.parametrize("kind", ["", "limits", "rounds"])
def test_histories_by_seed(kind: str) -> None:
    """The same by seed: fast, and the same every time."""
    assert sum(reasons(range(200), **({kind: True} if kind else {})).values()) == 200


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_many_histories_by_seed(block: int) -> None:
    """Four thousand more; together they stop for every reason that a machine can decide by itself."""
    start = 10_000 + block * 500
    found = reasons(range(start, start + 500), limits=bool(block % 2))
    assert sum(found.values()) == 500
    outside = {RunReason.NEEDS_RECOVERY, RunReason.QUOTA, RunReason.STUCK, RunReason.REFUSALS_EXHAUSTED}
    assert set(found) == {reason.value for reason in RunReason} - {reason.value for reason in outside}


@pytest.mark.slow
@pytest.mark.parametrize("limits", [False, True])
def test_many_histories_with_rounds(limits: bool) -> None:
    """Where gates send work back: nested and overlapping loops, tiers, growth, stops between rounds."""
    found = reasons(range(5_000, 5_150), limits=limits, rounds=True)
    assert sum(found.values()) == 150
    assert {"completed", "failed", "gate_rejected", "refusals_exhausted"} <= set(found)
