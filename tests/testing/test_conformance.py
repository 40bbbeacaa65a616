"""One role, a fake turn and a real session: it sees, says and gives the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from emissions import (
    EMISSIONS,
    EscalationRequest,
    Finding,
    SpawnRequest,
    TaskAssignment,
    Urgency,
    Verdict,
)
from orchestrator.core.state import RunState
from orchestrator.core.status import Status
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.runtime.session import Session
from orchestrator.testing import fake_turn, run_flow_with
from orchestrator.testing.fake import FakeTurn
from roles import Artifact, Role, Turn, role

pytestmark = pytest.mark.anyio

NOTE = "look at b.py first"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


class Scan(BaseModel):
    files: list[str]


class Wrong(BaseModel):
    pages: int


def text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def said_by(call: Callable[[], Any]) -> Any:
    """What a call gives, or the error that it raises, as JSON."""
    try:
        return call()
    except Exception as error:
        return text_of(error).splitlines()[0]


def change(mapping: Any) -> None:
    mapping["scan"] = 1


def reading(turn: Turn) -> dict[str, Any]:
    turn.parameters["more"].append(3)
    turn.inputs["scan"]["files"].append("mutated")
    turn.context.get("seen", []).append("mutated")
    return {
        "node": turn.node,
        "attempt": turn.attempt,
        "key": turn.idempotency_key.removeprefix(turn.run),
        "parameters": turn.parameters,
        "instruction": TIME.sub("TIME", turn.instruction),
        "steers": [list(turn.steers()), list(turn.steers())],
        "names": [list(turn.inputs), len(turn.inputs), "scan" in turn.inputs, "broken" in turn.inputs],
        "values": dict(turn.inputs),
        "by seed's name": turn.inputs["scan_result"]["files"],
        "listed": "scan_result" in list(turn.inputs),
        "default": turn.inputs.get("nobody", "nothing"),
        "of role": [list(turn.inputs.of(role="scan")), list(turn.inputs.of(role="nobody"))],
        "missing": said_by(lambda: turn.inputs["nobody"]),
        "read-only": said_by(lambda: change(turn.inputs)),
        "typed": turn.input("scan", Scan).files,
        "mistyped": said_by(lambda: turn.input("scan", Wrong)),
        "failed": {name: str(error) for name, error in turn.failed.items()},
        "findings": [
            [f.severity and f.severity.value, f.description, f.node, f.role] for f in turn.emissions(Finding)
        ],
        "of scan": len(turn.emissions(Finding, of="scan")),
        "of nobody": len(turn.emissions(Finding, of="nobody")),
        "verdicts": list(turn.emissions(Verdict)),
        "context": dict(turn.context),
        "deadline": turn.deadline,
        "branch": turn.branch,
        "artifacts": sorted(turn.artifacts),
        "artifact in workdir": turn.artifacts["note"] == turn.workdir / "out" / "note.md",
        "workdir is there": turn.workdir.is_dir(),
    }


async def speaking(turn: Turn) -> dict[str, Any]:
    said = {
        "spawn": SpawnRequest(assignee="inspector", parameters={"path": "a.py"}, key="a.py"),
        "spawn again": SpawnRequest(assignee="inspector", parameters={"path": "a.py"}, key="a.py"),
        "second spawn": SpawnRequest(assignee="inspector", key="b.py"),
        "own role": SpawnRequest(key="mine"),
        "finding": Finding(description="one", severity="low"),
        "equal finding": Finding(description="one", severity="low"),
        "undeclared": Verdict(verdict="APPROVE", rationale="fine"),
        "task": TaskAssignment(name="tidy", task="tidy up", assignee="inspector"),
        "task again": TaskAssignment(name="tidy", task="otherwise", assignee="inspector"),
        "badly named": TaskAssignment(name="not a name", task="x", assignee="inspector"),
        "fyi": EscalationRequest(reason="just so you know", urgency=Urgency.FYI),
        "nobody above": EscalationRequest(reason="too hard"),
    }
    receipts = {}
    for name, emission in said.items():
        receipt = await turn.emit(emission)
        node, number = getattr(receipt, "node", None), getattr(receipt, "emission", None)
        receipts[name] = [
            bool(receipt),
            node,
            number,
            getattr(receipt, "reason", ""),
            getattr(receipt, "detail", ""),
        ]
    error = None
    try:
        await turn.emit("hello")  # type: ignore[arg-type]
    except TypeError as wrong:
        error = text_of(wrong)
    return {"receipts": receipts, "no emission": error}


async def remembering(turn: Turn) -> dict[str, Any]:
    calls: list[int] = []

    async def later() -> tuple[int, int]:
        calls.append(1)
        return (1, 2)

    turn.write("sum", {"a": 1, "b": {"c": 2}})
    turn.write("sum", {"b": {"d": (3,)}})
    turn.write("list", [1])
    turn.write("whole", {"x": 1})
    turn.write("whole", {"y": 1}, replace=True)
    turn.report("half way")
    stepped = [
        await turn.step("one", later),
        await turn.step("one", later),
        await turn.step("two", lambda: 5),
    ]
    return {
        "not JSON": said_by(lambda: turn.write("bad", {"x": [{1}]})),
        "not a number": said_by(lambda: turn.write("bad", float("nan"))),
        "steps": stepped,
        "calls": len(calls),
        "asked": [await turn.ask("Which?", key="which", choices=("a", "b")), await turn.ask("How many?")],
    }


@role(emits=(SpawnRequest, Finding, TaskAssignment), artifacts=(Artifact("note", "out/note.md"),))
async def probe(turn: Turn) -> dict[str, Any]:
    read = reading(turn)
    shared = Finding(description="emitted and returned")
    await turn.emit(shared)
    told = await speaking(turn)
    remembered = await remembering(turn)
    return {
        "read": read,
        "told": told,
        "remembered": remembered,
        "returned": [
            shared,
            Finding(description="one", severity="low"),
            Finding(description="only returned"),
        ],
        "context": {"returned": {"k": 1}},
        "text": '```Finding\n{"description": "fenced"}\n```',
    }


steered = ContextVar[anyio.Event]("steered")


@role(emits=(Finding,))
async def scan(turn: Turn) -> dict[str, Any]:
    await steered.get().wait()
    await turn.emit(Finding(description="first", severity="high"))
    turn.write("seen", ["a.py"])
    return {"files": ["a.py", "b.py"], "finding": Finding(description="second")}


@role()
async def broken(turn: Turn) -> None:
    raise ValueError("no such folder")


@role()
async def inspector(turn: Turn) -> str:
    return "looked"


ANSWERS = {"which": "b", "How many?": 3}


async def real(body: Role, folder: Any) -> tuple[Any, RunState]:
    graph = OperationGraphBuilder("conformance")
    graph.add_operation(scan)
    graph.add_operation(broken, depends_on=[])
    graph.add_operation(
        body,
        depends_on=["scan", "broken"],
        instruction="Do it well.",
        parameters={"more": [1, 2], "pair": (1, 2)},
    )
    async with Session([inspector], folder=folder) as session:
        steered.set(anyio.Event())
        run = await session.start(graph, context={"start": 1}, waits_for_answers=True)
        assert run.steer(NOTE, "probe")
        steered.get().set()
        async with run.events(kinds=("QuestionAsked",)) as asked:
            async for event in asked:
                assert run.answer("probe", ANSWERS[event.data["key"]], key=event.data["key"])
        result = await run.wait()
    assert result["probe"].status is Status.COMPLETED, result["probe"].error
    return result["probe"].value, run.engine.state


def faked(body: Role, folder: Any) -> FakeTurn:
    return fake_turn(
        {"more": [1, 2], "pair": (1, 2)},
        {"scan": {"files": ["a.py", "b.py"], "finding": Finding(description="second")}},
        body,
        instruction="Do it well.",
        steers=[NOTE],
        context={"start": 1, "seen": ["a.py"]},
        emissions={"scan": [Finding(description="first", severity="high")]},
        failed={"broken": ValueError("no such folder")},
        answers=ANSWERS,
        workdir=folder,
    )


async def test_a_role_sees_and_gives_the_same(tmp_path):
    """Everything that a role can read of its turn, every receipt, and its value as others read it."""
    value, state = await real(probe, tmp_path / "runs")
    turn = faked(probe, tmp_path / "fake")
    given = await turn.play(probe)
    for part in value:
        assert given[part] == value[part], part
    node = state.nodes["probe"]
    ledger = [EMISSIONS[entry.kind].model_validate_json(entry.payload) for entry in node.ledger or ()]
    assert turn.accepted == ledger
    assert sorted(turn.writes) == sorted(node.writes or {})


async def test_writes_fold_alike(tmp_path):
    """Mappings merge per leaf, `replace` does not, a returned `context` is written."""

    @role()
    async def reader(turn: Turn) -> dict[str, Any]:
        return dict(turn.context)

    @role()
    async def writer(turn: Turn) -> dict[str, Any]:
        turn.write("sum", {"a": 1, "b": {"c": 2}})
        turn.write("sum", {"b": {"d": 3}})
        turn.write("whole", {"x": 1})
        turn.write("whole", {"y": 1}, replace=True)
        return {"context": {"sum": {"e": 4}, "returned": (1, 2)}}

    graph = OperationGraphBuilder()
    graph.add_operation(writer)
    graph.add_operation(reader)
    result = await run_flow_with(graph, folder=tmp_path)
    turn = fake_turn()
    await turn.play(writer)
    assert result["reader"].value == turn.writes


@pytest.mark.parametrize(
    "value",
    [
        {"a": {1, 2}},
        {1: 2},
        float("inf"),
        2**70,
        object(),
        b"bytes",
        {"context": [1]},
        "\ud800",
        [[[{"deep": (x for x in ())}]]],
    ],
    ids=["set", "int key", "inf", "big", "object", "bytes", "context no mapping", "surrogate", "generator"],
)
async def test_values_are_refused_alike(value: Any, tmp_path):
    """PROP 12, S44: what does not come back from JSON exactly fails the node, with the same words."""

    @role()
    async def give(turn: Turn) -> Any:
        return value

    graph = OperationGraphBuilder()
    graph.add_operation(give)
    result = await run_flow_with(graph, folder=tmp_path)
    error = result["give"].error
    assert error is not None
    with pytest.raises(Exception) as raised:
        await fake_turn().play(give)
    assert (type(raised.value).__name__, str(raised.value)) == (error.type, error.message)


async def test_plain_roles_emit_the_same(tmp_path):
    """`emit_sync` of a plain `def` role, in a run's thread and with no engine."""

    @role(emits=(Finding,))
    def plain(turn: Turn) -> list[Any]:
        receipts = [
            turn.emit_sync(Finding(description="x")),
            turn.emit_sync(Verdict(verdict="APPROVE", rationale="fine")),
        ]
        turn.report("done")
        return [[bool(r), getattr(r, "reason", None), getattr(r, "detail", None)] for r in receipts]

    graph = OperationGraphBuilder()
    graph.add_operation(plain)
    result = await run_flow_with(graph, folder=tmp_path)
    turn = fake_turn(grants=plain)
    assert await turn.play(plain) == result["plain"].value
    assert plain(fake_turn(grants=plain)) == result["plain"].value
    assert turn.reports == ["done"]


async def test_growth_without_budget_is_not_offered_alike(tmp_path):
    """S6: with a spawn budget of 0 the refusal is `not_granted`; above it, `max_spawn_exceeded`."""

    @role(emits=(SpawnRequest,))
    async def grow(turn: Turn) -> list[Any]:
        receipts = [await turn.emit(SpawnRequest(assignee="inspector", key=str(n))) for n in range(3)]
        return [
            [getattr(r, "node", None), getattr(r, "reason", None), getattr(r, "detail", None)]
            for r in receipts
        ]

    from orchestrator.core.spec import Budget

    for spawns in (0, 2):
        graph = OperationGraphBuilder()
        graph.add_operation(grow)
        result = await run_flow_with(
            graph, {"inspector": inspector}, budget=Budget(spawns=spawns), folder=tmp_path
        )
        assert await fake_turn(grants=grow, spawns=spawns).play(grow) == result["grow"].value


async def test_tiers_answer_alike(tmp_path):
    """An escalation to a role above is accepted with the name of the child; a second one goes with it."""

    @role(escalates_to="senior")
    async def junior(turn: Turn) -> Any:
        receipts = [await turn.emit(EscalationRequest(reason=text)) for text in ("hard", "harder")]
        seen.append([getattr(receipt, "node", None) for receipt in receipts])

    @role()
    async def senior(turn: Turn) -> int:
        return 1

    seen: list[Any] = []
    graph = OperationGraphBuilder()
    graph.add_operation(junior)
    result = await run_flow_with(graph, {"senior": senior}, folder=tmp_path)
    assert result["junior"].value == 1
    await fake_turn(grants=junior).play(junior)
    assert seen == [["junior+1", "junior+1"]] * 2
