"""The real engine under bad schedules: seeded loops, and a journal that answers when it likes.

A `Desk` is a journal: it keeps what it is given and acknowledges at once, later, after some batches never
again, or with an error. A `Rig` runs one scenario once: every body that begins looks whether its start is
durable, every receipt whether its emission is, and at the end every law is checked over state and facts.
Bodies and taps are async: a thread would bring a schedule that no seed names.
"""

from __future__ import annotations

import functools
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import anyio
import msgspec

from emissions import Emission, Receipt
from orchestrator import Role, Run, RunResult, Session, role
from orchestrator.core import facts as f
from orchestrator.core import laws
from orchestrator.core.records import Record, decode_record, encode_record
from orchestrator.journal import Done, Journal
from orchestrator.testing.loops import Backend, run_seeded

How = Literal["inline", "late", "silent", "failing"]
Body = Callable[[Any], Awaitable[Any]]
Scenario = Callable[["Rig", Session], Awaitable[Any]]

_ANSWERS = (f.EmissionAccepted, f.EmissionRefused, f.SpawnRefused)


class DiskFull(OSError):
    """What a failing desk answers with."""


class Silence(Exception):
    """The journal never answered, and the run was left."""


class Desk:
    """A journal (implements ``orchestrator.journal.Journal``).

    Args:
        draw: its luck. how: when it acknowledges. batches: how many it takes before it falls silent or fails.
    """

    def __init__(self, draw: random.Random, how: How, batches: int = 0) -> None:
        self.draw, self.how, self.left = draw, how, batches
        self.run = ""
        self.log: list[bytes] = []
        self.started: set[tuple[str, int]] = set()
        self.answers: Counter[str] = Counter()
        self.over = self.failed = False
        self._waiting: deque[tuple[Sequence[Record], Done]] = deque()
        self._rung = anyio.Event()

    def submit(self, batch: Sequence[Record], done: Done) -> None:
        assert not self._waiting, "a second batch is in flight"
        assert batch
        if self.how == "inline":
            self._keep(batch, done)
            return
        self._waiting.append((batch, done))
        self._rung.set()

    async def serve(self) -> None:
        """Acknowledge after a while, as long as luck lasts."""
        while True:
            await self._rung.wait()
            self._rung = anyio.Event()
            for _ in range(self.draw.randrange(4)):
                await anyio.lowlevel.checkpoint()
            if self.draw.random() < 0.2:
                await anyio.sleep(self.draw.random())
            self.flush()

    def flush(self) -> None:
        while self._waiting:
            if self.how in ("silent", "failing"):
                self.left -= 1
                if self.left < 0:
                    self._give_up()
                    return
            self._keep(*self._waiting.popleft())

    def _give_up(self) -> None:
        self.over = True
        if self.how == "failing":
            self.failed = True
            _, done = self._waiting.popleft()
            done(DiskFull("no space left"))

    def _keep(self, batch: Sequence[Record], done: Done) -> None:
        for record in batch:
            self.log.append(encode_record(record))
            for fact in record.facts:
                if isinstance(fact, f.RunStarted):
                    self.run = fact.run
                elif isinstance(fact, f.NodeStarted):
                    self.started.add((fact.node, fact.attempt))
                elif isinstance(fact, _ANSWERS):
                    self.answers[fact.node or ""] += 1
        done(None)

    def close(self) -> None:
        """Nothing is held."""

    def __len__(self) -> int:
        return len(self.log)

    def read(self, start: int, stop: int | None = None) -> Sequence[Record]:
        return [decode_record(data) for data in self.log[start:stop]]


@dataclass
class Outcome:
    """One run of one scenario: what it says must be equal for all seeds, and what was recorded."""

    same: Any
    records: list[list[Record]]
    began: list[tuple[str, int]]


class Rig:
    """One run of a scenario under one schedule."""

    def __init__(self, seed: int, how: How = "late", batches: int = 0) -> None:
        self.draw = random.Random(seed)
        self.how, self.batches = how, batches
        self.desks: list[Desk] = []
        self.runs: list[Run] = []
        self.began: list[tuple[str, int]] = []
        self.began_after_fault: list[tuple[str, int]] = []
        #: what went wrong inside bodies, where an error would only fail a node
        self.broken: list[str] = []
        self._receipts: Counter[tuple[str, str]] = Counter()
        self._group: anyio.abc.TaskGroup | None = None

    # --- for scenarios -------------------------------------------------------------------------

    def role(self, **options: Any) -> Callable[[Body], Role]:
        """``@role`` whose body first looks whether its start is durable."""

        def make(fn: Body) -> Role:
            @functools.wraps(fn)
            async def body(turn: Any) -> Any:
                self._begins(turn)
                await self.pause()
                return await fn(turn)

            return role(**options)(body)

        return make

    async def emit(self, turn: Any, emission: Emission) -> Receipt:
        """``turn.emit``; the receipt is given out only when what it says is durable."""
        receipt: Receipt = await turn.emit(emission)
        self._receipts[turn.run, turn.node] += 1
        if self._desk(turn.run).answers[turn.node] < self._receipts[turn.run, turn.node]:
            self.broken.append(f"{turn.node} was answered before the answer was durable")
        return receipt

    async def pause(self) -> None:
        """A moment that the seed draws: nothing, a turn of the loop, or some time."""
        luck = self.draw.random()
        if luck < 0.3:
            return
        await (anyio.sleep(luck) if luck > 0.7 else anyio.lowlevel.checkpoint())

    async def start(self, session: Session, graph: Any, **options: Any) -> Run:
        run = await session.start(graph, **options)
        self.runs.append(run)
        return run

    async def ran(self, session: Session, graph: Any, **options: Any) -> RunResult:
        if self.how == "silent":
            # nobody will ever say that it is over: the task that drives it is cancelled
            with anyio.move_on_after(1_000):
                return await session.flow(graph, **options)
            raise Silence
        run = await self.start(session, graph, **options)
        return await run.wait()

    # --- checking ------------------------------------------------------------------------------

    def _begins(self, turn: Any) -> None:
        desk = self._desk(turn.run)
        if (turn.node, turn.attempt) not in desk.started:
            self.broken.append(f"{turn.node} began before its start was durable")
        self.began.append((turn.node, turn.attempt))
        if desk.failed:
            self.began_after_fault.append((turn.node, turn.attempt))

    def _desk(self, run: str) -> Desk:
        return next(desk for desk in self.desks if desk.run == run)

    def _journal(self) -> Journal:
        desk = Desk(self.draw, self.how, self.batches)
        assert isinstance(desk, Journal)
        self.desks.append(desk)
        if self._group is not None and self.how != "inline":
            self._group.start_soon(desk.serve)
        return desk

    async def play(self, scenario: Scenario) -> Outcome:
        """Run the scenario; check every law of every run that it made."""
        async with anyio.create_task_group() as group:
            self._group = group
            clock = lambda: int(anyio.current_time() * 1e9)
            async with Session(journal=self._journal, seed=1, clock=clock) as session:
                same = await scenario(self, session)
            group.cancel_scope.cancel()
        assert self.broken == []
        for run in self.runs:
            assert laws.check(run.engine.state) == []
        records = [list(desk.read(0)) for desk in self.desks]
        for run_records in records:
            assert laws.check_facts(run_records) == []
        return Outcome(same, records, self.began)


def play(
    scenario: Scenario, seed: int, *, backend: Backend = "asyncio", how: How = "late", batches: int = 0
) -> tuple[Outcome, Rig]:
    """One scenario under one schedule; an error says which."""
    rig = Rig(seed, how, batches)
    try:
        return run_seeded(rig.play, scenario, seed=seed, backend=backend), rig
    except BaseException as error:
        error.add_note(f"{scenario.__name__}, seed {seed}, {backend}, journal {how} ({batches})")
        raise


def told(result: RunResult) -> dict[str, Any]:
    """What a run came to, as far as no schedule may change it."""
    return {
        "reason": str(result.reason),
        "nodes": {
            name: (str(node.status), node.error.type if node.error else node.value)
            for name, node in sorted(result.nodes.items())
        },
        "context": dict(result.final_context),
    }


def plain(records: list[Record]) -> list[Any]:
    """Records without what differs from run to run by nature: the run's id and the wall clock."""
    rows = msgspec.json.decode(msgspec.json.encode(records))
    for row in rows:
        row.pop("wall", None)
        row["command"].pop("time", None)
        row["command"].pop("run", None)
        for fact in row["facts"]:
            fact.pop("time", None)
            if fact["kind"] == "RunStarted":
                fact.pop("run", None)
    return list(rows)
