"""Included flows: a child run per node, with shares of the budgets; what its parent suffers, it suffers."""

from __future__ import annotations

import builtins

import anyio
import pytest

from orchestrator import OperationError, RunReason, Session, open_journal
from orchestrator.core.births import Birth
from orchestrator.core.spec import Operation
from orchestrator.core.state import NodeState
from orchestrator.runtime.including import child_id
from orchestrator.runtime.recorded import read_run

pytestmark = pytest.mark.anyio

PARENT = """
version: 1
name: parent
cast: [cast.py]
args: {word: {default: hello}}
nodes:
  first: {role: say, with: {text: "${args.word}"}}
  inner: {flow: inner.yaml, after: [first], with: {text: "${first}"}}
  last: {role: say, after: [inner], with: {text: "${inner.said}!"}}
outputs: {all: "${last}"}
"""
INNER = """
version: 1
name: inner
cast: [cast.py]
args: {text: {required: true}}
nodes:
  loud: {role: shout, with: {text: "${args.text}"}}
outputs: {said: "${loud}"}
"""
CAST = """
from orchestrator import Verdict, role

@role()
async def say(turn):
    return turn.parameters["text"]

@role()
async def shout(turn):
    return turn.parameters["text"].upper()

@role()
async def fails(turn):
    raise ValueError("no voice")

@role(emits=(Verdict,))
async def judge(turn):
    return Verdict(verdict="REJECT", rationale="too loud")

@role()
async def asks(turn):
    return await turn.ask("how loud?", key="volume")
"""


@pytest.fixture
def write(tmp_path):
    def write(**texts):
        for name, text in {"cast": CAST, "parent": PARENT, "inner": INNER, **texts}.items():
            (tmp_path / f"{name}.{'py' if name == 'cast' else 'yaml'}").write_text(text)
        return tmp_path / "parent.yaml"

    return write


async def test_its_value_is_its_outputs(write, tmp_path):
    """A child run, tracked: its own records, its id in the parent's, its parent in its own."""
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await session.flow(write())
    assert result.reason is RunReason.COMPLETED, result.detail
    assert result.outputs == {"all": "HELLO!"}
    child = result["inner"].child_run
    assert child == f"{result.run}.inner"
    with open_journal(tmp_path / "journal.db") as reader:
        assert [info.run for info in reader.runs()] == [result.run, child]
        assert reader.find_run("last") == result.run
        assert reader.find_run(result.run[:6]) == result.run
        inner = read_run(reader, child)
    assert (inner.state.parent, inner.state.parent_node) == (result.run, "inner")
    assert inner.result().outputs == {"said": "HELLO"}


async def test_in_memory_too(write):
    """No journal: the same, and nothing of it stays behind."""
    async with Session() as session:
        result = await session.flow(write())
        assert result.outputs == {"all": "HELLO!"}
        assert session._store._logs == {}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("role: shout", "role: fails"), "ended failed: loud: ValueError: no voice"),
        (
            ("role: shout, with", "role: judge, gate: true, with"),
            "ended gate_rejected: loud rejected: too loud",
        ),
    ],
)
async def test_its_failure_fails_the_node(write, change, why):
    """TRUTH 24, PROP 15: the node fails with the child run and the reason; what depends on it is skipped."""
    inner = INNER.replace(*change).replace('said: "${loud}"', 'said: "x"')
    async with Session() as session:
        result = await session.flow(write(inner=inner))
    assert result.reason is RunReason.FAILED
    error = result["inner"].error
    assert error.type == "ExecutionError"
    assert error.message == f"run {result.run}.inner of inner.yaml {why}"
    assert result["last"].reason == "blocked by inner (failed)"


@pytest.mark.parametrize("applies", [False, True])
async def test_a_flow_that_does_not_apply_is_no_failure(write, applies):
    """PROP 15: nothing of it was to run: the node is skipped with the cause, and the run goes on."""
    inner = INNER.replace("role: shout,", "role: shout, when: \"args.text == 'hello'\",")
    inner = inner.replace("${loud}", "${default(loud, '')}")
    parent = PARENT.replace(
        "outputs:", '  more: {role: say, after: [first, inner], with: {text: "on"}}\noutputs:'
    )
    async with Session() as session:
        path = write(inner=inner, parent=parent)
        result = await session.flow(path, args={"word": "hello" if applies else "no"})
    assert result.reason is RunReason.COMPLETED
    assert result["more"].status == "completed"
    if applies:
        assert result["last"].value == "HELLO!"
        return
    why = "loud: condition was false: args.text == 'hello'"
    assert result["inner"].status == "skipped"
    assert result["inner"].reason == f"nothing of inner.yaml applied (run {result.run}.inner): {why}"
    assert result["last"].status == "skipped"


async def test_each_try_is_a_run_of_its_own(write):
    """A retry begins another child run; attempts that a crash cost do not."""
    parent = PARENT.replace("inner.yaml,", "inner.yaml, retry: 2,")
    async with Session() as session:
        result = await session.flow(write(parent=parent, inner=INNER.replace("role: shout", "role: fails")))
        assert result["inner"].child_run == f"{result.run}.inner-1-2"
        assert sorted(session._store._logs) == [
            result.run,
            f"{result.run}.inner",
            f"{result.run}.inner-1-2",
        ]


async def test_a_question_of_the_child_suspends_the_parent(write, tmp_path):
    """The child is suspended awaiting_answer, so is its parent; answered, the parent goes on with it."""
    path = write(inner=INNER.replace("role: shout", "role: asks"))
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await session.flow(path)
        child = f"{result.run}.inner"
        assert result.reason is RunReason.AWAITING_ANSWER
        assert result.waiters["inner"] == f"run {child}, which is suspended: awaiting_answer"
        assert result.next == f"callboard answer {child} KEY VALUE"
        inner = await session.resume(child, answers={"loud": "very"})
        assert (await inner.wait()).outputs == {"said": "very"}
        again = await (await session.resume(result.run)).wait()
    assert again.reason is RunReason.COMPLETED, again.detail
    assert again.outputs == {"all": "very!"}
    assert again["inner"].child_run == child


async def test_a_question_in_memory(write):
    """The parent resumed while the child still waits: both wait again, and nothing is started twice."""
    async with Session() as session:
        result = await session.flow(write(inner=INNER.replace("role: shout", "role: asks")))
        again = await (await session.resume(result.run)).wait()
        assert again.reason is RunReason.AWAITING_ANSWER
        await (await session.resume(f"{result.run}.inner", answers={"loud": "so"})).wait()
        done = await (await session.resume(result.run)).wait()
        assert done.outputs == {"all": "so!"}


COUNTING = """
import builtins
import anyio
from orchestrator import role

@role()
async def shout(turn):
    builtins.live += 1
    builtins.family = max(builtins.family, builtins.live)
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    builtins.live -= 1
"""
WAITING = """
import anyio
from orchestrator import SpawnRequest, Verdict, role

told = []

@role()
async def say(turn):
    return turn.parameters.get("text", "")

@role()
async def shout(turn):
    return str(turn.parameters.get("text", ""))

@role()
async def waits(turn):
    told.append(turn.run)
    try:
        await anyio.sleep_forever()
    finally:
        told.append("stopped")

@role(emits=(SpawnRequest,))
async def grows(turn):
    receipts = [await turn.emit(SpawnRequest(instruction=str(n), assignee="say")) for n in range(4)]
    return sum(map(bool, receipts))
"""


async def started(run, node="inner"):
    """Wait until a node of the run's child has started, and give the child."""
    async with run.events(kinds=("ChildRunStarted",)) as events:
        async for _ in events:
            break
    while node not in run.engine.family.children:
        await anyio.lowlevel.checkpoint()
    child = run.engine.family.children[node]
    async with child.events(kinds=("NodeStarted",)) as events:
        async for _ in events:
            break
    return child


async def test_cancelled_with_its_parent(write):
    """Cancel reaches the child: its body is stopped, both runs are cancelled."""
    path = write(cast=WAITING, inner=INNER.replace("role: shout", "role: waits"))
    async with Session() as session:
        run = await session.start(path)
        child = await started(run)
        assert run.cancel()
        assert (await run.wait()).reason is RunReason.CANCELLED
        assert (await child.wait()).reason is RunReason.CANCELLED


async def test_paused_and_drained_with_its_parent(write, tmp_path):
    """Pause, resume and drain reach the child; a drained parent goes on with the child that it drained."""
    inner = INNER.replace("role: shout", "role: asks")
    nodes, outputs = inner.split("outputs:")[0], 'outputs: {said: "${more}"}\n'
    inner = nodes + '  more: {role: say, after: [loud], with: {text: "${loud}"}}\n' + outputs
    async with Session(journal=tmp_path / "journal.db") as session:
        run = await session.start(write(inner=inner), waits_for_answers=True)
        async with run.events(kinds=("ChildRunStarted",)) as events:
            async for _ in events:
                break
        run.pause()
        run.resume()
        run.drain()
        result = await run.wait()
        assert result.reason is RunReason.DRAINED
        child = f"{result.run}.inner"
        inner_run = await session.resume(child, answers={"loud": "aye"})
        await inner_run.wait()
        done = await (await session.resume(result.run)).wait()
        assert done.outputs == {"all": "aye!"}


async def test_pausing_pauses_the_child(write):
    """What the parent is, the child is."""
    path = write(cast=WAITING, inner=INNER.replace("role: shout", "role: waits"))
    async with Session() as session:
        run = await session.start(path)
        child = await started(run)
        run.pause()
        assert child.engine.state.paused
        run.resume()
        assert not child.engine.state.paused
        run.drain()
        assert child.engine.state.draining == "drained"
        run.cancel()
        await run.over()


async def test_left_and_resumed(write, tmp_path):
    """Leaving the session interrupts both; the same child goes on, its settled nodes are not run again."""
    inner = INNER.replace("role: shout", "role: waits")
    async with Session(journal=tmp_path / "journal.db") as session:
        run = await session.start(write(cast=WAITING, inner=inner))
        child = await started(run)
    assert (run.result.reason, child.result.reason) == (RunReason.INTERRUPTED, RunReason.INTERRUPTED)
    write(cast=WAITING.replace("await anyio.sleep_forever()", "return 'woken'"), inner=inner)
    async with Session(journal=tmp_path / "journal.db") as session:
        again = await session.resume(run.id, new_definition=True)
        result = await again.wait()
    assert result.outputs == {"all": "woken!"}
    assert result["inner"].child_run == child.id


async def test_a_document_that_changed_is_not_gone_on_with(write, tmp_path):
    """The included document is part of the definition."""
    inner = INNER.replace("role: shout", "role: asks")
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await session.flow(write(inner=inner))
        write(inner=inner + "# changed\n")
        with pytest.raises(OperationError, match=r"inner\.yaml, which the run includes, has changed"):
            await session.resume(result.run)
        again = await (await session.resume(result.run, new_definition=True)).wait()
        assert again.reason is RunReason.AWAITING_ANSWER


async def test_bodies_of_the_family_are_counted_together(write):
    """kernel.md 8: concurrency is of run and child runs together, and one slot is enough for them."""
    parent = "version: 1\nname: parent\ncast: [cast.py]\nbudget: {concurrency: %d}\nnodes:\n" + "".join(
        f"  i{n}: {{flow: inner.yaml}}\n  s{n}: {{role: shout}}\n" for n in range(4)
    )
    inner = "version: 1\nname: inner\ncast: [cast.py]\nnodes:\n" + "".join(
        f"  s{n}: {{role: shout}}\n" for n in range(4)
    )
    for limit in (1, 3):
        builtins.family = builtins.live = 0
        async with Session() as session:
            result = await session.flow(write(cast=COUNTING, parent=parent % limit, inner=inner))
        assert result.reason is RunReason.COMPLETED, result["i0"].error
        assert builtins.family == limit
    del builtins.family, builtins.live


async def test_a_child_that_waits_holds_nobody_up(write):
    """A parent that waits for its child holds no slot: with one, its other nodes run meanwhile."""
    parent = (
        "version: 1\nname: parent\ncast: [cast.py]\nbudget: {concurrency: 1}\nnodes:\n"
        "  inner: {flow: inner.yaml, with: {text: x}}\n  other: {flow: inner.yaml, with: {text: y}}\n"
        + "".join(f"  s{n}: {{role: say, with: {{text: x}}}}\n" for n in range(3))
    )
    later = INNER.replace("role: shout", "role: fails, retry: {attempts: 2, backoff: 1h}")
    async with Session() as session:
        run = await session.start(write(parent=parent, inner=later))
        nodes = run.engine.state.nodes
        child = await started(run)
        while nodes["s2"].status != "completed" or child.engine.state.nodes["loud"].status != "backing_off":
            await anyio.lowlevel.checkpoint()
        # as many child runs at once as there are slots
        assert (nodes["inner"].status, nodes["other"].status) == ("running", "ready")
        run.cancel("inner")
        while "other" not in run.engine.family.children:
            await anyio.lowlevel.checkpoint()
        assert nodes["inner"].status == "cancelled"
        run.cancel()
        assert (await run.wait()).reason is RunReason.CANCELLED


async def test_spawns_of_children_are_shares(write):
    """A child may spawn what it states, and no more than its parent has left; it counts for the parent."""
    inner = INNER.replace("nodes:", "budget: {spawns: 3}\nnodes:").replace("role: shout", "role: grows")
    parent = PARENT.replace("nodes:", "budget: {spawns: 5}\nnodes:").replace(
        "  last:", "  other: {flow: inner.yaml, after: [inner], with: {text: x}}\n  last:"
    )
    async with Session() as session:
        result = await session.flow(write(cast=WAITING, parent=parent, inner=inner))
        assert (result["inner"].value, result["other"].value) == ({"said": 3}, {"said": 2})


async def test_retry_begins_another_child(write):
    """A generation is another life: its child is another run."""
    path = write(inner=INNER.replace("role: shout", "role: fails"))
    async with Session() as session:
        result = await session.flow(path)
        again = await (await session.retry(result.run)).wait()
        assert again["inner"].child_run == f"{result.run}.inner-2-1"


def test_ids_of_children():
    """Short names stand in them, others by a part and a hash; none is longer than a journal takes."""
    made = {
        child_id("r", NodeState(Operation(name=name), Birth(0), name, attempt=1))
        for name in ("a", "a" * 16, "a" * 17, "a" * 64, "b.x-1", "b@2", "b+1")
    }
    assert len(made) == 7
    assert all(len(one) <= 18 for one in made)
    node = NodeState(Operation(name="a"), Birth(0), "a", attempt=4, given_back=3)
    assert child_id("r", node) == "r.a"
