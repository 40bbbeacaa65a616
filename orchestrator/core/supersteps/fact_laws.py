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
        account.tasks = fact.active
        for name in fact.active:
            account.admit(name)


def _saved(account: _Account, fact: s.CheckpointSaved) -> None:
    """A step that is behind us had settled, every task of it (law 11)."""
    if fact.keeps or fact.more:
        return
    for name in account.tasks:
        node = account.nodes.pop(name)
        if not node.settled:
            account.breach(f"step {fact.step} is saved and {name} has not settled")
    account.tasks = ()


#: Any: the table pairs each kind of fact with the function that takes it.
STEP_RULES: Mapping[type[Fact], Callable[[Any, Any], None]] = {
    s.StepsPlanned: _planned,
    s.StepStarted: _started,
    s.CheckpointSaved: _saved,
}
