"""Entity reuse: what a model is sent again, what its provider has kept, and what a later round is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from orchestrator import Gate, OperationGraphBuilder, Role, Session, Verdict, role
from tests.agents.scripts import Whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def anyio_backend() -> str:
    """The library that calls models runs on asyncio only."""
    return "asyncio"


class Counting(Whole):
    """A model that counts what it is sent as a provider does that keeps the beginnings of what it was sent.

    Attributes:
        sent: tokens of each call; kept: those of them that an earlier call began with. A token is a word.
        told: the newest text of each call.
    """

    def __init__(self, name: str, say: Callable[[int], str]) -> None:
        self.sent: list[int] = []
        self.kept: list[int] = []
        self.told: list[str] = []
        self._before: list[list[str]] = []

        def whole(messages: list[Any], info: Any) -> ModelResponse:
            words = self._words(messages, info)
            self.sent.append(len(words))
            self.kept.append(max((_common(words, before) for before in self._before), default=0))
            self._before.append(words)
            self.told.append(str(messages[-1].parts[-1].content))
            usage = RequestUsage(input_tokens=self.sent[-1], output_tokens=1, cache_read_tokens=self.kept[-1])
            text = say(len(self.sent))
            parts: list[Any] = [ToolCallPart("look", {})] if text == "look" else [TextPart(text)]
            return ModelResponse(parts=parts, usage=usage)

        super().__init__(name, whole)

    def _words(self, messages: list[Any], info: Any) -> list[str]:
        tools = [tool.name for tool in info.function_tools]
        plain = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
        said = [str(part.get("content", "")) for message in plain for part in message["parts"]]
        return " ".join((*tools, str(info.instructions), *said)).split()


def _common(words: list[str], before: list[str]) -> int:
    count = 0
    for one, other in zip(words, before, strict=False):
        if one != other:
            break
        count += 1
    return count


@role()
async def material(_turn: Any) -> dict[str, str]:
    """What everything is about: long, and the same in every round."""
    return {"text": "word " * 2_000}


@role(emits=(Verdict,))
async def judge(turn: Any) -> Verdict:
    if turn.rework is not None:
        return Verdict(verdict="APPROVE", rationale="now it is")
    return Verdict(verdict="REJECT", rationale="it names no date", reversible_by="a date in the first line")


async def two_rounds(tmp_path: Path, name: str, *, fresh: bool) -> tuple[Any, list[Any]]:
    graph = OperationGraphBuilder()
    graph.add_operation(material, depends_on=[])
    writer = Role("writer", body="You write notes. " * 100, models=(name,))
    graph.add_operation(writer, depends_on=["material"], instruction="Write the note.", fresh=fresh)
    graph.add_operation(judge, depends_on=["writer"], gate=Gate(refusals=1, back_to="writer"))
    async with Session(folder=tmp_path) as session:
        run = await session.start(graph)
        result = await run.wait()
        async with run.events(kinds=("UsageRecorded",)) as events:
            usage = [event.data async for event in events]
    return result, usage


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_later_round_is_told_what_is_new(fresh: bool, tmp_path: Path):
    """The second round is told who refused and why; of the material it is told nothing again."""
    model = Counting(f"rounds-{fresh}", lambda number: f"note {number}")
    result, usage = await two_rounds(tmp_path, f"rounds-{fresh}", fresh=fresh)
    assert result.reason == "completed", result.detail
    first, second = model.told
    assert "word word" in first
    assert "a date in the first line" in second
    assert "it names no date" in second
    if fresh:
        assert "word word" in second
        assert "Write the note." in second
        assert model.kept[1] < 500
    else:
        assert "word word" not in second
        assert "Write the note." not in second
        assert len(second.split()) < 80
        # all that was sent before is sent again in the same order, and its provider has it
        assert model.kept[1] >= model.sent[0] - 1
    assert [one["cache_read"] for one in usage] == model.kept
    assert [one["input_tokens"] for one in usage] == model.sent


async def test_the_saving(tmp_path: Path):
    """What docs/agents.md tells: new tokens of a second round, continued and fresh."""
    new = {}
    for fresh in (False, True):
        model = Counting(f"saving-{fresh}", lambda number: f"note {number}")
        await two_rounds(tmp_path / str(fresh), f"saving-{fresh}", fresh=fresh)
        new[fresh] = model.sent[1] - model.kept[1]
    assert new[True] > 20 * new[False], new


async def test_a_changed_input_is_new(tmp_path: Path):
    """A gate that is a model sees the new draft in its second round, and not what it has seen already."""
    model = Counting("critic", lambda number: "look" if number in {1, 3} else "judged")
    seen: list[Any] = []

    @role()
    async def draft(turn: Any) -> str:
        return "second draft" if turn.rework else "first draft"

    @role(emits=(Verdict,))
    async def gate(turn: Any) -> Verdict:
        seen.append(turn.rework)
        return Verdict(verdict="APPROVE" if turn.rework else "REJECT", rationale="r")

    def look() -> str:
        """Look."""
        return "seen"

    graph = OperationGraphBuilder()
    graph.add_operation(material, depends_on=[])
    graph.add_operation(draft, depends_on=["material"])
    reader = Role("reader", body="B", models=("critic",), tools=(look,))
    graph.add_operation(reader, depends_on=["material", "draft"], instruction="Read it.")
    graph.add_operation(gate, depends_on=["reader"], gate=Gate(refusals=1, back_to="draft"))
    async with Session(folder=tmp_path) as session:
        assert (await session.flow(graph)).reason == "completed"
    rounds = [text for text in model.told if text != "seen"]
    assert "first draft" in rounds[0]
    assert "second draft" in rounds[1]
    assert "word word" in rounds[0]
    assert "word word" not in rounds[1]
