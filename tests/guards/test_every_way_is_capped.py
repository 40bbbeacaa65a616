"""The spawn budget holds for every way in which a graph grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from emissions import Refused
from orchestrator.core import commands as c
from orchestrator.core.facts import NodeSpawned
from orchestrator.core.spec import Budget
from tests.core.plainly import plainly
from tests.core.small import Small, plan


def spawned(run: Small, number: int) -> Any:
    return run.emit("a", "SpawnRequest", assignee="worker", instruction=str(number))


def assigned(run: Small, number: int) -> Any:
    return run.emit("a", "TaskAssignment", name=f"n{number}", task="look", assignee="worker")


def injected(run: Small, number: int) -> Any:
    return run.tell(c.Inject(c.Proposal("inject", assignee="worker", node=f"n{number}"))).receipts[0]


def proposed(run: Small, number: int) -> Any:
    proposal = c.Proposal("inject", assignee="worker", node=f"n{number}", independent=True, emission=0)
    emission = c.EmissionIn("Finding", 0)
    payload = b'{"description":"%d"}' % number
    return run.tell(c.Emit("a", 1, emission, (proposal,)), payload).receipts[0]


@pytest.mark.parametrize("ask", [spawned, assigned, injected])
def test_the_cap(ask: Callable[[Small, int], Any]):
    """S5, law 4: two are taken; the third is refused with the reason and leaves nothing but its refusal."""
    run = Small(plan("a", budget=Budget(spawns=2)))
    assert ask(run, 1)
    assert ask(run, 2)
    before = plainly(run.state)
    receipt = ask(run, 3)
    assert isinstance(receipt, Refused)
    assert receipt.reason == "max_spawn_exceeded"
    after = plainly(run.state)
    counted = {"refused_outside"} if ask is injected else set()
    assert {name for name in before if before[name] != after[name]} == {"facts", "refused"} | counted


def test_what_a_handler_proposes_is_capped():
    """S9: a handler's nodes count; the emission itself is taken all the same."""
    run = Small(plan("a", budget=Budget(spawns=2)))
    for number in range(4):
        assert proposed(run, number)
    assert len(run.facts_of(NodeSpawned)) == run.state.spawns == 2
    assert [reason for _, reason, *_ in run.state.refused] == ["max_spawn_exceeded"] * 2
