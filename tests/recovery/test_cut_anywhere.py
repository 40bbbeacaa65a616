"""A property: any small run, cut at any record, goes on to the end that it would have had (PROP).

What a log holds up to a record is what a process leaves that was killed right after it. The log is cut in
memory, so that hundreds of runs take seconds; real kills are in the other files.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import (
    Budget,
    EscalationRequest,
    OperationGraphBuilder,
    Retry,
    RunResult,
    Session,
    SpawnRequest,
    Verdict,
    role,
)
from orchestrator.core.laws import check, check_facts
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record, decode_record, encode_record
from orchestrator.core.status import TERMINAL
from orchestrator.journal import MemoryJournal
from orchestrator.runtime.replaying import replay
from orchestrator.runtime.stores import MemoryStore
from orchestrator.testing.loops import run_virtual
from tests.recovery import canon
from tests.recovery.crashing import UNDER_WAY, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchestrator.journal import Done
    from orchestrator.testing.loops import Backend

KINDS = "plain grows keyed fails flaky judges rejects hm up steps writes".split()


class Cut(MemoryJournal):
    """A journal in memory that may begin with what another one held; everything is on record in ``log``."""

    __slots__ = ("log",)

    def __init__(self, log: Sequence[bytes] = ()) -> None:
        super().__init__()
        self.log = list(log)

    def submit(self, batch: Sequence[Record], done: Done) -> None:
        self.log += [encode_record(record) for record in batch]
        done(None)

    def __len__(self) -> int:
        return len(self.log)

    def read(self, start: int, stop: int | None = None) -> Sequence[Record]:
        return [decode_record(data) for data in self.log[start:stop]]


CALLS: list[str] = []


@role(emits=(SpawnRequest, Verdict, EscalationRequest), models=("small", "large"))
async def actor(turn: Any) -> Any:
    """Does what its node is for."""
    CALLS.append(turn.node)
    kind, pause = turn.parameters["kind"], turn.parameters["pause"]
    await anyio.sleep(pause)
    match kind:
        case "grows" | "keyed":
            for number in range(2):
                child = {"kind": "writes", "pause": pause / 2}
                key = f"k{number}" if kind == "keyed" else None
                await turn.emit(SpawnRequest(parameters=child, key=key, before="successors"))
                await anyio.sleep(pause)
        case "fails":
            raise ValueError(kind)
        case "flaky" if turn.attempt == 1:
            raise ConnectionError(kind)
        case "judges" | "rejects":
            verdict = "REJECT" if kind == "rejects" else "APPROVE"
            await turn.emit(Verdict(verdict=verdict, rationale=kind))
            await anyio.sleep(pause)
        case "up" if "+" not in turn.node:
            await turn.emit(EscalationRequest(reason="hard"))
            return None
        case "steps":
            return [await turn.step(key, lambda key=key: f"{key} once") for key in "xy"]
        case "writes":
            turn.write("log", [turn.node])
    return {"node": turn.node, "read": list(turn.inputs), "seen": turn.context.get("log")}


@dataclass(frozen=True)
class Shape:
    """A small graph: for each node its kind, its pause in seconds and the earlier nodes that it waits for."""

    nodes: tuple[tuple[str, float, tuple[int, ...]], ...]
    concurrency: int
    spawns: int

    def graph(self) -> OperationGraphBuilder:
        made = OperationGraphBuilder()
        for number, (kind, pause, after) in enumerate(self.nodes):
            made.add_operation(
                actor,
                f"n{number}",
                depends_on=[f"n{one}" for one in after],
                parameters={"kind": kind, "pause": pause},
                gate=kind in {"judges", "rejects", "hm"},
                retry=Retry(attempts=3, backoff=0.5) if kind == "flaky" else None,
            )
        return made


@st.composite
def shapes(draw: Callable[..., Any]) -> Shape:
    nodes = []
    # different pauses: which of two requests takes the last spawn must not hang on a crash
    for number in range(draw(st.integers(2, 6))):
        after = draw(st.lists(st.integers(0, number - 1), unique=True, max_size=2)) if number else []
        nodes.append((draw(st.sampled_from(KINDS)), 0.1 * (number + 1), tuple(sorted(after))))
    return Shape(tuple(nodes), draw(st.sampled_from([1, 2, 4])), 20)


async def played(shape: Shape) -> tuple[RunResult, list[bytes]]:
    """The run without a crash."""
    journal = Cut()
    clock = lambda: int(anyio.current_time() * 1e9)
    async with Session(journal=lambda: journal, seed=1, clock=clock) as session:
        budget = Budget(concurrency=shape.concurrency, spawns=shape.spawns)
        result = await session.flow(shape.graph(), budget=budget, reducers={"log": "extend"})
    return result, journal.log


async def revived(run: str, log: Sequence[bytes]) -> tuple[RunResult, list[bytes]]:
    """The run from a log that was cut, in another session with another clock."""
    journal = Cut(log)
    await anyio.sleep(1_000)
    clock = lambda: int(anyio.current_time() * 1e9)
    async with Session([actor], journal=Cut, seed=2, clock=clock) as session:
        assert isinstance(session._store, MemoryStore)
        session._store._logs[run] = (journal, 1)
        live = await session.resume(run)
        result = await live.wait()
        assert check(live.engine.state) == []
    return result, journal.log


def goes_on(whole: RunResult, calls: Counter[str], log: Sequence[bytes], cut: int, backend: Backend) -> None:
    """The run from its first ``cut`` records comes to the same end."""
    machine = GraphMachine()
    for data in log[:cut]:
        machine.replay(decode_record(data))
    state = machine.state
    assert check(state, folded=True) == []
    if state.ended:
        return
    CALLS.clear()
    result, later = run_virtual(revived, whole.run, log[:cut], backend=backend)
    assert differences(canon.outcome(result), canon.outcome(whole)) == []
    records = [decode_record(data) for data in later]
    assert check_facts(records) == []
    assert replay(records)[1] is None
    settled = {name for name, node in state.nodes.items() if node.status in TERMINAL}
    assert not settled & set(CALLS), "what had settled ran again"
    under_way = Counter(name for name, node in state.nodes.items() if node.status in UNDER_WAY)
    begun = Counter({name: node.attempt for name, node in state.nodes.items()})
    # what the log says began before, what began again, and not more than there was and what was under way
    assert not (begun + Counter(CALLS)) - (calls + under_way)


def whole_run(shape: Shape, backend: Backend) -> tuple[RunResult, list[bytes], Counter[str]]:
    CALLS.clear()
    result, log = run_virtual(played, shape, backend=backend)
    return result, log, Counter(CALLS)


BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@BACKENDS
@settings(max_examples=100)
@given(shape=shapes(), where=st.randoms(use_true_random=False))
def test_cut_at_a_record(backend: Backend, shape: Shape, where: random.Random):
    """PROP: same final result, nothing settled runs again, laws hold, deciding again gives the same facts."""
    whole, log, calls = whole_run(shape, backend)
    for cut in {where.randint(1, len(log)), where.randint(1, len(log))}:
        goes_on(whole, calls, log, cut, backend)


@pytest.mark.slow
@BACKENDS
@settings(max_examples=600)
@given(shape=shapes())
def test_cut_at_every_record(backend: Backend, shape: Shape):
    """The same, at every record of every run."""
    whole, log, calls = whole_run(shape, backend)
    for cut in range(1, len(log) + 1):
        goes_on(whole, calls, log, cut, backend)
