"""The canonical run: everything that a crash could lose, double or forget, in one graph.

Its roles stand at the top level of this file, so that a process that never saw the run finds them again.
Each says in an append-only file that it was called, and what was accepted of what it asked for: what is
written there no crash takes back.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pydantic

from orchestrator import (
    Accepted,
    Budget,
    EdgeCondition,
    EscalationRequest,
    Finding,
    Gate,
    Inject,
    OperationGraphBuilder,
    Retry,
    RunResult,
    Session,
    SpawnRequest,
    Steer,
    Verdict,
    Write,
    role,
)
from orchestrator.errors import OperationError
from orchestrator.journal.connecting import read_only
from orchestrator.journal.control import request
from orchestrator.journal.reading import open_journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchestrator import Graph, Run

BUDGET = Budget(spawns=8, concurrency=4)
NOTE = {"text": "mind the gap", "time": "2026-01-01T00:00:00Z", "node": "late"}


class Told:
    """The file in which roles tell that they were called; set before anything runs."""

    path = Path()

    @classmethod
    def say(cls, *words: object) -> None:
        descriptor = os.open(cls.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{' '.join(map(str, words))}\n".encode())
        os.close(descriptor)

    @classmethod
    def read(cls, path: Path) -> list[list[str]]:
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def began(turn: Any) -> None:
    Told.say("call", turn.node, turn.attempt)
    await anyio.sleep(0.01)


async def asked(turn: Any, one: SpawnRequest) -> bool:
    receipt = await turn.emit(one)
    if isinstance(receipt, Accepted):
        Told.say("accepted", turn.node, receipt.node)
    return bool(receipt)


class Summary(pydantic.BaseModel):
    """What the fan-in returns."""

    count: int
    names: list[str]


@dataclass(frozen=True)
class MoreThan(EdgeCondition):
    """Takes the edge if a field of the value is larger."""

    field: str
    limit: int

    def apply(self, result: object, context: Mapping[str, object]) -> bool:
        return isinstance(result, dict) and result[self.field] > self.limit


def tally(folded: Any, update: Any) -> Any:
    """A reducer of our own."""
    return folded + update


def on_finding(finding: Finding, _view: Any) -> list[Any]:
    """One emission leads to a node, a note and a write, in the emitter's command or not at all."""
    return [
        Inject("extra", instruction=finding.description, before=("join",), independent=True),
        Steer("look twice", "join"),
        Write("noted", finding.description),
    ]


# --- roles -----------------------------------------------------------------------------------------


@role(emits=(SpawnRequest, Finding))
async def scout(turn: Any) -> str:
    """Grows two equal nodes and a third without keys, tries a cycle, tells of a finding."""
    await began(turn)
    for number in (1, 1, 9):
        await asked(turn, SpawnRequest(assignee="digger", parameters={"n": number}, before="successors"))
    await asked(turn, SpawnRequest(assignee="digger", after=("review",), before=("join",)))
    await turn.emit(Finding(description="smoke"))
    return "scouted"


@role(emits=(SpawnRequest,))
async def digger(turn: Any) -> int:
    """A grown node; one of them grows another, with a key."""
    await began(turn)
    if turn.parameters.get("n") == 9:
        await asked(turn, SpawnRequest(assignee="digger", parameters={"n": 2}, key="deeper"))
    turn.write("tally", turn.parameters["n"])
    return turn.parameters["n"] ** 2


@role()
async def worker(turn: Any) -> dict[str, Any]:
    """A part of the fan: one step, two writes."""
    await began(turn)

    async def counted() -> int:
        Told.say("step", turn.node, "count")
        await anyio.sleep(0.01)
        return len(turn.inputs)

    count = await turn.step("count", counted)
    turn.write("found", [turn.node])
    turn.write("tally", 100)
    return {"count": count, "inputs": dict(turn.inputs)}


@role()
async def join(turn: Any) -> Summary:
    """The fan-in: what it reads, and the note that it was given."""
    await began(turn)
    return Summary(count=len(turn.inputs), names=[*turn.inputs, *turn.steers(), *turn.context["found"]])


@role(emits=(EscalationRequest,), models=("small", "large"))
async def hard(turn: Any) -> Any:
    """Gives up on its lower tier."""
    await began(turn)
    if turn.node.endswith("+1"):
        return "done above"
    await turn.emit(EscalationRequest(reason="too hard"))
    return None


@role()
async def flaky(turn: Any) -> str:
    """Fails on its first attempt."""
    await began(turn)
    if turn.attempt == 1:
        message = "not yet"
        raise ConnectionError(message)
    return "steady"


@role(emits=(Verdict,))
async def review(turn: Any) -> Any:
    """A gate: opens, or rejects where it is told so."""
    await began(turn)
    await turn.emit(Verdict(verdict=turn.parameters["verdict"], rationale="as told"))
    return "judged"


@role()
async def broken(turn: Any) -> None:
    """Fails for good."""
    await began(turn)
    message = "broken"
    raise ValueError(message)


@role()
async def plain(turn: Any) -> list[str]:
    """Tells what it read."""
    await began(turn)
    return [*turn.inputs, *turn.failed]


@role()
async def extra(turn: Any) -> str:
    """Was injected."""
    await began(turn)
    return turn.instruction


@role()
async def asker(turn: Any) -> str:
    """Says something, asks, goes on with the answer."""
    await began(turn)
    answer = await turn.ask("Which colour?", key="colour", choices=("red", "blue"))
    Told.say("answer", turn.node, answer)
    return answer


@role()
async def late(turn: Any) -> list[str]:
    """Has a note that came from another process."""
    await began(turn)
    turn.write("last", turn.inputs["asker"])
    return [*sorted(turn.inputs), *turn.steers(), str(turn.instruction.count(NOTE["text"]))]


@role()
async def draft(turn: Any) -> list[int]:
    """The part of a refusal loop that does the work: goes on from what it gave in the round before."""
    await began(turn)
    turn.write("tally", 1_000)
    return [1] if turn.rework is None else [*turn.rework.value, turn.rework.round]


@role(emits=(Verdict,))
async def critic(turn: Any) -> Any:
    """A gate with refusals: sends the first draft back, and takes the second."""
    await began(turn)
    verdict = "REJECT" if turn.rework is None else "APPROVE"
    await turn.emit(Verdict(verdict=verdict, rationale="one more round"))
    return len(turn.inputs)


@role(emits=(SpawnRequest,))
async def greedy(turn: Any) -> str:
    """Asks for more than the budget has left."""
    await began(turn)
    for number in range(4):
        await asked(turn, SpawnRequest(assignee="digger", parameters={"n": 10 + number}))
    return "greedy"


ROLES = (
    scout,
    digger,
    worker,
    join,
    hard,
    flaky,
    review,
    broken,
    plain,
    extra,
    asker,
    late,
    greedy,
    draft,
    critic,
)


def graph() -> Graph:
    """Every kind of thing that a run can do."""
    made = OperationGraphBuilder("canonical")
    made.add_operation(scout, "scout", depends_on=[])
    fan = [made.add_operation(worker, f"w{n}", depends_on=["scout"]) for n in (1, 2, 3)]
    made.add_operation(join, "join", depends_on=fan, returns=Summary)
    made.add_operation(hard, "hard", depends_on=["join"])
    made.add_operation(flaky, "flaky", depends_on=["join"], retry=Retry(attempts=3, backoff=0.3))
    made.add_operation(
        review, "review", depends_on=["hard", "flaky"], gate=True, parameters={"verdict": "APPROVE"}
    )
    made.add_operation(plain, "publish", depends_on=["review"])
    made.add_operation(review, "veto", depends_on=["join"], gate=True, parameters={"verdict": "REJECT"})
    made.add_operation(plain, "never", depends_on=["veto"])
    made.add_operation(plain, "nor", depends_on=["never", "publish"])
    made.add_operation(broken, "broken", depends_on=["join"])
    made.add_operation(plain, "rescue", depends_on=[])
    made.add_edge("broken", "rescue", accept=["failed"])
    made.add_operation(plain, "unused", depends_on=[])
    made.add_edge("broken", "unused", accept=["completed"])
    many = MoreThan("count", 0)
    made.add_conditional_branch(join, plain, plain, condition=many, depends_on=["join"], node_id="many")
    made.add_operation(draft, "draft", depends_on=["join"])
    made.add_operation(critic, "critic", depends_on=["draft"], gate=Gate(refusals=2))
    made.add_operation(plain, "filed", depends_on=["critic"])
    made.add_operation(asker, "asker", depends_on=["publish", "rescue", "filed"])
    made.add_operation(late, "late", depends_on=["asker"])
    made.add_operation(greedy, "greedy", depends_on=["late"])
    return made.get_graph()


# --- driving ---------------------------------------------------------------------------------------


async def drive(folder: Path) -> RunResult | None:
    """Begin the run of a folder or go on with it, until it stops; None if it had ended before."""
    Told.path = folder / "told"
    journal = folder / "j.db"
    clock = lambda: int(anyio.current_time() * 1e9)
    async with Session(ROLES, journal=journal, clock=clock, folder=folder, seed=1) as session:
        session.handles(Finding, on_finding)
        run = await begin(session, journal)
        if run is None:
            return None
        async with anyio.create_task_group() as group:
            group.start_soon(operate, run, journal)
            result = await run.wait()
            group.cancel_scope.cancel()
        return result


async def begin(session: Session, journal: Path) -> Run | None:
    """The run that is there, or a new one if none is."""
    for run in begun(journal):
        try:
            return await session.resume(run, waits_for_answers=True)
        except OperationError as error:
            if "has ended" in str(error):
                return None
            if "no first record" not in str(error):
                raise
    return await session.start(
        graph(),
        budget=BUDGET,
        reducers={"found": "extend", "tally": tally},
        context={"operator_messages": [{"text": "good luck", "ts": 0}]},
        waits_for_answers=True,
    )


def begun(journal: Path) -> list[str]:
    """The runs of a journal, the newest first."""
    if not journal.exists():
        return []
    with open_journal(journal) as reader:
        return [info.run for info in reversed(list(reader.runs()))]


async def operate(run: Run, journal: Path) -> None:
    """Somebody in another process: says, adds and answers, each once, when the question is open."""
    async with run.events() as events:
        async for event in events:
            if event.kind == "QuestionAsked":
                once(journal, run.id, "steer", NOTE)
                once(journal, run.id, "inject", {"role": "extra", "key": "op", "before": ["late"]})
                once(journal, run.id, "answer", {"node": "asker", "key": "colour", "value": "red"})


def once(journal: Path, run: str, kind: str, payload: object) -> None:
    """Ask something of a run unless it was asked before."""
    connection = read_only(journal)
    sql = "SELECT count(*) FROM control WHERE run = ? AND kind = ?"
    try:
        there = connection.execute(sql, (run, kind)).get
    finally:
        connection.close()
    if not there:
        request(journal, run, kind, payload)


def outcome(result: RunResult) -> dict[str, Any]:
    """What a run came to, as far as no crash may change it."""
    return {
        "reason": str(result.reason),
        "nodes": {
            name: (
                str(node.status),
                node.value,
                None if node.error is None else (node.error.type, node.error.message),
                node.vetoed_by,
                node.judgement,
                node.spawned_by,
                node.superseded_by,
                node.role,
                node.reason,
            )
            for name, node in sorted(result.nodes.items())
        },
        "context": dict(result.final_context),
        "spawned": sorted(result.spawned),
        "rejected": sorted(result.gate_rejected_operations),
        # an attempt that is made again is refused again, on record again
        "dropped": sorted(
            {(one.reason, one.emitter_id or "", one.key or "") for one in result.dropped_spawns}
        ),
    }
