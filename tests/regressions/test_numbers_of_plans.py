"""Numbers in budgets and retries that no record can hold, or that mean nothing."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import Budget, OperationError, OperationGraphBuilder, Retry, Session, role, run_sync
from tests.scenarios.conftest import ran

pytestmark = pytest.mark.anyio
NAN, INF = float("nan"), float("inf")


@role()
async def ok(turn: Any) -> str:
    return turn.node


@pytest.mark.parametrize(
    "limits",
    [
        {"wall_clock": NAN},
        {"wall_clock": "5"},
        {"wall_clock": -1},
        {"tokens": "3"},
        {"tokens": NAN},
        {"cost_usd": [1]},
        {"cost_usd": INF},
        {"spawns": 1.5},
        {"spawns": True},
        {"spawns": None},
        {"depth": 2**70},
        {"concurrency": NAN},
        {"concurrency": "3"},
        {"concurrency": 1.5},
        {"assignees": "ok"},
    ],
    ids=repr,
)
async def test_a_budget_that_is_no_number(limits: dict[str, Any]) -> None:
    """Fault: such budgets raised TypeErrors in the middle of the run, halted it, or were read as no limit."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok)
    async with Session() as session:
        with pytest.raises(OperationError, match=next(iter(limits))):
            await session.flow(graph, budget=Budget(**limits))


@pytest.mark.parametrize(
    "fields",
    [
        {"backoff": 1e300, "max_delay": INF},
        {"backoff": 1.0, "factor": INF},
        {"attempts": 2.5},
        {"attempts": "3"},
        {"backoff": "1"},
        {"on": "ValueError"},
    ],
    ids=repr,
)
def test_a_retry_that_does_not_fit(fields: dict[str, Any]) -> None:
    """Fault: delays that are no whole nanoseconds halted the run at the first retry."""
    graph = OperationGraphBuilder()
    with pytest.raises(OperationError, match="retry"):
        graph.add_operation(ok, retry=Retry(**{"attempts": 3, **fields}))


async def test_a_factor_that_overflows_is_the_longest_delay() -> None:
    """Fault: the power of a large factor overflowed in a decision, which halted the run."""

    @role()
    async def fails(turn: Any) -> None:
        raise ValueError

    graph = OperationGraphBuilder()
    graph.add_operation(fails, retry=Retry(attempts=5, backoff=0.001, factor=1e300, max_delay=0.001))
    run = await ran(graph)
    assert run["fails"].attempts == 5


async def test_a_budget_that_is_none() -> None:
    """Fault: a number where a Budget belongs was an AttributeError of the engine's insides."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok)
    async with Session() as session:
        for given in (3, 0, {"spawns": 3}):
            with pytest.raises(OperationError, match="give a Budget"):
                await session.flow(graph, budget=given)  # type: ignore[arg-type]


def test_an_option_of_the_session() -> None:
    """Fault: the message named Session.flow, which the caller had not called."""
    graph = OperationGraphBuilder()
    graph.add_operation(ok)
    with pytest.raises(TypeError, match=r"async with Session\(journal=\.\.\.\)"):
        run_sync(graph, journal="x.db")
