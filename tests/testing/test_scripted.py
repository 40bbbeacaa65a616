"""A scripted role does one outcome a turn, in order, and says so clearly when there is none left."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from emissions import Finding, Refused, SpawnRequest, Verdict
from orchestrator.core.spec import Retry
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.runtime.session import Session
from orchestrator.testing import (
    ScriptError,
    assert_laws,
    does,
    emits,
    fake_turn,
    raises,
    returns,
    run_flow_with,
    run_virtual,
    scripted,
    waits,
)
from roles import Role, RoleError, Turn

pytestmark = pytest.mark.anyio

FINDING = Finding(description="x")


async def test_values_in_order():
    """JSON, None, a list: returned as they are."""
    outcomes: list[Any] = [1, None, [1, 2], {"a": 1}, "text"]
    actor = scripted(*outcomes)
    assert outcomes == [await actor(fake_turn()) for _ in outcomes]


async def test_exceptions_are_raised():
    """An instance or a class."""
    actor = scripted(ValueError("no"), KeyError, 3)
    with pytest.raises(ValueError, match="no"):
        await actor(fake_turn())
    with pytest.raises(KeyError):
        await actor(fake_turn())
    assert await actor(fake_turn()) == 3


async def test_functions_are_called():
    """Plain or async, with the turn."""

    async def later(turn: Turn) -> str:
        return turn.node + "!"

    actor = scripted(lambda turn: turn.node, later)
    assert [await actor(fake_turn(node="a")) for _ in range(2)] == ["a", "a!"]


async def test_steps():
    """Emit, return what would otherwise be done, raise."""
    actor = scripted(
        emits(FINDING, SpawnRequest(key="a")), returns(ValueError("a value")), raises(OSError("gone"))
    )
    turn = fake_turn(grants=actor)
    assert await actor(turn) is None
    assert [FINDING, SpawnRequest(key="a")] == turn.accepted
    assert isinstance(await actor(turn), ValueError)
    with pytest.raises(OSError, match="gone"):
        await actor(turn)


async def test_several_steps_in_one_turn():
    """`does` goes through its steps; the last one's value is the turn's."""
    event = anyio.Event()
    actor = scripted(does(emits(FINDING), waits(event), returns(1)), does(), does(emits(FINDING)))
    turn = fake_turn()
    given = []

    async def play() -> None:
        given.append(await actor(turn))

    async with anyio.create_task_group() as group:
        group.start_soon(play)
        await anyio.wait_all_tasks_blocked()
        assert (turn.emitted, given) == ([FINDING], [])
        event.set()
    assert [*given, await actor(turn), await actor(turn)] == [1, None, None]


def test_a_step_after_the_end_is_refused():
    """It would never be done."""
    with pytest.raises(ValueError, match=r"a step follows returns\(\)"):
        does(returns(1), emits(FINDING))
    with pytest.raises(ValueError, match=r"a step follows raises\(\)"):
        does(does(raises(KeyError)), emits(FINDING)) if False else does(raises(KeyError), emits(FINDING))
    with pytest.raises(ValueError, match=r"a step follows does\(\)"):
        does(does(raises(KeyError)), emits(FINDING))


def test_waiting_for_seconds_is_virtual():
    """An hour on a virtual clock passes at once."""

    async def hour() -> float:
        before = anyio.current_time()
        await scripted(waits(3600))(fake_turn())
        return anyio.current_time() - before

    for backend in ("asyncio", "trio"):
        assert run_virtual(hour, backend=backend) == pytest.approx(3600)


async def test_running_out_is_an_error():
    """It names the role, the count, and the node."""
    actor = scripted(1, 2, name="critic")
    turn = fake_turn(node="review", attempt=2)
    assert [await actor(turn), await actor(turn)] == [1, 2]
    with pytest.raises(
        ScriptError, match=r"'critic' has 2 outcomes, and this is turn 3 \(node review, attempt 2\)"
    ):
        await actor(turn)
    with pytest.raises(ScriptError, match="has 0 outcomes"):
        await scripted()(turn)


async def test_repeat_goes_on_with_the_last():
    actor = scripted(1, 2, repeat=True)
    assert [await actor(fake_turn()) for _ in range(4)] == [1, 2, 2, 2]
    with pytest.raises(ScriptError):
        await scripted(repeat=True)(fake_turn())


async def test_turns_are_recorded():
    """What the role was given, for each turn; and how much of the script is left."""
    actor = scripted(1, 2, 3)
    first, second = fake_turn({"n": 1}), fake_turn({"n": 2})
    await actor(first)
    await actor(second)
    assert actor.turns == [first, second]
    assert actor.left == 1


def test_it_declares_what_it_says():
    """Every type of the outcomes, wherever it stands, unless the test declares."""
    verdict = Verdict(verdict="APPROVE", rationale="fine")
    assert scripted(FINDING, [{"a": (verdict,)}], does(emits(SpawnRequest()), returns(FINDING))).emits == (
        Finding,
        Verdict,
        SpawnRequest,
    )
    assert scripted(FINDING, emits=()).emits == ()
    assert scripted(1, emits=[Finding]).emits == (Finding,)


def test_it_is_a_role():
    actor = scripted(1, name="critic")
    assert isinstance(actor, Role)
    assert (actor.name, actor.is_async) == ("critic", True)
    assert len({actor, scripted(1, name="critic")}) == 2
    assert "critic" in repr(actor)
    with pytest.raises(RoleError):
        scripted(name="not a name")


async def test_in_a_run():
    """Attempts are turns: it fails twice, then gives; an undeclared emission is refused."""
    actor = scripted(
        OSError("busy"), OSError("busy"), does(emits(FINDING), returns("done")), name="worker", emits=()
    )
    graph = OperationGraphBuilder()
    graph.add_operation(actor, retry=Retry(attempts=3))
    async with Session() as session:
        run = await session.start(graph)
        result = await run.wait()
    assert (result["worker"].value, result["worker"].attempts) == ("done", 3)
    assert [turn.attempt for turn in actor.turns] == [1, 2, 3]
    assert [event.reason for event in result.dropped_spawns] == []
    assert_laws(run)


async def test_running_out_in_a_run_fails_the_node():
    """The node says why; the run goes on."""
    actor = scripted(1, name="worker")
    graph = OperationGraphBuilder()
    graph.add_operation(actor, node_id="first")
    graph.add_operation(actor, node_id="second", depends_on=[])
    result = await run_flow_with(graph)
    assert result["first"].value == 1
    error = result["second"].error
    assert error is not None
    assert error.type == "ScriptError"
    assert "'worker' has 1 outcomes, and this is turn 2 (node second, attempt 1)" in error.message


async def test_turns_of_a_run_can_be_read_afterwards():
    """A recorded turn still shows what the node was given."""
    actor = scripted(1, name="worker")
    graph = OperationGraphBuilder()
    graph.add_operation(scripted({"k": [1]}, name="scan"))
    graph.add_operation(actor, n=5, instruction="Go.")
    await run_flow_with(graph)
    turn = actor.turns[0]
    assert (turn.parameters, dict(turn.inputs), turn.instruction) == ({"n": 5}, {"scan": {"k": [1]}}, "Go.")


async def test_receipts_do_not_stop_a_script():
    """A refusal is a receipt like another; the next step follows."""
    turn = fake_turn(receipts=["cycle"])
    assert await scripted(does(emits(SpawnRequest(), SpawnRequest()), returns(1)))(turn) == 1
    assert isinstance(turn.receipts[0], Refused)
    assert turn.receipts[1]
