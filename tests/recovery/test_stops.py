"""Every way in which a run stops, and what goes on from there: killed after the stop, and once more.

The process of each run dies by SIGKILL when the run has stopped, before it could tidy anything up. Then the
command that the table names goes on, in another process; that one is killed too, at its first append, and
the command is given again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from orchestrator import Budget, OperationGraphBuilder, Run, Session
from orchestrator.journal.control import request
from tests.recovery import cast
from tests.recovery.canon import Told
from tests.recovery.crashing import Found, Moment, Point, decided_again, die, driven, found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from orchestrator.testing.loops import Backend

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


async def in_session(folder: Path, work: Callable[[Session], Awaitable[Run]]) -> None:
    """Drive a run until it stops, and die before its session is left."""
    Told.path = folder / "told"
    clock = lambda: int(anyio.current_time() * 1e9)
    async with Session(cast.CAST, journal=folder / "j.db", clock=clock, folder=folder, grace=5) as session:
        run = await work(session)
        await run.wait()
        die()


def process(
    folder: Path, backend: Backend, work: Callable[[Session], Awaitable[Run]], point: Point | None = None
) -> Found:
    """Do one command in a process that dies at a point, or when the run has stopped."""
    assert driven(folder, backend, point, lambda at: in_session(at, work))
    return found(folder)


@dataclass(frozen=True)
class Stop:
    """One row of the table.

    Attributes:
        graph: what runs, with ``options``. meanwhile: what is done to the live run.
        left: node -> status after the stop. mend: what is done while nothing runs.
        next: the command that goes on; ``ends`` is what it leads to. calls: node -> how often it ran in all.
    """

    reason: str
    graph: Callable[[OperationGraphBuilder], object]
    left: Mapping[str, str]
    ends: str
    done: Mapping[str, str]
    calls: Mapping[str, int]
    options: Mapping[str, Any] = field(default_factory=dict)
    meanwhile: Callable[[Run], Awaitable[None]] | None = None
    mend: Callable[[Path, str], object] | None = None
    next: Callable[[Session], Awaitable[Run]] = lambda session: session.resume()

    def begin(self, session: Session) -> Awaitable[Run]:
        return begun(self, session)


async def begun(stop: Stop, session: Session) -> Run:
    builder = OperationGraphBuilder()
    stop.graph(builder)
    run = await session.start(builder.get_graph(), **stop.options)
    if stop.meanwhile is not None:
        await stop.meanwhile(run)
    return run


# --- graphs ------------------------------------------------------------------------------------------


def chain(*roles: Any, **second: Any) -> Callable[[OperationGraphBuilder], None]:
    """``a``, ``b`` and ``c``, each only after the one before has completed."""

    def make(graph: OperationGraphBuilder) -> None:
        for name, role in zip("abc", roles, strict=True):
            graph.add_operation(role, name, depends_on=[], **(second if name == "b" else {}))
        graph.add_edge("a", "b", accept=["completed"])
        graph.add_edge("b", "c", accept=["completed"])

    return make


def beside(graph: OperationGraphBuilder) -> None:
    """Something slow beside what waits for it."""
    graph.add_operation(cast.ok, "a", depends_on=[])
    graph.add_operation(cast.slow, "b", depends_on=["a"])
    graph.add_operation(cast.ok, "c", depends_on=["b"])


async def after_a_second(run: Run, what: Callable[[Run], object]) -> None:
    await anyio.sleep(1)
    assert what(run)


def told(kind: str, **payload: Any) -> Callable[[Path, str], object]:
    """Ask something of a run that nobody drives."""
    return lambda folder, run: request(folder / "j.db", run, kind, payload)


GATED = chain(cast.ok, cast.decides, cast.ok, gate=True)
HELD = {"a": "completed", "b": "completed", "c": "waiting"}
ALL = {"a": "completed", "b": "completed", "c": "completed"}
FAILED = {"a": "completed", "b": "failed", "c": "skipped"}
ONCE = {"a": 1, "b": 1, "c": 1}

STOPS = {
    "failed, retry": Stop(
        "failed", chain(cast.ok, cast.needs_file, cast.ok), FAILED, "completed", ALL, {**ONCE, "b": 2},
        mend=lambda folder, _run: cast.there(folder), next=lambda session: session.retry(),
    ),
    "failed, retry by name": Stop(
        "failed", chain(cast.ok, cast.needs_file, cast.ok), FAILED, "completed", ALL, {**ONCE, "b": 2},
        mend=lambda folder, _run: cast.there(folder), next=lambda session: session.retry(nodes=["b"]),
    ),
    "undecided, retry": Stop(
        "gate_undecided", GATED, HELD, "completed", ALL, {**ONCE, "b": 2}, {"reducers": {"said": "extend"}},
        mend=lambda folder, _run: cast.there(folder), next=lambda session: session.retry(nodes=["b"]),
    ),
    "undecided, answer APPROVE": Stop(
        "gate_undecided", GATED, HELD, "completed", ALL, ONCE, {"reducers": {"said": "extend"}},
        mend=told("answer", node="b", value="APPROVE", because="read it"),
    ),
    "undecided, answer with the resume": Stop(
        "gate_undecided", GATED, HELD, "completed", ALL, ONCE, {"reducers": {"said": "extend"}},
        next=lambda session: session.resume(answers={"b": "APPROVE"}),
    ),
    "undecided, answer REJECT": Stop(
        "gate_undecided", GATED, HELD, "gate_rejected", {**ALL, "c": "vetoed"}, {"a": 1, "b": 1},
        {"reducers": {"said": "extend"}}, mend=told("answer", node="b", value="REJECT"),
    ),
    "awaiting an answer": Stop(
        "awaiting_answer", chain(cast.ok, cast.asks, cast.ok),
        {"a": "completed", "b": "asking", "b.ok-1": "waiting", "b.ok-2": "waiting", "c": "waiting"},
        "completed", {**ALL, "b.ok-1": "completed", "b.ok-2": "completed", "b.ok-3": "completed"},
        {**ONCE, "b": 2, "b.ok-1": 1, "b.ok-2": 1, "b.ok-3": 1},
        mend=told("answer", node="b", key="colour", value="red"),
    ),
    "budget exhausted": Stop(
        "budget_exhausted", chain(cast.ok, cast.ok, cast.ok),
        {"a": "ready", "b": "waiting", "c": "waiting"}, "completed", ALL, ONCE, {"budget": Budget(tokens=0)},
        next=lambda session: session.resume(budget={"tokens": 10}),
    ),
    "deadline": Stop(
        "deadline", beside, {"a": "completed", "b": "ready", "c": "waiting"}, "completed", ALL,
        {**ONCE, "b": 2}, {"budget": Budget(wall_clock=3)},
        next=lambda session: session.resume(budget={"wall_clock": 100}),
    ),
    "drained": Stop(
        "drained", beside, {"a": "completed", "b": "completed", "c": "ready"}, "completed", ALL, ONCE,
        meanwhile=lambda run: after_a_second(run, Run.drain),
    ),
    "interrupted": Stop(
        "interrupted", beside, {"a": "completed", "b": "ready", "c": "waiting"}, "completed", ALL,
        {**ONCE, "b": 2}, meanwhile=lambda run: after_a_second(run, Run.interrupt),
    ),
    "drained, then cancelled": Stop(
        "drained", beside, {"a": "completed", "b": "completed", "c": "ready"}, "cancelled",
        {**ALL, "c": "cancelled"}, {"a": 1, "b": 1},
        meanwhile=lambda run: after_a_second(run, Run.drain), mend=told("cancel", reason="enough"),
    ),
}  # fmt: skip


def statuses(run: Found) -> dict[str, str]:
    return {name: str(node.status) for name, node in run.state.nodes.items()}


def hands_on(stop: Stop, ram: Path, backend: Backend, moment: Moment | None) -> Found:
    """Stop; go on, in a process that dies at its first append if there is a moment; go on."""
    first = process(ram, backend, stop.begin)
    assert (first.stopped, statuses(first)) == (stop.reason, dict(stop.left))
    if stop.mend is not None:
        stop.mend(ram, first.run)
    last = first
    if moment is not None:
        last = process(ram, backend, stop.next, Point(1, moment))
    if last.run == first.run and len(last.records) == len(first.records):
        last = process(ram, backend, stop.next)
    elif not last.state.ended:
        # what a killed command had recorded holds: then there is nothing left but to resume
        last = process(ram, backend, lambda session: session.resume())
    decided_again(last.records)
    return last


def holds(stop: Stop, ram: Path, backend: Backend, moment: Moment | None) -> None:
    """The stop, a kill, what goes on, one more kill: it ends as it is to, and nothing settled runs again."""
    last = hands_on(stop, ram, backend, moment)
    assert last.state.ended == stop.ends
    assert statuses(last) == dict(stop.done)
    extra = last.called() - Counter(stop.calls)
    if moment in {"after", "stored"}:
        # what the killed command had started was under way
        assert sum(extra.values()) <= 1
    else:
        assert last.called() == dict(stop.calls)


KILLS = pytest.mark.parametrize(
    "moment",
    ["stored", *(pytest.param(moment, marks=pytest.mark.slow) for moment in (None, "before", "after"))],
)


@BACKENDS
@KILLS
@pytest.mark.parametrize("name", STOPS)
def test_a_stop_and_what_goes_on(ram: Path, name: str, moment: Moment | None, backend: Backend):
    """S66, RESUME 61, 68, 74: each row; what has settled does not run again."""
    holds(STOPS[name], ram, backend, moment)
