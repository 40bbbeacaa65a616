"""What is played under many schedules. Each scenario returns what must be equal for all of them."""

from __future__ import annotations

from typing import Any

import anyio

from orchestrator import (
    Budget,
    EscalationRequest,
    Finding,
    Inject,
    OperationGraphBuilder,
    Retry,
    Session,
    SpawnRequest,
    Verdict,
)
from tests.seeded.rig import Rig, told

Graph = OperationGraphBuilder


async def fan(rig: Rig, session: Session) -> Any:
    """One root, twelve workers over three slots, one that reads them all in graph order."""

    @rig.role()
    async def root(turn):
        return 1

    @rig.role()
    async def worker(turn):
        await rig.pause()
        return turn.inputs["root"] + turn.parameters["n"]

    @rig.role()
    async def join(turn):
        return list(turn.inputs.values())

    graph = Graph()
    graph.add_operation(root, node_id="root")
    names = [
        graph.add_operation(worker, node_id=f"w{n}", depends_on=["root"], parameters={"n": n})
        for n in range(12)
    ]
    graph.add_operation(join, node_id="join", depends_on=names)
    return told(await rig.ran(session, graph, budget=Budget(concurrency=3)))


async def growth(rig: Rig, session: Session) -> Any:
    """A node grows six that its successor waits for and reads, whatever the order in which they end."""

    @rig.role(emits=(SpawnRequest,))
    async def scout(turn):
        for number in range(6):
            request = SpawnRequest(assignee="inspector", parameters={"n": number}, before="successors")
            assert await rig.emit(turn, request)
            await rig.pause()
        return "scouted"

    @rig.role()
    async def inspector(turn):
        await rig.pause()
        return turn.parameters["n"] ** 2

    @rig.role()
    async def critic(turn):
        return list(turn.inputs.values())

    session.roles.add(inspector)
    graph = Graph()
    graph.add_operation(scout, node_id="scout")
    graph.add_operation(critic, node_id="critic", depends_on=["scout"])
    same = told(await rig.ran(session, graph))
    assert same["nodes"]["critic"] == ("completed", ["scouted", 0, 1, 4, 9, 16, 25])
    return same


async def cap(rig: Rig, session: Session) -> Any:
    """bad-inputs 19: cap 5, eight spawners that await between two requests each: exactly 5 are accepted."""

    @rig.role(emits=(SpawnRequest,))
    async def spawner(turn):
        accepted = 0
        for number in range(2):
            await rig.pause()
            accepted += bool(await rig.emit(turn, SpawnRequest(assignee="child", parameters={"n": number})))
            await rig.pause()
        return accepted

    @rig.role()
    async def child(turn):
        return "grown"

    session.roles.add(child)
    graph = Graph()
    for number in range(8):
        graph.add_operation(spawner, node_id=f"s{number}", depends_on=[])
    result = await rig.ran(session, graph, budget=Budget(spawns=5, concurrency=8))
    grown = [name for name, node in result.nodes.items() if node.spawned_by]
    accepted = sum(node.value for name, node in result.nodes.items() if not node.spawned_by)
    assert {result.nodes[name].value for name in grown} == {"grown"}
    dropped = [(drop.reason, drop.count) for drop in result.dropped_spawns]
    return str(result.reason), len(grown), accepted, dropped


async def reject(rig: Rig, session: Session) -> Any:
    """bad-inputs 21: a gate rejects in a diamond: what depends on it never starts, its sibling runs on."""

    @rig.role()
    async def work(turn):
        await rig.pause()
        return turn.node

    @rig.role(emits=(Verdict,))
    async def judge(turn):
        await rig.pause()
        return Verdict(verdict="REJECT", rationale="no")

    graph = Graph()
    graph.add_operation(work, node_id="top")
    graph.add_operation(judge, node_id="gate", depends_on=["top"], gate=True)
    graph.add_operation(work, node_id="sibling", depends_on=["top"])
    graph.add_operation(work, node_id="below", depends_on=["gate"])
    graph.add_operation(work, node_id="bottom", depends_on=["below", "sibling"])
    same = told(await rig.ran(session, graph))
    assert {name for name, _ in rig.began} == {"top", "gate", "sibling"}
    return same


async def escalation(rig: Rig, session: Session) -> Any:
    """Two tiers up: the successor reads the last child under the first name."""

    @rig.role(emits=(EscalationRequest,), models=("s", "m", "l"))
    async def tries(turn):
        await rig.pause()
        if turn.node.endswith("+2"):
            return "done above"
        assert await rig.emit(turn, EscalationRequest(reason=f"{turn.node} cannot"))
        await rig.pause()
        return "half done"

    @rig.role()
    async def reads(turn):
        return turn.inputs["tries"]

    graph = Graph()
    graph.add_operation(tries, node_id="tries")
    graph.add_operation(reads, node_id="reads", depends_on=["tries"])
    same = told(await rig.ran(session, graph))
    assert same["nodes"]["reads"] == ("completed", "done above")
    return same


async def retries(rig: Rig, session: Session) -> Any:
    """Four nodes that fail twice, with backoff, over two slots: each is attempted three times."""

    @rig.role(retry=Retry(attempts=3, backoff=2.0, jitter=0.5))
    async def flaky(turn):
        await rig.pause()
        if turn.attempt < 3:
            raise ValueError(turn.attempt)
        return turn.attempt

    @rig.role(retry=Retry(attempts=2))
    async def broken(turn):
        raise KeyError(turn.node)

    graph = Graph()
    for number in range(4):
        graph.add_operation(flaky, node_id=f"f{number}", depends_on=[])
    graph.add_operation(broken, node_id="broken", depends_on=[])
    same = told(await rig.ran(session, graph, budget=Budget(concurrency=2)))
    return same, sorted(rig.began)


async def timeouts(rig: Rig, session: Session) -> Any:
    """An attempt that takes too long is stopped before the next begins; the second one is in time."""
    busy: set[str] = set()

    @rig.role(timeout=10.0, retry=Retry(attempts=2))
    async def slow(turn):
        assert turn.node not in busy
        busy.add(turn.node)
        try:
            await anyio.sleep(100 if turn.attempt == 1 or turn.node == "never" else 1)
        finally:
            busy.discard(turn.node)
        return turn.attempt

    graph = Graph()
    for name in ("once", "never"):
        graph.add_operation(slow, node_id=name, depends_on=[])
    return told(await rig.ran(session, graph))


async def cancelled(rig: Rig, session: Session) -> Any:
    """Cancelled at any moment: every node settles, nothing is left running, the reason is kept."""

    @rig.role()
    async def work(turn):
        for _ in range(3):
            await rig.pause()
        return 1

    graph = Graph()
    names = [graph.add_operation(work, node_id=f"a{number}", depends_on=[]) for number in range(4)]
    for number in range(4):
        graph.add_operation(work, node_id=f"b{number}", depends_on=names)
    run = await rig.start(session, graph, budget=Budget(concurrency=3))
    for _ in range(rig.draw.randrange(6)):
        await rig.pause()
    run.cancel(reason="enough")
    result = await run.wait()
    settled = {str(node.status) for node in result.nodes.values()}
    assert settled <= {"completed", "cancelled"}
    assert str(result.reason) == ("completed" if settled == {"completed"} else "cancelled")
    return len(result.nodes)


async def one_cancelled(rig: Rig, session: Session) -> Any:
    """One node is cancelled at any moment: what needs it is skipped, the rest runs on."""

    @rig.role()
    async def work(turn):
        await rig.pause()
        return turn.node

    graph = Graph()
    for number in range(5):
        graph.add_operation(work, node_id=f"a{number}", depends_on=[])
    graph.add_operation(work, node_id="after", depends_on=["a2"])
    run = await rig.start(session, graph, budget=Budget(concurrency=2))
    for _ in range(rig.draw.randrange(5)):
        await rig.pause()
    told_so = run.cancel("a2", reason="not this one")
    result = await run.wait()
    status = str(result.nodes["a2"].status)
    assert status == ("cancelled" if told_so else "completed")
    assert str(result.nodes["after"].status) == ("skipped" if told_so else "completed")
    return sorted(
        name for name, node in result.nodes.items() if node.status == "completed" and name[1] in "0134"
    )


async def paused(rig: Rig, session: Session) -> Any:
    """Paused and resumed at any moments: it comes to the same, and nothing starts in between."""
    held = [False]

    @rig.role()
    async def work(turn):
        await rig.pause()
        return turn.node

    graph = Graph()
    for number in range(6):
        before = [f"n{number - 2}"] if number > 1 else []
        graph.add_operation(work, node_id=f"n{number}", depends_on=before)
    run = await rig.start(session, graph, budget=Budget(concurrency=2))
    for _ in range(3):
        await rig.pause()
        held[0] = bool(run.pause())
        begun = run.engine.state.facts
        await anyio.sleep(rig.draw.random() * 3)
        started = [
            fact
            for record in run.engine.kernel.journal.read(0)
            for number, fact in enumerate(record.facts, record.first)
            if type(fact).__name__ == "NodeStarted" and number > begun
        ]
        assert not started
        run.resume()
    return told(await run.wait())


async def handled(rig: Rig, session: Session) -> Any:
    """A handler answers each finding with a node that the successor waits for."""

    @rig.role(emits=(Finding,))
    async def finds(turn):
        for number in range(4):
            assert await rig.emit(turn, Finding(description=f"fault {number}"))
        return "found"

    @rig.role()
    async def fixer(turn):
        await rig.pause()
        return turn.parameters["what"]

    @rig.role()
    async def reports(turn):
        return sorted(str(value) for value in turn.inputs.values())

    session.roles.add(fixer)
    session.handles(
        Finding,
        lambda emission, view: Inject("fixer", parameters={"what": emission.description}, before=["r"]),
    )
    graph = Graph()
    graph.add_operation(finds, node_id="f")
    graph.add_operation(reports, node_id="r", depends_on=["f"])
    return told(await rig.ran(session, graph))


async def questions(rig: Rig, session: Session) -> Any:
    """Three nodes over one slot ask at once; whoever asks gives the slot on; answers come in any order."""

    @rig.role()
    async def asks(turn):
        colour = await turn.ask("which?", key=f"colour of {turn.node}")
        await rig.pause()
        return colour

    graph = Graph()
    for name in ("a", "b", "c"):
        graph.add_operation(asks, node_id=name, depends_on=[])
    run = await rig.start(session, graph, waits_for_answers=True, budget=Budget(concurrency=1))

    async def answer(node: str | None) -> None:
        for _ in range(rig.draw.randrange(4)):
            await rig.pause()
        assert run.answer(node or "", f"red {node}", by="ann")

    async with anyio.create_task_group() as group, run.events(kinds=("QuestionAsked",)) as events:
        async for event in events:
            group.start_soon(answer, event.node)
    return told(await run.wait())


async def context(rig: Rig, session: Session) -> Any:
    """Six parallel writers of three keys with reducers: every reader reads them in graph order."""

    @rig.role()
    async def writes(turn):
        await rig.pause()
        number = int(turn.node[1:])
        turn.write("sum", number)
        turn.write("best", number)
        if number % 2:
            return {"context": {"log": turn.node}}
        turn.write("log", turn.node)
        return None

    @rig.role()
    async def reads(turn):
        return {key: turn.context[key] for key in ("log", "sum", "best")}

    graph = Graph()
    names = [graph.add_operation(writes, node_id=f"n{number}", depends_on=[]) for number in range(6)]
    graph.add_operation(reads, node_id="reads", depends_on=names)
    graph.add_operation(reads, node_id="half", depends_on=names[:3])
    reducers = {"log": "append", "sum": "sum", "best": "max"}
    same = told(await rig.ran(session, graph, reducers=reducers))
    assert same["context"] == {"log": names, "sum": 15, "best": 5}
    assert same["nodes"]["half"][1] == {"log": names[:3], "sum": 3, "best": 2}
    return same


async def lagging_tap(rig: Rig, session: Session) -> Any:
    """A tap that lags and one that raises change nothing; what the first one missed, it was told."""
    seen: list[int] = []
    missed: list[int] = []

    @rig.role()
    async def work(turn):
        await rig.pause()
        return turn.node

    async def lags(envelope):
        if envelope.kind == "Missed":
            missed.extend(range(envelope.data["first"], envelope.data["last"] + 1))
        else:
            seen.append(envelope.seq)
            await anyio.sleep(rig.draw.random() * 0.2)

    async def breaks(envelope):
        raise ValueError(envelope.kind)

    graph = Graph()
    for number in range(8):
        before = [f"n{number - 1}"] if number % 3 else []
        graph.add_operation(work, node_id=f"n{number}", depends_on=before)
    async with session.tap(breaks), session.tap(lags, buffer=4):
        result = await rig.ran(session, graph)
        facts = rig.runs[0].engine.state.facts
        await anyio.sleep(30)
    assert seen == sorted(seen)
    assert sorted([*seen, *missed]) == list(range(1, facts + 1))
    return told(result)


async def two_runs(rig: Rig, session: Session) -> Any:
    """Two runs of one session know nothing of each other."""

    @rig.role(emits=(SpawnRequest,))
    async def grows(turn):
        await rig.pause()
        assert await rig.emit(turn, SpawnRequest(assignee="leaf", parameters=turn.parameters))
        return turn.parameters["run"]

    @rig.role()
    async def leaf(turn):
        await rig.pause()
        return turn.parameters["run"]

    session.roles.add(leaf)
    runs = []
    for number in range(2):
        graph = Graph()
        graph.add_operation(grows, node_id="grows", parameters={"run": number})
        runs.append(await rig.start(session, graph))
    return [told(await run.wait()) for run in runs]


async def host_cancelled(rig: Rig, session: Session) -> Any:
    """The task that drives a run is cancelled: every node settles, and the last fact is on record."""

    @rig.role()
    async def work(turn):
        await anyio.sleep(5)
        return 1

    graph = Graph()
    for number in range(4):
        before = [f"n{number - 2}"] if number > 1 else []
        graph.add_operation(work, node_id=f"n{number}", depends_on=before)
    with anyio.move_on_after(rig.draw.random() * 12) as scope:
        await session.flow(graph)
    (desk,) = rig.desks
    records = desk.read(0)
    last = records[-1].facts[-1]
    assert type(last).__name__ == "RunEnded"
    # it may have ended before the cancellation came, and the journal not have said so yet
    reasons = {"cancelled", "completed"} if scope.cancelled_caught else {"completed"}
    assert last.reason in reasons  # type: ignore[attr-defined]
    return type(last).__name__


async def stubborn(rig: Rig, session: Session) -> Any:
    """A body that swallows its cancellation is left behind after the grace; the others are not held up."""

    @rig.role()
    async def swallows(turn):
        while True:
            try:
                await anyio.sleep(50)
            except BaseException:
                continue

    @rig.role()
    async def work(turn):
        await rig.pause()
        return turn.node

    graph = Graph()
    graph.add_operation(swallows, node_id="s", depends_on=[])
    graph.add_operation(work, node_id="w", depends_on=[])
    run = await rig.start(session, graph)
    await anyio.sleep(2)
    run.cancel("s")
    result = await run.wait()
    return told(result)


SCENARIOS = (
    fan, growth, cap, reject, escalation, retries, timeouts, cancelled, one_cancelled, paused, handled,
    questions, context, lagging_tap, two_runs, host_cancelled, stubborn,
)  # fmt: skip
#: Scenarios whose every record is equal for one seed and whose nodes' stories are equal for all.
CALM = (fan, growth, reject, escalation, handled, context)
