"""The laws of steps that can only be seen in the order of facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Protocol

from orchestrator.core.fact_base import Fact
from orchestrator.core.spec import Budget
from orchestrator.core.supersteps import facts as s
from orchestrator.core.told import Told

__all__ = ["STEP_RULES"]


class _Account(Protocol):
    """What ``core.fact_laws`` keeps in mind."""

    budget: Budget
    tasks: tuple[str, ...]
    sent: dict[str, None]
    spawns: int
    nodes: MutableMapping[str, Told]

    def breach(self, text: str) -> None:
        """Something is wrong."""

    def admit(self, name: str) -> None:
        """A node enters."""


def _planned(account: _Account, fact: s.StepsPlanned) -> None:
    account.budget = fact.budget or account.budget


def _started(account: _Account, fact: s.StepStarted) -> None:
    """A step's tasks are admitted once, when it begins."""
    if not fact.resumed:
        for name in account.sent.keys() - set(fact.active):
            account.breach(f"{name} was asked for and is no task of step {fact.step}")
        account.sent = {}
        account.tasks = fact.active
        for name in fact.active:
            account.admit(name)


def _saved(account: _Account, fact: s.CheckpointSaved) -> None:
    """A step that is behind us had settled, every task of it (law 11)."""
    if fact.keeps or fact.more:
        return
    if fact.source != "step":
        # what was pending is replaced
        account.sent = {}
    for name in account.tasks:
        node = account.nodes.pop(name)
        if not node.settled:
            account.breach(f"step {fact.step} is saved and {name} has not settled")
    account.tasks = ()


def _updated(account: _Account, fact: s.StateUpdated) -> None:
    """Each input has the whole of the budget."""
    if fact.source == "input":
        account.spawns = 0


def _spawned(account: _Account, fact: s.TaskSpawned) -> None:
    """Asked for once, by a task that runs, under the cap (laws 3, 4)."""
    if fact.task in account.sent:
        account.breach(f"{fact.task} is asked for twice")
    if not account.nodes[fact.node].alive:
        account.breach(f"{fact.node} asks for {fact.task} and does not run")
    account.sent[fact.task] = None
    account.spawns += 1
    if account.spawns > account.budget.spawns:
        account.breach(f"{fact.task} is spawn {account.spawns}, at most {account.budget.spawns}")


def _withdrawn(account: _Account, fact: s.TasksWithdrawn) -> None:
    for name in fact.tasks:
        if name not in account.sent:
            account.breach(f"{name} is withdrawn and was not asked for")
        account.sent.pop(name, None)


#: Any: the table pairs each kind of fact with the function that takes it.
STEP_RULES: Mapping[type[Fact], Callable[[Any, Any], None]] = {
    s.StepsPlanned: _planned,
    s.StepStarted: _started,
    s.CheckpointSaved: _saved,
    s.StateUpdated: _updated,
    s.TaskSpawned: _spawned,
    s.TasksWithdrawn: _withdrawn,
}
