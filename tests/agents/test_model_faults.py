"""What goes wrong with a model, and what an operator says meanwhile: PARSE, COST, STEER, S52, S53."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai.exceptions import ModelHTTPError, ModelRateLimitError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart

from orchestrator import Finding, OperationGraphBuilder, Role, Session, role
from tests.agents.scripts import Whole, answers, scripted, told

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def anyio_backend() -> str:
    """The library that calls models runs on asyncio only."""
    return "asyncio"


async def ran(cast: Role, tmp_path: Path, count: int = 1, **options: Any) -> tuple[Any, list[Any]]:
    """One node of a role, or several at once; the result and the facts."""
    graph = OperationGraphBuilder()
    for number in range(count):
        graph.add_operation(cast, node_id=f"work{number or ''}", depends_on=[], instruction="Look.")
    async with Session(folder=tmp_path, **options) as session:
        run = await session.start(graph)
        result = await run.wait()
        async with run.events() as events:
            facts = [event async for event in events]
    return result, facts


def refused(facts: list[Any]) -> list[tuple[str, str]]:
    return [(one.data["emission"], one.data["reason"]) for one in facts if one.kind == "EmissionRefused"]


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("emit_finding", {"description": "d", "colour": "red"}, "invalid"),
        ("emit_finding", '{"description": "d"', "malformed"),
        ("emit_finding", '["d"]', "malformed"),
        ("emit_verdict", {"verdict": "REJECT", "rationale": "r"}, "not_granted"),
    ],
)
async def test_what_a_model_emits_wrongly_is_on_record(
    tool: str, arguments: Any, reason: str, tmp_path: Path
):
    """PARSE-130..133, law 8: an emission that is none is a refusal on record, and returned for repair."""

    def say(messages: list[Any], _info: Any) -> Any:
        if not any(isinstance(message, ModelResponse) for message in messages):
            return tool, arguments
        return "done" if "accepted" in str(answers(messages)) else ("emit_finding", {"description": "d"})

    scripted("wrong", say)
    result, facts = await ran(Role("r", body="B", emits=(Finding,), models=("wrong",)), tmp_path)
    assert result["work"].error is None, result["work"].error
    assert [one[1] for one in refused(facts)] == [reason]
    assert [one.data["emission"] for one in facts if one.kind == "EmissionAccepted"] == ["Finding"]


async def test_repairs_are_bounded_and_counted(tmp_path: Path):
    """A model that never mends its emission fails its node; each try is on record and paid (COST-135)."""
    scripted("never", lambda _messages, _info: ("emit_finding", {"wrong": 1}))
    result, facts = await ran(Role("r", body="B", emits=(Finding,), models=("never",)), tmp_path)
    assert result["work"].error.type == "ModelError"
    assert result["work"].usage.requests == 3
    assert set(refused(facts)) == {("Finding", "invalid")}


async def test_an_answer_that_was_cut_off(tmp_path: Path):
    """PARSE: finish_reason length is an error that says so, not half an answer; its cost is counted."""

    def whole(_messages: list[Any], _info: Any) -> ModelResponse:
        return ModelResponse(parts=[TextPart("half an ans")], finish_reason="length")

    Whole("cut", whole)
    result, _ = await ran(Role("r", body="B", models=("cut",)), tmp_path)
    assert "cut off at the limit of output" in result["work"].error.message
    assert result["work"].usage.requests == 1
    assert result["work"].usage.output_tokens > 0


@pytest.mark.parametrize(
    ("arguments", "ended", "words"),
    [
        ('{"n": 1', "length", "limit"),
        (None, "length", "limit"),
        ('{"n": 1}', "tool_call", ""),
    ],
)
async def test_an_object_that_was_cut_off(arguments: str | None, ended: Any, words: str, tmp_path: Path):
    """PARSE 133: half an object, an empty answer: cut off, the limit named; a whole one passes."""

    def whole(_messages: list[Any], info: Any) -> ModelResponse:
        call = ToolCallPart(info.output_tools[0].name, arguments)
        parts: list[Any] = [TextPart("")] if arguments is None else [call]
        return ModelResponse(parts=parts, finish_reason=ended)

    Whole("halves", whole)
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result, _ = await ran(Role("r", body="B", returns=shape, models=("halves",)), tmp_path)
    if words:
        assert result["work"].error.type == "ModelError"
        assert words in result["work"].error.message
    else:
        assert result["work"].value == {"n": 1}


async def test_a_model_that_calls_for_ever(tmp_path: Path):
    """A loop of calls ends by its bound, with a clear error and its cost."""

    def peek() -> int:
        """Look."""
        return 1

    scripted("loops", lambda _messages, _info: ("peek", {}))
    result, _ = await ran(Role("r", body="B", tools=(peek,), models=("loops",)), tmp_path)
    assert "UsageLimitExceeded" in result["work"].error.message
    assert result["work"].usage.requests == 50


# --- providers ------------------------------------------------------------------------------------


async def test_five_equal_errors_suspend_as_quota(tmp_path: Path):
    """kernel.md 7: five equal provider errors in a row across nodes do the same as a quota error."""

    def say(_messages: list[Any], _info: Any) -> Any:
        raise ModelHTTPError(503, "down", body="upstream is away")

    scripted("down", say)
    cast = Role("r", body="B", models=("down",))
    result, facts = await ran(cast, tmp_path, count=6)
    assert result.reason == "quota", result
    assert "five equal errors in a row" in result.detail
    assert len(result.failed_operations) == 4
    assert {one.data["model"] for one in facts if one.kind == "ModelClosed"} == {"down"}


async def test_other_errors_between_begin_the_count_anew(tmp_path: Path):
    """The other arm: errors that differ, or an answer between them, fail their nodes and nothing else."""
    calls: list[int] = []

    def say(_messages: list[Any], _info: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            return "fine"
        raise ModelHTTPError(503 if len(calls) != 6 else 500, "shaky", body="away")

    scripted("shaky", say)
    result, _ = await ran(Role("r", body="B", models=("shaky",)), tmp_path, count=8)
    assert result.reason == "failed"
    assert len(result.failed_operations) == 7


async def test_a_hint_is_heeded_and_the_call_repeated(tmp_path: Path):
    """A 429 that the client gave up on: the house waits as it was told, and the node does not fail."""
    calls: list[int] = []

    def say(_messages: list[Any], _info: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ModelRateLimitError("busy", "slow down", retry_after=0.01)
        return "fine"

    scripted("busy", say)
    result, _ = await ran(Role("r", body="B", models=("busy",)), tmp_path)
    assert result["work"].value == {"text": "fine"}
    assert len(calls) == 2


async def test_a_hint_that_is_too_long_gives_the_attempt_back(tmp_path: Path):
    """An hour is no wait for a node that holds a slot: suspended as quota, with the time."""

    def say(_messages: list[Any], _info: Any) -> Any:
        raise ModelRateLimitError("away", "come back later", retry_after=3_600)

    scripted("away", say)
    result, facts = await ran(Role("r", body="B", models=("away",)), tmp_path)
    assert result.reason == "quota"
    assert "3,600 s" in result.detail
    assert [one.data["reason"] for one in facts if one.kind == "AttemptGivenBack"] == ["quota"]


# --- an operator's notes --------------------------------------------------------------------------


async def test_S53_a_note_reaches_the_next_call_of_a_running_model(tmp_path: Path):
    """S53, STEER-117: an operator says something while a tool runs; the next call hears it, once."""
    begun, go_on = anyio.Event(), anyio.Event()
    heard: list[str] = []

    async def look() -> str:
        """Look around."""
        begun.set()
        await go_on.wait()
        return "seen"

    def say(messages: list[Any], _info: Any) -> Any:
        heard.append(
            "\n".join(
                str(part.content)
                for message in messages
                if isinstance(message, ModelRequest)
                for part in message.parts
            )
        )
        if len(heard) == 1:
            return "look", {}
        return ("look", {}) if len(heard) == 2 else "done"

    scripted("steered", say)
    graph = OperationGraphBuilder()
    cast = Role("r", body="B", tools=(look,), models=("steered",))
    graph.add_operation(cast, node_id="work", depends_on=[], instruction="Look.")
    async with Session(folder=tmp_path) as session:
        run = await session.start(graph)
        await begun.wait()
        assert run.steer("look left", node="work")
        go_on.set()
        result = await run.wait()
        kept = [str(message.content) for message in session.branches["work"].messages]
    assert result["work"].value == {"text": "done"}
    assert "look left" not in heard[0]
    assert [text.count("look left") for text in heard[1:]] == [1, 1]
    assert "[OPERATOR STEER]" in heard[1]
    assert any("look left" in text for text in kept)


async def test_S52_a_note_before_the_start_is_in_the_prompt_once(tmp_path: Path):
    """S52: a waiting node's note stands in its instruction and is not told again by the first call."""
    begun, go_on = anyio.Event(), anyio.Event()
    heard: list[str] = []

    @role()
    async def first(_turn: Any) -> None:
        begun.set()
        await go_on.wait()

    def say(messages: list[Any], _info: Any) -> str:
        heard.append(told(messages))
        return "done"

    scripted("steered", say)
    graph = OperationGraphBuilder()
    graph.add_operation(first, depends_on=[])
    graph.add_operation(Role("second", body="B", models=("steered",)), instruction="Look.")
    async with Session(folder=tmp_path) as session:
        run = await session.start(graph)
        await begun.wait()
        run.steer("look left", node="second")
        go_on.set()
        await run.wait()
    assert len(heard) == 1
    assert heard[0].count("look left") == 1
    assert heard[0].index("[OPERATOR STEER]") < heard[0].index("Look.")
