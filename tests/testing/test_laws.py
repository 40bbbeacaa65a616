"""The laws are held over whatever a test has in its hands, and say what is broken."""

from __future__ import annotations

import dataclasses

import anyio
import pytest

from emissions import Verdict
from orchestrator.core.status import RunReason, Status
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.runtime.session import Session
from orchestrator.testing import (
    LawError,
    LawfulSession,
    assert_laws,
    broken_laws,
    run_flow_with,
    scripted,
    story,
    waits,
)

pytestmark = pytest.mark.anyio


def gated(verdict: str) -> OperationGraphBuilder:
    graph = OperationGraphBuilder("gated")
    graph.add_operation(scripted(1, name="draft"))
    graph.add_operation(scripted(Verdict(verdict=verdict, rationale="so"), name="review"), gate=True)
    graph.add_operation(scripted(2, name="publish"))
    return graph


@pytest.mark.parametrize("verdict", ["APPROVE", "REJECT"])
async def test_runs_keep_them(verdict: str):
    """A run that is live, one that is over, and its result."""
    async with Session() as session:
        run = await session.start(gated(verdict))
        assert_laws(run)
        result = await run.wait()
        assert_laws(run)
        assert_laws(result)


async def test_a_broken_state_is_told():
    """White box: a counter that is wrong is found, by name, with the run."""
    async with Session() as session:
        run = await session.start(gated("REJECT"))
        await run.wait()
        run.engine.state.spawns += 1
        with pytest.raises(LawError, match=f"run {run.id} breaks 1 laws") as raised:
            assert_laws(run)
        assert broken_laws(run) == list(raised.value.broken)
        assert "counter spawns is 1" in raised.value.broken[0]


async def test_a_broken_result_is_told():
    """What a result alone can show: each of its contradictions."""
    result = await run_flow_with(gated("REJECT"))
    assert broken_laws(result) == []
    nodes = dict(result.nodes)
    nodes["publish"] = dataclasses.replace(nodes["publish"], attempts=1)
    assert broken_laws(dataclasses.replace(result, nodes=nodes)) == ["publish: it is vetoed and ran 1 times"]
    nodes["publish"] = dataclasses.replace(nodes["publish"], status=Status.RUNNING)
    nodes["review"] = dataclasses.replace(nodes["review"], status=Status.FAILED)
    nodes["draft"] = dataclasses.replace(nodes["draft"], superseded_by="nobody")
    assert broken_laws(dataclasses.replace(result, nodes=nodes, reason=RunReason.COMPLETED)) == [
        "the run ended as completed with unsettled nodes: publish",
        "the run completed although review rejected",
        "draft: nobody took its place and is no node",
        "review: it failed without an error",
        "publish: it is running with vetoed_by ('review',)",
    ]


async def test_a_story_tells_one_node():
    """Every fact about it, in order, with causes."""
    async with LawfulSession() as session:
        run = await session.start(gated("REJECT"))
        await run.wait()
        told = story(run, "publish").splitlines()
    assert "GraphPlanned" in told[0]
    assert "NodeVetoed" in told[-1]
    assert all("draft" not in line for line in told)
    assert story(run, "nobody") == ""


async def test_a_lawful_session_checks_when_it_is_left():
    """Every run of it, however it was started; a run that is cut short too."""
    event = anyio.Event()
    async with LawfulSession() as session:
        await session.flow(gated("APPROVE"))
        graph = OperationGraphBuilder()
        graph.add_operation(scripted(waits(event), name="sleeper"))
        live = await session.start(graph)
        await anyio.wait_all_tasks_blocked()
    assert live.result is not None
    assert live.result.reason is RunReason.INTERRUPTED
    assert len(session.made) == 2


async def test_a_lawful_session_tells():
    async def break_it() -> None:
        async with LawfulSession() as session:
            await session.flow(gated("APPROVE"))
            session.made[0].engine.state.live += 1

    with pytest.raises(LawError, match="counter live is 1"):
        await break_it()


async def test_a_lawful_session_does_not_hide_the_test_s_own_error():
    """The error of the body comes first."""

    async def fail() -> None:
        async with LawfulSession() as session:
            await session.flow(gated("APPROVE"))
            session.made[0].engine.state.live += 1
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await fail()
