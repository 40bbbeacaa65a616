"""Durable before effects: whatever the journal does, nothing starts and nobody is answered too early."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import InternalError, OperationGraphBuilder, Session, SpawnRequest
from orchestrator.core.commands import Elapsed
from orchestrator.testing.loops import Backend, run_seeded
from tests.seeded.rig import DiskFull, Rig, Scenario, Silence, play
from tests.seeded.scenarios import SCENARIOS, cap, fan, growth, reject, retries

#: Scenarios that come to an end by themselves, whatever is answered.
ALONE = (fan, growth, cap, reject, retries)
backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@pytest.mark.parametrize("how", ["inline", "late"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_late_answer_changes_nothing(scenario: Scenario, how: str):
    """engine.md 1: one code path; the rig holds each start and each receipt to what is durable."""
    outcome, rig = play(scenario, 5, how=how)  # type: ignore[arg-type]
    assert outcome.began
    assert not rig.began_after_fault


class Halts:
    """A scenario that gives up when the journal fails or falls silent."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario, self.__name__ = scenario, scenario.__name__

    async def __call__(self, rig: Rig, session: Session) -> str:
        try:
            await self.scenario(rig, session)
        except Silence:
            return "silence"
        except (AssertionError, KeyError, TypeError):
            # the result of a run that halted is not what the scenario expects of one that ended
            assert rig.runs[0].engine.reason == "needs_recovery"
        return rig.runs[0].engine.reason if rig.runs else "ended"


@backends
@pytest.mark.parametrize("scenario", ALONE, ids=lambda scenario: scenario.__name__)
def test_a_failing_append_halts_the_run(scenario: Scenario, backend: Backend):
    """bad-inputs 7: needs_recovery; nothing begins after it, and nothing decided after it is told."""
    for batches in range(12):
        outcome, rig = play(Halts(scenario), batches, backend=backend, how="failing", batches=batches)
        (desk,) = rig.desks
        assert rig.began_after_fault == []
        assert set(outcome.began) <= desk.started
        if desk.failed:
            assert outcome.same == "needs_recovery"
            assert isinstance(rig.runs[0].engine.kernel.fault, DiskFull)
            assert rig.runs[0].result is not None
            assert rig.runs[0].result.reason == "needs_recovery"
        assert len(desk) == rig.runs[0].engine.kernel.acknowledged


@backends
@pytest.mark.parametrize("scenario", ALONE, ids=lambda scenario: scenario.__name__)
def test_a_journal_that_never_answers(scenario: Scenario, backend: Backend):
    """What is not durable has no effect: the run stands still, and can be left all the same."""
    for batches in range(0, 12, 2):
        outcome, rig = play(Halts(scenario), batches, backend=backend, how="silent", batches=batches)
        (desk,) = rig.desks
        assert set(outcome.began) <= desk.started
        if batches == 0:
            assert outcome.began == []


@backends
def test_a_receipt_that_never_becomes_durable(backend: Backend):
    """bad-inputs 1: the emitter is not told; the node that it asked for is not started."""
    answers: list[object] = []

    async def scenario(rig: Rig, session: Session) -> None:
        @rig.role(emits=(SpawnRequest,))
        async def grows(turn):
            answers.append(await turn.emit(SpawnRequest(assignee="leaf", independent=True)))

        @rig.role()
        async def leaf(turn):
            answers.append("it ran")

        session.roles.add(leaf)
        graph = OperationGraphBuilder()
        graph.add_operation(grows, node_id="grows")
        with pytest.raises(Silence):
            await rig.ran(session, graph)

    # the first batch holds the start of `grows`; the second would hold the child
    outcome, _ = play(scenario, 3, backend=backend, how="silent", batches=1)
    assert outcome.began == [("grows", 1)]
    assert answers == []


@backends
def test_a_decision_that_fails(backend: Backend):
    """engine.md 6: our bug halts the run as needs_recovery, with the story; nothing of it is recorded."""
    found: list[InternalError] = []

    async def scenario(rig: Rig, session: Session) -> None:
        @rig.role(emits=(SpawnRequest,))
        async def waits(turn):
            await turn.emit(SpawnRequest(assignee="nobody"))
            await anyio.sleep_forever()

        graph = OperationGraphBuilder()
        graph.add_operation(waits, node_id="a")
        run = await rig.start(session, graph)
        await anyio.sleep(1)
        before = len(run.engine.kernel.journal)
        # no timer has this name's node: the command cannot be decided, as if a rule had a bug
        run.engine.state.nodes["a"].op = None  # type: ignore[assignment]
        run.engine.tell(Elapsed("deadline", "a", 1))
        with pytest.raises(InternalError) as raised:
            await run.wait()
        found.append(raised.value)
        assert len(run.engine.kernel.journal) == before
        assert run.engine.reason == "needs_recovery"
        rig.runs.clear()

    rig = Rig(1)
    run_seeded(rig.play, scenario, seed=1, backend=backend)
    (error,) = found
    assert [line.split()[2] for line in error.story][:3] == ["GraphPlanned:", "NodeReady", "NodeStarted"]
    assert "Elapsed could not be decided: AttributeError" in str(error)
    assert isinstance(error.__cause__, AttributeError)
