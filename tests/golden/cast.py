"""Roles and graphs of the runs that were recorded; what goes on from a golden journal is given them again.

A line that changes here changes no journal. It may change what a suspended golden run comes to when it is
resumed, and then a test says so.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from orchestrator import (
    EdgeCondition,
    EscalationRequest,
    Finding,
    Gap,
    Graph,
    Inject,
    NotApplicable,
    OperationGraphBuilder,
    Retry,
    SpawnRequest,
    Steer,
    TaskAssignment,
    Urgency,
    Verdict,
    Veto,
    Write,
    role,
)


class World:
    """What is outside the run: it changes between two attempts."""

    #: the part that failed works now
    mended = False
    #: the next fragile role takes the process down with it
    deadly = False


@dataclass(frozen=True)
class MoreThan(EdgeCondition):
    """Takes the edge if a field of the value is larger."""

    field: str
    limit: int

    def apply(self, result: object, context: Mapping[str, object]) -> bool:
        """Judge one value."""
        return isinstance(result, dict) and result[self.field] > self.limit


def on_finding(finding: Finding, _view: Any) -> list[Any]:
    """One emission leads to a node, a note, a write, and two requests that are refused."""
    return [
        Inject("digger", instruction=finding.description, parameters={"n": 3}, before=("join",), key="smoke"),
        Steer("look twice", "join"),
        Write("noted", finding.description),
        Veto("unwanted", "not this time"),
        Veto("nobody", "there is none"),
    ]


# --- roles -----------------------------------------------------------------------------------------


@role(emits=(SpawnRequest, TaskAssignment, Finding))
async def scout(turn: Any) -> dict[str, Any]:
    """Grows the graph in every way, and is refused for every other reason."""
    answers = []
    for request in (
        *(SpawnRequest(assignee="digger", parameters={"n": n}, before="successors") for n in (1, 1, 9)),
        SpawnRequest(assignee="digger", parameters={"n": 2}, key="once", independent=True),
        SpawnRequest(assignee="digger", parameters={"n": 2}, key="once"),
        SpawnRequest(assignee="digger", after=("last",), before=("join",)),
        SpawnRequest(assignee="nobody"),
        TaskAssignment(name="named", task="dig", assignee="digger", inputs={"n": 4}, exit_criteria="a hole"),
        Finding(description="smoke"),
        Verdict(verdict="APPROVE", rationale="nobody asked"),
    ):
        receipt = await turn.emit(request)
        answers.append(receipt.node if receipt else receipt.reason)
    turn.write("found", ["scout"])
    return {"answers": answers, "text": "\u00fc \U0001f600 \x00 \\"}


@role(emits=(SpawnRequest,))
async def digger(turn: Any) -> int:
    """A grown node; one of them grows another."""
    number = turn.parameters.get("n", 0)
    if number == 9:
        await turn.emit(SpawnRequest(assignee="digger", parameters={"n": 5}, key="deeper"))
    turn.write("found", [turn.node])
    turn.write("tally", number)
    return number**2


@role()
async def join(turn: Any) -> dict[str, Any]:
    """What it reads, and the note that it was given."""
    return {"inputs": dict(turn.inputs), "notes": list(turn.steers()), "found": sorted(turn.context["found"])}


@role(emits=(SpawnRequest,))
async def greedy(_turn: Any) -> list[Any]:
    """Asks for more than there is, and says what it may not so often that not every refusal is a fact."""
    return [
        *(SpawnRequest(assignee="plain", key=str(number)) for number in range(5)),
        *(Gap(area="x", what_is_unknown="y") for _ in range(102)),
    ]


@role()
async def plain(turn: Any) -> list[str]:
    """Tells what it read."""
    return [*turn.inputs, *turn.failed]


@role()
async def source(turn: Any) -> dict[str, int]:
    """Gives a count."""
    turn.write("seen", {"a": 1})
    return {"count": turn.parameters.get("count", 1)}


@role(emits=(Verdict,))
async def review(turn: Any) -> Any:
    """A gate: says what it is told to, or nothing."""
    verdict = turn.parameters.get("verdict")
    if verdict:
        await turn.emit(Verdict(verdict=verdict, rationale=f"told to {verdict.lower()}"))
    return "judged"


@role(emits=(EscalationRequest,), models=("small", "large"))
async def hard(turn: Any) -> Any:
    """Gives up on its lower tier."""
    if turn.node.endswith("+1"):
        return "done above"
    await turn.emit(EscalationRequest(reason="worth knowing", urgency=Urgency.FYI))
    return EscalationRequest(reason="too hard", context={"tried": ["twice"]})


@role(emits=(Finding,))
async def flaky(turn: Any) -> str:
    """Says something, takes a step, and fails on its first attempt."""
    await turn.emit(Finding(description="the same each time"))

    async def counted() -> int:
        return turn.attempt

    first = await turn.step("count", counted)
    if turn.attempt == 1:
        message = "not yet"
        raise ConnectionError(message)
    return f"steady after {first}"


@role()
async def broken(_turn: Any) -> None:
    """Fails for good."""
    message = "broken"
    raise ValueError(message)


@role()
async def needless(_turn: Any) -> None:
    """Has nothing to do."""
    message = "nothing to do here"
    raise NotApplicable(message)


@role()
async def sleeper(turn: Any) -> str:
    """Takes its time, and does not like to be woken: it gives something all the same, or goes on."""
    while True:
        try:
            await anyio.sleep(turn.parameters["seconds"])
        except anyio.get_cancelled_exc_class():
            if turn.parameters.get("woken") == "gives":
                return "half rested"
            if turn.parameters.get("woken") != "goes on":
                raise
        else:
            return "rested"


@role()
async def asker(turn: Any) -> dict[str, Any]:
    """Asks for what it needs; one of the two has a default."""
    await anyio.sleep(0.1)
    colour = await turn.ask("Which colour?", key="colour", choices=("red", "blue"))
    size = await turn.ask("Which size?", key="size", schema=int, expires=60.0, default=7)
    return {"colour": colour, "size": size}


@role()
async def listener(turn: Any) -> dict[str, Any]:
    """What it was told, and what it reads."""
    return {"inputs": dict(turn.inputs), "notes": list(turn.steers())}


@role(emits=(SpawnRequest,))
async def mendable(turn: Any) -> str:
    """Grows a node, then fails until the world is mended."""
    await turn.emit(SpawnRequest(assignee="plain", instruction=f"for generation {turn.attempt}"))
    if not World.mended:
        message = "the part is missing"
        raise RuntimeError(message)
    return "mended"


@role()
async def fragile(turn: Any) -> str:
    """Takes its process down with it once, as kill -9 does."""
    await anyio.sleep(0.1)
    if World.deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"attempt {turn.attempt}"


async def talk(turn: Any) -> list[str]:
    """A verb of the session: speaks on a branch."""
    turn.branch.say("assistant", turn.node)
    return [message.content for message in turn.branch.messages]


@role()
async def large(_turn: Any) -> str:
    """Gives more than is kept in a row."""
    return "x" * 70_000


@role(emits=(Verdict,))
async def strict(turn: Any) -> Verdict:
    """Refuses what is new, and approves what was worked over."""
    seen = turn.rework
    if seen is None:
        return Verdict(verdict="REJECT", rationale="too short", reversible_by="more of it")
    return Verdict(verdict="APPROVE", rationale=f"better than {seen.verdict}")


@role()
async def lister(turn: Any) -> list[str]:
    """Names what there is to do, and leaves a file."""
    (turn.workdir / "note.txt").write_text("written once", encoding="utf-8")
    return ["one", "two", "three"]


@role(emits=(TaskAssignment,))
async def drafter(turn: Any) -> Any:
    """Plans; its first plan has a fault."""
    before = ["nobody"] if turn.attempt == 1 else ["first"]
    return [
        TaskAssignment(name="first", task="begin", assignee="plain"),
        TaskAssignment(name="then", task="go on", assignee="plain", depends_on=before),
    ]


ROLES = (
    scout, digger, join, greedy, plain, large, source, review, hard, flaky, broken, needless, sleeper, asker,
    listener, mendable, fragile,
)  # fmt: skip


# --- graphs ----------------------------------------------------------------------------------------


def growing() -> Graph:
    """Everything that can be asked for, accepted and refused."""
    made = OperationGraphBuilder("growing")
    made.add_operation(scout, "scout", depends_on=[])
    made.add_operation(join, "join", depends_on=["scout"])
    made.add_operation(plain, "unwanted", depends_on=["join"])
    made.add_operation(greedy, "greedy", depends_on=["join"])
    made.add_operation(plain, "last", depends_on=["greedy"])
    made.add_operation("chat", "talk", depends_on=["last"])
    made.add_operation("chat", "talk_on", depends_on=["talk"], inherit_context=True)
    return made.get_graph()


def talking() -> Graph:
    """Nodes that speak on one branch, and one that begins with what they said."""
    made = OperationGraphBuilder("talking")
    made.add_operation("chat", "talk", depends_on=[])
    made.add_operation("chat", "more", depends_on=["talk"])
    made.add_operation("chat", "apart", depends_on=["more"], inherit_context=True)
    return made.get_graph()


def wide() -> Graph:
    """So many nodes at once that their readiness is one fact."""
    made = OperationGraphBuilder("wide")
    made.add_operation(large, "large", depends_on=[])
    for number in range(9):
        made.add_operation(plain, f"n{number}", depends_on=["large"])
    return made.get_graph()


def gated() -> Graph:
    """A gate that opens, one that rejects, one that says nothing."""
    made = OperationGraphBuilder("gated")
    made.add_operation(source, "work", depends_on=[])
    made.add_operation(review, "opens", depends_on=["work"], gate=True, parameters={"verdict": "APPROVE"})
    made.add_operation(plain, "publish", depends_on=["opens"])
    made.add_operation(review, "vetoes", depends_on=["work"], gate=True, parameters={"verdict": "REJECT"})
    made.add_operation(plain, "never", depends_on=["vetoes"])
    made.add_operation(plain, "nor", depends_on=["never", "publish"])
    made.add_operation(review, "mute", depends_on=["work"], gate=True)
    made.add_operation(plain, "held", depends_on=["mute"])
    return made.get_graph()


def troubled() -> Graph:
    """Failure, retry, escalation, timeout, conditions, nodes that are not needed."""
    made = OperationGraphBuilder("troubled")
    made.add_operation(source, "start", depends_on=[], parameters={"count": 2})
    made.add_operation(hard, "hard", depends_on=["start"])
    made.add_operation(flaky, "flaky", depends_on=["start"], retry=Retry(attempts=3, backoff=0.3))
    made.add_operation(plain, "after", depends_on=["hard", "flaky"])
    made.add_operation(broken, "broken", depends_on=["start"])
    made.add_operation(plain, "rescue", depends_on=[])
    made.add_edge("broken", "rescue", accept=["failed"])
    made.add_operation(plain, "unused", depends_on=[])
    made.add_edge("broken", "unused", accept=["completed"])
    made.add_operation(needless, "needless", depends_on=["start"])
    made.add_operation(
        sleeper, "slow", depends_on=["start"], timeout=0.5, parameters={"seconds": 5, "woken": "gives"}
    )
    made.add_operation(plain, "late", depends_on=[])
    made.add_edge("slow", "late", accept=["failed"])
    made.add_operation(plain, "many", depends_on=["start"], when=MoreThan("count", 1))
    made.add_operation(plain, "few", depends_on=["start"], when="start.count < 2")
    return made.get_graph()


def asking() -> Graph:
    """Two questions, and somebody who is told things."""
    made = OperationGraphBuilder("asking")
    made.add_operation(asker, "asker", depends_on=[])
    made.add_operation(listener, "listener", depends_on=["asker"])
    return made.get_graph()


def controlled() -> Graph:
    """Long enough to be paused, steered and cancelled."""
    made = OperationGraphBuilder("controlled")
    made.add_operation(sleeper, "one", depends_on=[], parameters={"seconds": 2})
    made.add_operation(sleeper, "two", depends_on=[], parameters={"seconds": 90})
    made.add_operation(listener, "three", depends_on=["one"])
    made.add_operation(sleeper, "four", depends_on=["three"], parameters={"seconds": 60, "woken": "goes on"})
    return made.get_graph()


def failing() -> Graph:
    """What fails at first and is tried again."""
    made = OperationGraphBuilder("failing")
    made.add_operation(source, "start", depends_on=[])
    made.add_operation(mendable, "part", depends_on=["start"])
    made.add_operation(plain, "whole", depends_on=[])
    made.add_edge("part", "whole", accept=["completed"])
    return made.get_graph()


def dying() -> Graph:
    """What is killed in the middle."""
    made = OperationGraphBuilder("dying")
    made.add_operation(source, "start", depends_on=[])
    made.add_operation(fragile, "fragile", depends_on=["start"])
    made.add_operation(plain, "end", depends_on=["fragile"])
    return made.get_graph()
