"""What the tests of stepped runs share: a small state, and threads that are held to the laws."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from orchestrator.core.laws import check, check_facts
from orchestrator.core.supersteps.machine import SuperstepMachine
from orchestrator.supersteps import START, CompiledGraph, StateGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.core.records import Record


class Log(TypedDict):
    """A list that is added to, and two values of one write each."""

    log: Annotated[list, operator.add]
    n: int
    total: Annotated[int, operator.add]


def says(*words: Any) -> Callable[[Any], Any]:
    """A node that adds words to the log."""

    async def node(_state: Any) -> dict[str, Any]:
        return {"log": list(words)}

    return node


def chain(*names: str, schema: type = Log, **compiled: Any) -> CompiledGraph:
    """Nodes in a row, each of which logs its own name."""
    graph = StateGraph(schema)
    for name in names:
        graph.add_node(name, says(name))
    graph.add_edge(START, names[0])
    for before, after in itertools.pairwise(names):
        graph.add_edge(before, after)
    return graph.compile(**compiled)


def records(app: CompiledGraph, thread: str) -> Sequence[Record]:
    return app._driver.session.store.records(thread)


def lawful(app: CompiledGraph, thread: str = "t") -> list[str]:
    """The kinds of a thread's facts, which break no law; neither does the state that they fold to."""
    machine = SuperstepMachine()
    every = records(app, thread)
    broken = check_facts(every)
    for record in every:
        machine.replay(record)
    broken += check(machine.state, folded=True)
    assert not broken, broken
    return [type(fact).__name__ for record in every for fact in record.facts]
