"""Engine 1, law 9: whenever the journal answers, the run comes to the same; effects wait for the answer."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager

import anyio
import pytest

from orchestrator import (
    Budget,
    EscalationRequest,
    Finding,
    NotApplicable,
    OperationGraphBuilder,
    Retry,
    Session,
    SpawnRequest,
    Verdict,
    role,
)
from orchestrator.journal import MemoryJournal
from orchestrator.testing.loops import run_seeded
from tests.scenarios.conftest import lawful


class Late(MemoryJournal):
    """Answers when it likes: whenever its pump is scheduled, or when somebody cannot wait."""

    def __init__(self, seed):
        super().__init__()
        self.waiting = []
        self.draw = random.Random(seed)
        self.batches = 0

    def submit(self, batch, done):
        assert not self.waiting, "a batch was handed over while another is in flight"
        self.waiting.append((list(batch), done))

    def flush(self):
        while self.waiting:
            batch, done = self.waiting.pop()
            self.batches += 1
            super().submit(batch, done)

    async def pump(self):
        while True:  # a busy loop would keep the virtual clock from moving
            await anyio.sleep(self.draw.random() / 100)
            self.flush()


@asynccontextmanager
async def late(seed, *roles, **options):
    """A session whose runs have late journals."""
    journals = []

    def make():
        journals.append(Late(seed))
        group.start_soon(journals[-1].pump)
        return journals[-1]

    async with anyio.create_task_group() as group:
        async with Session(roles, journal=make, **options) as session:
            yield session
        group.cancel_scope.cancel()


@role(emits=(SpawnRequest, Finding))
async def scout(turn):
    """Spawns five where four are allowed, one twice."""
    receipts = [
        await turn.emit(SpawnRequest(assignee="inspector", key=key, before="successors")) for key in "abcda"
    ]
    receipts.append(await turn.emit(Finding(description="seen")))
    return [bool(receipt) or receipt.reason for receipt in receipts]


@role(emits=(Finding,), retry=Retry(attempts=2, backoff=0.5))
async def inspector(turn):
    """Fails once, then returns what it found."""
    if turn.attempt == 1:
        raise ValueError("once")
    return [Finding(description=turn.node)]


@role(models=("small", "large"))
async def worker(turn):
    """Moves up once."""
    return "solved" if "+" in turn.node else EscalationRequest(reason="hard")


@role(emits=(Verdict,))
async def judge(turn):
    """Approves or rejects as it is told."""
    await anyio.lowlevel.checkpoint()
    return Verdict(verdict=turn.parameters["verdict"], rationale=str(len(turn.emissions(Finding))))


@role()
async def asks(turn):
    """Asks, writes and steps."""
    first = await turn.ask("well?")
    turn.write("answers", first)
    return await turn.step("once", lambda: [first, dict(turn.inputs)])


@role()
async def declines(turn):
    """Is not applicable."""
    raise NotApplicable("no")


@role()
async def writes(turn):
    """Writes."""
    turn.write("answers", turn.node)
    return turn.node


def canonical():
    graph = OperationGraphBuilder("canonical")
    graph.add_operation(scout, node_id="scout", depends_on=[])
    graph.add_operation(worker, node_id="work", depends_on=["scout"])
    graph.add_operation(judge, node_id="good", depends_on=["scout", "work"], gate=True, verdict="approve")
    graph.add_operation(judge, node_id="bad", depends_on=["work"], gate=True, verdict="reject")
    graph.add_operation(asks, node_id="ask", depends_on=["good"])
    graph.add_operation(writes, node_id="veto", depends_on=["bad"])
    graph.add_operation(declines, node_id="declined", depends_on=["good"])
    graph.add_operation(writes, node_id="writes", depends_on=["good"])
    graph.add_operation(writes, node_id="last", depends_on=["ask", "writes", "declined"])
    return graph


async def through(session):
    live = await session.start(
        canonical(),
        budget=Budget(spawns=4, concurrency=3),
        reducers={"answers": "append"},
        waits_for_answers=True,
    )
    async for event in live.events(kinds=("QuestionAsked",)):
        assert live.answer(event.node, "forty-two")
        break
    return await lawful(live)


def summary(run):
    result = run.result
    return (
        run.statuses(),
        {name: node.value for name, node in result.nodes.items()},
        result.reason,
        dict(result.final_context),
        [(d.reason, d.emitter_id, d.key) for d in result.dropped_spawns],
        result.spawned,
    )


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_the_same_result_whenever_the_journal_answers(anyio_backend, first):
    """Law 9, engine 1: inline and late journals, any schedule: the same nodes, values, refusals and
    reason.
    """

    async def inline():
        async with Session([inspector]) as session:
            return summary(await through(session))

    async def delayed(seed):
        async with late(seed, inspector) as session:
            return summary(await through(session))

    wanted = run_seeded(inline, seed=0, backend=anyio_backend)
    assert wanted[2] == "gate_rejected"
    assert wanted[1]["scout"] == [True, True, True, True, "duplicate", True]
    assert wanted[3] == {"answers": ["forty-two", "writes", "last"]}
    for seed in range(first, first + 10):
        assert run_seeded(inline, seed=seed, backend=anyio_backend) == wanted, f"inline, seed {seed}"
        assert run_seeded(delayed, seed, seed=seed, backend=anyio_backend) == wanted, f"late, seed {seed}"


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_nothing_happens_before_it_is_durable(anyio_backend, first):
    """Engine 1: a body begins, a receipt is given, an event is told only after its record was answered."""
    acknowledged = set()

    class Watched(Late):
        def submit(self, batch, done):
            def watch(error=None):
                acknowledged.update(fact.node for r in batch for fact in r.facts if hasattr(fact, "attempt"))
                done(error)

            super().submit(batch, watch)

    @role(emits=(SpawnRequest,))
    async def grows(turn):
        assert turn.node in acknowledged
        if turn.parameters.get("grow", True):
            receipt = await turn.emit(SpawnRequest(parameters={"grow": False}, before="successors"))
            (live,) = sessions[-1].runs()
            assert receipt.node in live.engine.state.nodes
            kernel = live.engine.kernel
            assert kernel.acknowledged == len(kernel.journal) > 0

    sessions = []

    async def main(seed):
        acknowledged.clear()
        graph = OperationGraphBuilder()
        for name in "abc":
            graph.add_operation(grows, node_id=name)
        journals = []

        def make():
            journals.append(Watched(seed))
            group.start_soon(journals[-1].pump)
            return journals[-1]

        async with anyio.create_task_group() as group:
            async with Session(journal=make) as session:
                sessions.append(session)
                run = await lawful(await session.start(graph))
            group.cancel_scope.cancel()
        assert run.reason == "completed", [node.error for node in run.result.nodes.values()]
        assert run.result.spawned_operations == 3

    for seed in range(first, first + 25):
        run_seeded(main, seed, seed=seed, backend=anyio_backend)


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_cancelling_while_records_are_in_flight(anyio_backend, first):
    """Engine 9, CANCEL 43: the run or a node is cancelled with starts undurable: all settles, nothing
    starts late.
    """

    @role()
    async def body(turn):
        await anyio.lowlevel.checkpoint()

    async def main(seed):
        graph = OperationGraphBuilder()
        for number in range(6):
            graph.add_operation(body, node_id=f"a{number}", depends_on=[])
            graph.add_operation(body, node_id=f"b{number}", depends_on=[f"a{number}"])
        async with late(seed) as session:
            live = await session.start(graph, budget=Budget(concurrency=3))
            for _ in range(seed % 11):
                await anyio.lowlevel.checkpoint()
            live.cancel(f"a{seed % 6}")
            for _ in range(seed % 7):
                await anyio.lowlevel.checkpoint()
            if seed % 2:
                live.cancel()
            run = await lawful(live)
        assert run.reason in {"completed", "cancelled"}

    for seed in range(first, first + 25):
        run_seeded(main, seed, seed=seed, backend=anyio_backend)
