"""What a run that reuses an earlier one will do, decided before anything runs.

The machine itself is asked: a run begins in memory, every node whose content equals that of a completed
node takes its outcome, and where nothing equals anything the walk ends. What is left is what will run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from orchestrator.core.commands import Start
from orchestrator.core.context import Reducer
from orchestrator.core.facts import Fact, NodeStarted
from orchestrator.core.machine import GraphMachine
from orchestrator.core.spec import Definition
from orchestrator.core.status import TERMINAL
from orchestrator.runtime.planning import Prepared
from orchestrator.runtime.reusing import Outcome, content_key, finish_with

__all__ = ["forecast"]


def forecast(prepared: Prepared, definition: Definition, earlier: Mapping[str, Outcome]) -> tuple[int, int]:
    """How many nodes take an outcome of the earlier run, and how many are left to run.

    A node behind one that runs counts as one that will run, also if it should be given the same again:
    what it is given is not known before. Conditions that are objects are not asked.

    Args:
        prepared: the run that is to begin. definition: of its functions. earlier: outcomes by content key.
    """
    machine = GraphMachine()
    # nothing runs, so nothing waits for a slot that something else holds
    budget = msgspec.structs.replace(prepared.plan.budget, concurrency=None)
    plan = msgspec.structs.replace(prepared.plan, budget=budget, limits={})
    start = Start("forecast", plan, prepared.known, {}, definition=definition, waits_for_answers=True)
    started = deque(_started(machine.handle(start, 0, prepared.values).facts))
    reducers: Mapping[str, Reducer] = prepared.reducers
    reused = 0
    while started:
        fact = started.popleft()
        node = machine.state.nodes[fact.node]
        key = content_key(machine.state, node, reducers)
        outcome = None if key is None else earlier.get(key)
        if outcome is None:
            continue
        command, values = finish_with(node, fact.attempt, outcome)
        started += _started(machine.handle(command, 0, values).facts)
        reused += 1
    return reused, sum(node.status not in TERMINAL for node in machine.state.nodes.values())


def _started(facts: Iterable[Fact]) -> Iterable[NodeStarted]:
    return (fact for fact in facts if isinstance(fact, NodeStarted))
