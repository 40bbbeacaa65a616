"""Rates of models, hints to wait, and equal errors in a row, on a clock that the test moves (kernel.md 7)."""

from __future__ import annotations

import pytest

from orchestrator import OperationGraphBuilder, Session, role
from orchestrator.agents.providers import EQUAL_ERRORS, Providers, Rate, rate_of
from orchestrator.errors import OperationError


class Clock:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.time, self.slept = 100.0, list[float]()

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def providers(clock: Clock) -> Providers:
    return Providers(clock.now, clock.sleep)


async def test_requests_a_minute(providers: Providers, clock: Clock):
    """The third call of two a minute waits until the first is a minute old; who waits says why, once."""
    told: list[str] = []
    for _ in range(2):
        await providers.admit("m", Rate(requests=2), told.append)
        clock.time += 10
    assert clock.slept == []
    await providers.admit("m", Rate(requests=2), told.append)
    assert clock.slept == [40.0]
    assert told == ["m: waits 40 s: 2 requests a minute"]
    await providers.admit("other", Rate(requests=2), told.append)
    assert len(clock.slept) == 1


async def test_tokens_a_minute(providers: Providers, clock: Clock):
    """Tokens are known when an answer has come; the next call waits while they fill the minute."""
    rate = Rate(tokens=100)
    await providers.admit("m", rate, print)
    providers.answered("m", 120)
    clock.time += 15
    await providers.admit("m", rate, print)
    assert clock.slept == [45.0]


async def test_a_hint_holds_for_everybody(providers: Providers, clock: Clock):
    """What a provider says about waiting holds for every caller of that model, and only for it."""
    providers.hold("m", 7)
    providers.hold("m", 3)
    await providers.admit("n", Rate(), print)
    assert clock.slept == []
    await providers.admit("m", Rate(), print)
    assert clock.slept == [7.0]


def test_equal_errors_in_a_row(providers: Providers):
    """Five equal ones; another error, or an answer, begins the count anew."""
    for _ in range(EQUAL_ERRORS - 1):
        assert not providers.failed("m", "ModelServerError 500")
    assert not providers.failed("m", "ModelConnectionError")
    for _ in range(EQUAL_ERRORS - 2):
        assert not providers.failed("m", "ModelConnectionError")
    providers.answered("m", 1)
    for _ in range(EQUAL_ERRORS - 1):
        assert not providers.failed("m", "ModelConnectionError")
    assert providers.failed("m", "ModelConnectionError")


def test_rates_of_a_run():
    """Session(limits=) and a document's limits say them by the model's whole name."""
    limits = {"requests:openai:m": 30, "tokens:openai:m": 1_000, "model:openai:m": 2}
    assert rate_of(limits, "openai:m") == Rate(30, 1_000)
    assert rate_of(limits, "openai:n") == Rate()


@pytest.mark.parametrize("limit", ["requests:", "rates:openai:m"])
async def test_a_limit_of_nothing(limit: str):
    """A limit that bounds nothing is refused before anything runs."""

    @role()
    async def nothing(_turn: object) -> None:
        return None

    graph = OperationGraphBuilder()
    graph.add_operation(nothing)
    async with Session(limits={limit: 3}) as session:
        with pytest.raises(OperationError, match="requests:MODEL or tokens:MODEL"):
            await session.flow(graph)
