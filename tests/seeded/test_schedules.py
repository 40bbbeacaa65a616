"""Every scenario under many schedules: the laws each time, and the same result where it must be the same."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from orchestrator.core.story import story
from tests.seeded.rig import Scenario, plain, play
from tests.seeded.scenarios import CALM, SCENARIOS

QUICK = 12
MANY = 500
TRIO_QUICK = 4
TRIO_MANY = 60

every = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


def sweep(scenario: Scenario, seeds: Iterable[int], backend: str = "asyncio") -> None:
    """The same outcome under every seed; with a journal that answers at once and with one that is late."""
    first, _ = play(scenario, 0, how="inline")
    for seed in seeds:
        outcome, _ = play(scenario, seed, backend=backend, how="inline" if seed % 4 == 0 else "late")  # type: ignore[arg-type]
        assert outcome.same == first.same, (scenario.__name__, seed, backend)


@every
def test_asyncio(scenario: Scenario):
    """Law 9, law 10: the schedule picks no value (a few seeds)."""
    sweep(scenario, range(1, QUICK))


@every
def test_trio(scenario: Scenario):
    """The same on trio's own random scheduler."""
    sweep(scenario, range(TRIO_QUICK), "trio")


@pytest.mark.slow
@every
def test_asyncio_many(scenario: Scenario):
    """500 seeds."""
    sweep(scenario, range(QUICK, MANY))


@pytest.mark.slow
@every
def test_trio_many(scenario: Scenario):
    """60 seeds."""
    sweep(scenario, range(TRIO_QUICK, TRIO_MANY), "trio")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@every
def test_one_seed_is_one_schedule(scenario: Scenario, backend: str):
    """Law 9: the same seed gives the same records, to the byte, time included."""
    one, other = (play(scenario, 77, backend=backend)[0] for _ in range(2))  # type: ignore[arg-type]
    assert [plain(records) for records in one.records] == [plain(records) for records in other.records]
    assert one.began == other.began


@pytest.mark.parametrize("scenario", CALM, ids=lambda scenario: scenario.__name__)
def test_stories_are_equal(scenario: Scenario):
    """What happens to each node does not depend on the schedule; only when it happens does."""
    told = []
    for seed in range(6):
        outcome, rig = play(scenario, seed, backend="trio" if seed % 2 else "asyncio")
        records = [record for one in outcome.records for record in one]
        nodes = sorted(rig.runs[0].engine.state.nodes)
        told.append({name: [kinds(line) for line in story(records, name)] for name in nodes})
    assert all(one == told[0] for one in told)


def kinds(line: str) -> str:
    return line.split()[2]
