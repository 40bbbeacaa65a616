"""What a fake turn offers beyond being one: a script, a record, and errors that say what to give."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from emissions import (
    Accepted,
    Emission,
    EscalationRequest,
    Finding,
    Malformed,
    Receipt,
    Refused,
    SpawnRequest,
    Verdict,
)
from orchestrator.runtime.values import NotExactError
from orchestrator.testing import FakeTurn, ScriptError, fake_turn
from roles import Artifact, Emitted, NodeError, Role, Turn, role

pytestmark = pytest.mark.anyio


class Note(Emission):
    """A project's own type."""

    text: str


def spawn(key: str) -> SpawnRequest:
    return SpawnRequest(assignee="inspector", key=key)


def test_it_is_a_turn():
    """The protocol of a role's only parameter."""
    assert isinstance(fake_turn(), Turn)


def test_defaults_are_those_of_a_node_alone():
    turn = fake_turn()
    assert (turn.node, turn.attempt, turn.instruction, turn.deadline, turn.branch) == (
        "node",
        1,
        "",
        None,
        None,
    )
    assert (turn.parameters, dict(turn.inputs), turn.failed, dict(turn.context)) == ({}, {}, {}, {})
    assert turn.idempotency_key == "run/node"
    assert not turn.emissions(Finding)
    assert not turn.steers()


def test_what_is_given_is_read():
    turn = fake_turn(
        node="scout.inspector-2",
        attempt=3,
        deadline=9.5,
        branch="talk",
        run="r1",
        instruction="Look.",
        failed={"a": NodeError("TimeoutError", "", 2), "b": OSError("gone")},
    )
    assert (turn.attempt, turn.deadline, turn.branch, turn.instruction) == (3, 9.5, "talk", "Look.")
    assert turn.idempotency_key == "r1/scout.inspector-2"
    assert turn.failed == {"a": NodeError("TimeoutError", "", 2), "b": NodeError("OSError", "gone")}
    assert "inspector-2" in repr(turn)


def test_what_is_given_is_kept_by_value():
    """Law 14: what the test or the role changes afterwards changes nothing elsewhere."""
    given: dict[str, Any] = {"list": [1], "pair": (1, 2)}
    turn = fake_turn(given, {"scan": given}, context={"seen": given})
    given["list"].append(2)
    turn.context["seen"]["list"].append(3)
    turn.failed["x"] = NodeError("E", "")  # type: ignore[index]
    assert turn.parameters == turn.inputs["scan"] == turn.context["seen"] == {"list": [1], "pair": [1, 2]}
    assert turn.failed == {}


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"parameters": {"a": {1}}}, "parameters.a"),
        ({"inputs": {"scan": [object()]}}, r"inputs.scan\[0\]"),
        ({"context": {"k": b"x"}}, "context.k"),
        ({"answers": {"k": 1j}}, "answers.k"),
        ({"steps": {"k": float("nan")}}, "steps.k"),
    ],
)
def test_what_is_given_must_be_json(keys: dict[str, Any], path: str):
    """A test that gives what no run could give is told so, with the path."""
    with pytest.raises(NotExactError, match=f"^{path} "):
        fake_turn(**keys)


def test_roles_of_predecessors():
    """`inputs.of(role=)`: what the test says, else what the name says."""
    turn = fake_turn(
        inputs=dict.fromkeys(
            ["scan", "scan_2", "scout.inspector-1", "scout.inspector-12", "odd_one", "x+1"], 1
        ),
        roles={"odd_one": "inspector"},
    )
    assert list(turn.inputs.of(role="inspector")) == ["scout.inspector-1", "scout.inspector-12", "odd_one"]
    assert list(turn.inputs.of(role="scan")) == ["scan", "scan_2"]
    assert list(turn.inputs.of(role="x")) == ["x+1"]


def test_emissions_of_ancestors():
    """As a list, by node, with an origin of their own; and those that stand in an input's value."""
    finding, other = Finding(description="a", severity="high"), Finding(description="b")
    assert [(f.node, f.description) for f in fake_turn(emissions=[finding]).emissions(Finding)] == [
        ("upstream", "a")
    ]
    by_node = fake_turn(emissions={"scout.inspector-1": [finding], "scan": (other,)})
    assert [(f.node, f.role) for f in by_node.emissions(Finding)] == [
        ("scout.inspector-1", "inspector"),
        ("scan", "scan"),
    ]
    assert [f.description for f in by_node.emissions(Finding, of="scan")] == ["b"]
    assert len(by_node.emissions(Finding, of=["scan", "scout.inspector-1"])) == 2
    origin = fake_turn(emissions=[Emitted(finding, "far", "critic", 2)]).emissions(Finding)[0]
    assert (origin.node, origin.role, origin.attempt) == ("far", "critic", 2)
    in_value = fake_turn(inputs={"scan": {"all": [finding]}}, emissions={"far": [other]})
    assert [(f.node, f.description) for f in in_value.emissions(Finding)] == [("far", "b"), ("scan", "a")]
    assert [f.node for f in fake_turn(inputs={"x": Note(text="hi")}).emissions(Note)] == ["x"]


# --- emitting ----------------------------------------------------------------------------------


async def test_emitted_receipts_and_accepted():
    """Everything that was said, the answer to each, and what was taken."""
    turn = fake_turn(grants=(SpawnRequest,))
    await turn.emit(spawn("a"))
    await turn.emit(Finding(description="x"))
    await turn.emit(spawn("b"))
    assert turn.emitted == [spawn("a"), Finding(description="x"), spawn("b")]
    assert turn.receipts == [
        Accepted("node.inspector-1", 1),
        Refused("not_granted", "node 'node' does not declare Finding; add it to emits="),
        Accepted("node.inspector-2", 2),
    ]
    assert turn.accepted == [spawn("a"), spawn("b")]


async def test_grants_none_is_everything():
    turn = fake_turn()
    assert await turn.emit(Finding(description="x"))
    assert await turn.emit(Note(text="own"))
    assert await turn.emit(Verdict(verdict="APPROVE", rationale="fine"))


async def test_grants_of_a_role_are_its_declaration():
    scout = Role("scout", emits=(SpawnRequest,))
    turn = fake_turn(grants=scout)
    assert turn.node == "scout"
    assert await turn.emit(spawn("a")) == Accepted("scout.inspector-1", 1)
    assert await turn.emit(Finding(description="x")) == Refused(
        "not_granted", "role 'scout' does not declare Finding; add it to emits="
    )
    assert await turn.emit(SpawnRequest()) == Accepted("scout.scout-1", 2)


async def test_names_of_children():
    """Derived names: the planned ancestor, the role or the verb, a number of their own each."""
    turn = fake_turn(node="scout.inspector-1", roles={"other": "critic"})
    names = [
        (await turn.emit(request)).node  # type: ignore[union-attr]
        for request in (
            spawn("a"),
            SpawnRequest(),
            SpawnRequest(operation="chat"),
            SpawnRequest(assignee="other"),
        )
    ]
    assert names == ["scout.inspector-1", "scout.operate-1", "scout.chat-1", "scout.critic-1"]


async def test_a_key_is_an_identity():
    """The same key again is a duplicate; equal emissions without a key are two; a copy returned is one."""
    turn = fake_turn()
    finding = Finding(description="x")
    assert await turn.emit(finding)
    assert await turn.emit(finding)
    assert await turn.emit(spawn("a"))
    again = await turn.emit(spawn("a"))
    assert isinstance(again, Refused)
    assert again == Refused("duplicate", "this SpawnRequest was taken as number 3 and made node.inspector-1")
    turn.settle([finding, Finding(description="x"), Finding(description="x")])
    assert [e.emission_kind for e in turn.accepted].count("Finding") == 2


async def test_a_forged_type_is_refused():
    """A class of the same name is not the house's type."""

    class Finding(Emission):
        description: str

    receipt = await fake_turn().emit(Finding(description="x"))
    assert receipt == Refused("forged", "this Finding is not the house's type; import it from emissions")


async def test_what_has_no_json_is_refused():
    turn = fake_turn()
    receipt = await turn.emit(SpawnRequest(parameters={"x": 2**70}))
    assert isinstance(receipt, Refused)
    assert receipt.reason == "invalid"
    assert turn.accepted == []


async def test_what_is_emitted_is_kept_by_value():
    """Changing a mapping inside an emission afterwards does not change what was said."""
    turn = fake_turn()
    parameters = {"path": "a.py"}
    request = SpawnRequest(parameters=parameters)
    await turn.emit(request)
    request.parameters["path"] = "b.py"
    assert turn.emitted[0].parameters == {"path": "a.py"}


async def test_scripted_receipts():
    """In order, to granted emissions only; a reason as text, None for the turn's own answer, then its own."""
    turn = fake_turn(
        grants=(SpawnRequest,),
        receipts=["max_spawn_exceeded", None, Accepted("there"), Refused("cycle", "a -> b")],
    )
    await turn.emit(Finding(description="not granted: takes no line of the script"))
    for key in "abcde":
        await turn.emit(spawn(key))
    assert turn.receipts[1:] == [
        Refused("max_spawn_exceeded", "as the test's script has it"),
        Accepted("node.inspector-1", 1),
        Accepted("there", 2),
        Refused("cycle", "a -> b"),
        Accepted("node.inspector-2", 3),
    ]


async def test_receipts_by_function():
    def answer(emission: Emission) -> Receipt | None:
        return Refused("too_late") if getattr(emission, "key", "") == "b" else None

    turn = fake_turn(receipts=answer)
    assert await turn.emit(spawn("a"))
    assert not await turn.emit(spawn("b"))


async def test_spawns_is_a_budget():
    turn = fake_turn(spawns=1)
    assert await turn.emit(spawn("a"))
    assert await turn.emit(spawn("b")) == Refused(
        "max_spawn_exceeded", "all 1 spawns of this run are used; raise budget.spawns to allow more"
    )


async def test_escalations():
    """Everybody may ask; fyi makes no child; without a known role there is somebody above."""
    turn = fake_turn(grants=(), node="draft+1")
    assert await turn.emit(EscalationRequest(reason="x", urgency="fyi")) == Accepted(None, 1)
    assert await turn.emit(EscalationRequest(reason="y")) == Accepted("draft+2", 2)
    assert (
        await fake_turn(grants=Role("r", models=("a", "b"))).emit(EscalationRequest(reason="x"))
    ).node == "r+1"  # type: ignore[union-attr]


@pytest.mark.parametrize("grants", [("Finding",), (Finding(description="x"),), (str,)])
def test_grants_must_be_types(grants: Any):
    with pytest.raises(TypeError, match="give a Role, types such as"):
        fake_turn(grants=grants)


def test_receipts_must_be_a_list():
    """A single text would be read letter by letter."""
    with pytest.raises(TypeError, match=r"receipts=\['cycle'\]"):
        fake_turn(receipts="cycle")


async def test_a_plain_role_in_a_thread():
    """`emit_sync` from any thread; nothing is lost."""
    turn = fake_turn()

    def body() -> None:
        for number in range(50):
            assert turn.emit_sync(spawn(str(number)))

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, body)
    assert len(turn.accepted) == 50


def test_a_role_runs_with_no_event_loop():
    """A body that awaits nothing but its turn needs no loop: every answer is there at once."""

    @role(emits=(SpawnRequest,))
    async def scout(turn: Turn) -> bool:
        return bool(await turn.emit(spawn("a")))

    with pytest.raises(StopIteration) as done:
        scout(fake_turn()).send(None)
    assert done.value.value is True


# --- playing -----------------------------------------------------------------------------------


async def test_play_settles_as_a_run_does():
    """The value as JSON data, emissions in it answered, `context` written, text searched."""

    @role(emits=(Finding,))
    async def body(turn: Turn) -> dict[str, Any]:
        return {
            "finding": Finding(description="x"),
            "pair": (1, 2),
            "context": {"k": 1},
            "text": '```Finding\n{"description": "y"}\n```\n```Finding\n{"nonsense": 1}\n```',
        }

    turn = fake_turn(grants=body)
    value = await turn.play(body)
    assert value["pair"] == [1, 2]
    assert value["finding"]["description"] == "x"
    assert turn.writes == {"k": 1}
    assert [e.description for e in turn.accepted] == ["x", "y"]
    assert isinstance(turn.emitted[2], Malformed)
    assert not turn.receipts[2]


async def test_an_undeclared_return_is_refused_visibly():
    """A returned emission is an emitted one: grants hold for it."""
    turn = fake_turn(grants=())
    await turn.play(lambda _: [Finding(description="x")])
    assert [receipt.reason for receipt in turn.receipts if isinstance(receipt, Refused)] == ["not_granted"]


async def test_too_deep_is_refused():
    """An emission deeper than 32 levels is seen, and refused."""
    value: Any = Finding(description="x")
    for _ in range(33):
        value = [value]
    turn = fake_turn()
    turn.settle(value)
    assert isinstance(turn.receipts[0], Refused)
    assert turn.receipts[0].reason == "too_deep"


async def test_errors_of_a_role_are_its_own():
    async def body(turn: Turn) -> None:
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        await fake_turn().play(body)


# --- writing, steps, questions, steers, files --------------------------------------------------


def test_writes_merge_per_leaf():
    turn = fake_turn(context={"k": 1})
    turn.write("a", {"x": {"y": 1}})
    turn.write("a", {"x": {"z": 2}})
    turn.write("a", {"w": (3,)})
    turn.write("b", {"x": 1})
    turn.write("b", {"y": 1}, replace=True)
    assert turn.writes == {"a": {"x": {"y": 1, "z": 2}, "w": [3]}, "b": {"y": 1}}
    turn.writes["a"]["x"] = None
    assert turn.writes["a"]["x"] == {"y": 1, "z": 2}
    assert dict(turn.context) == {"k": 1}
    with pytest.raises(NotExactError, match=r"^a\.x "):
        turn.write("a", {"x": {1}})


async def test_steps_are_done_once():
    calls = []

    def work() -> tuple[int, ...]:
        calls.append(1)
        return (1, 2)

    turn = fake_turn(steps={"fetched": {"rows": 3}})
    assert await turn.step("fetched", work) == {"rows": 3}
    assert await turn.step("made", work) == [1, 2]
    assert await turn.step("made", work) == [1, 2]
    assert (calls, turn.steps) == ([1], {"fetched": {"rows": 3}, "made": [1, 2]})
    with pytest.raises(NotExactError, match="step bad"):
        await turn.step("bad", object)


async def test_a_failing_step_is_not_remembered():
    def work() -> None:
        raise OSError("busy")

    turn = fake_turn()
    with pytest.raises(OSError, match="busy"):
        await turn.step("s", work)
    assert await turn.step("s", lambda: 1) == 1


async def test_questions():
    """By key or question, recorded; a default where it may expire; else an error that says what to give."""
    turn = fake_turn(answers={"tone": "dry", "How long?": None})
    assert await turn.ask("Which tone?", key="tone", choices=("dry", "warm")) == "dry"
    assert await turn.ask("How long?") is None
    assert await turn.ask("And?", expires=60, default="go on") == "go on"
    assert [(asked.key, asked.answer) for asked in turn.asked] == [
        ("tone", "dry"),
        ("How long?", None),
        ("And?", "go on"),
    ]
    with pytest.raises(
        ScriptError, match=r"node asks 'Really\?' and nobody answers; give answers=\{'sure': ...\}"
    ):
        await turn.ask("Really?", key="sure")
    with pytest.raises(ScriptError, match=r"answers\['tone'\] is 'dry'; the choices are a, b"):
        await turn.ask("Which tone?", key="tone", choices=("a", "b"))


def test_steers_reach_instruction_and_steers_once():
    turn = fake_turn(instruction="Do it.", steers=["hurry", "use b"])
    assert turn.instruction.startswith("[OPERATOR STEER]")
    assert turn.instruction.endswith("Do it.")
    assert turn.steers() == ["hurry", "use b"]
    turn.tell("stop")
    assert turn.steers() == ["stop"]
    assert turn.steers() == []


def test_workdir_is_temporary():
    """Made when it is asked for, gone with the turn."""
    turn = fake_turn(artifacts=[Artifact("note", "out/note.md")])
    folder = turn.workdir
    assert folder.is_dir()
    assert turn.artifacts == {"note": folder / "out/note.md"}
    (folder / "x").write_text("y", encoding="utf-8")
    del turn
    gc.collect()
    assert not folder.exists()


def test_workdir_that_is_given_stays(tmp_path: Path):
    turn = fake_turn(workdir=tmp_path / "a" / "b")
    assert turn.workdir == tmp_path / "a" / "b"
    assert turn.workdir.is_dir()
    del turn
    gc.collect()
    assert (tmp_path / "a" / "b").is_dir()


def test_artifacts_of_the_role():
    writer = Role("writer", artifacts=(Artifact("draft", "draft.md"),))
    assert list(fake_turn(grants=writer).artifacts) == ["draft"]


@pytest.mark.slow
def test_a_user_s_test_type_checks(tmp_path: Path):
    """The kit as a user with strict mypy sees it."""
    code = """
from orchestrator import Finding, Role, SpawnRequest, Turn, role
from orchestrator.testing import FakeTurn, Scripted, fake_turn, run_flow_with, scripted

@role(emits=(SpawnRequest,))
async def scout(turn: Turn) -> int:
    return len(turn.inputs)

async def test_scout() -> None:
    turn: FakeTurn = fake_turn({"a": 1}, {"b": 2}, scout)
    as_turn: Turn = turn
    await scout(turn)
    keys = [request.key for request in turn.emitted]
    stand_in: Scripted = scripted(1, Finding(description="x"))
    as_role: Role = stand_in
    result = await run_flow_with("flow.yaml", {"scout": stand_in, "critic": lambda turn: turn.node}, {"n": 1})
    assert result.ok and keys and as_turn and as_role and stand_in.turns[0].node
"""
    (tmp_path / "user.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(tmp_path / "user.py")],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_fake_turns_do_not_mix(tmp_path: Path):
    """An instance that one turn has seen is new to another."""
    finding = Finding(description="x")
    first, second = fake_turn(), fake_turn()
    first.emit_sync(finding)
    second.settle(finding)
    assert len(second.accepted) == 1
    assert isinstance(first, FakeTurn)
