"""Language models: offline ones, and the real client against a provider on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel

from orchestrator import Budget, Finding, Gate, OperationGraphBuilder, Role, Session, Verdict, role
from orchestrator.agents.backends import priced
from orchestrator.agents.models import register_model
from orchestrator.errors import OperationError
from roles import Artifact, library
from tests.agents.provider import Answer, provider
from tests.agents.scripts import answers, scripted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def anyio_backend() -> str:
    """The library that calls models runs on asyncio only."""
    return "asyncio"


async def ran(cast: Role, tmp_path: Path, journal: Any = None, **more: Any) -> Any:
    graph = OperationGraphBuilder()
    graph.add_operation(cast, node_id="work", depends_on=[], instruction="Look.", **more)
    async with Session(folder=tmp_path, journal=journal) as session:
        run = await session.start(graph)
        result = await run.wait()
        async with run.events() as events:
            facts = [event async for event in events]
    return result, facts


def some(facts: Any, kind: str) -> list[Any]:
    return [fact for fact in facts if fact.kind == kind]


# --- offline --------------------------------------------------------------------------------------


async def test_any_flow_runs_without_a_key(tmp_path: Path):
    """``--model test``: every role of a graph runs, and its emissions are taken."""
    graph = OperationGraphBuilder()
    graph.add_operation(Role("finder", body="B", emits=(Finding,)), depends_on=[])
    graph.add_operation(Role("typed", body="B", returns=dict[str, int]), depends_on=["finder"])
    async with Session(model="test", folder=tmp_path) as session:
        run = await session.start(graph)
        result = await run.wait()
        async with run.events(kinds=("EmissionAccepted",)) as events:
            taken = [event.data["emission"] async for event in events]
    assert result["finder"].error is None
    assert result["typed"].error is None
    assert "Finding" in taken
    assert result["finder"].usage.requests >= 2


async def test_the_library_runs_without_a_key(tmp_path: Path):
    """A gate of the library writes its review, gives its verdict, and does not give up; nobody asks."""
    cast = {one.name: one for one in library()}
    graph = OperationGraphBuilder()
    graph.add_operation(cast["researcher"], depends_on=[])
    graph.add_operation(cast["critic"], depends_on=["researcher"], gate=True)
    async with Session(model="test", folder=tmp_path) as session:
        result = await session.flow(graph)
    assert result.reason == "completed"
    assert [one.name for one in result["critic"].artifacts] == ["review"]


async def test_a_model_is_shown_the_latest_round_only(tmp_path: Path):
    """kernel.md 5: what is handed on is of the latest round; the earlier one stays on record."""

    @role(emits=(Finding,))
    def finder(turn: Any) -> Any:
        return Finding(description="found again" if turn.rework else "found at first")

    @role(emits=(Verdict,))
    def judge(turn: Any) -> Any:
        return Verdict(verdict="APPROVE" if turn.rework else "REJECT", rationale="as told")

    graph = OperationGraphBuilder()
    graph.add_operation(finder, depends_on=[])
    graph.add_operation(judge, depends_on=["finder"], gate=Gate(refusals=1))
    graph.add_operation(Role("writer", body="B"), depends_on=["judge"])
    async with Session(model="test", folder=tmp_path) as session:
        result = await session.flow(graph)
        shown = "\n".join(message.content for message in session.branches["writer"].messages)
    assert result.reason == "completed", result.detail
    assert "found again" in shown
    assert "found at first" not in shown


async def test_a_receipt_is_the_tools_answer(tmp_path: Path):
    """What is refused is told to the model, with its reason; what does not fit is returned for repair."""

    def say(messages: list[Any], info: Any) -> Any:
        given = answers(messages)
        if not any(isinstance(message, ModelResponse) for message in messages):
            return "emit_finding", {"wrong": 1}
        if "accepted" not in str(given):
            return "emit_finding", {"description": "seen"}
        return str(given)

    scripted("receipts", say)
    result, facts = await ran(Role("r", body="B", emits=(Finding,), models=("receipts",)), tmp_path)
    assert result["work"].error is None
    assert "'accepted': True" in result["work"].value["text"]
    assert len(some(facts, "EmissionAccepted")) == 1


@pytest.mark.parametrize(("word", "reason"), [("APPROVE", "completed"), ("REJECT", "gate_rejected")])
async def test_a_gate_that_is_a_model(word: str, reason: str, tmp_path: Path):
    """A verdict over a tool judges the gate, both arms; its artifact is written by a tool."""

    def say(messages: list[Any], info: Any) -> Any:
        given = answers(messages)
        if not given:
            return "write_artifact", {"name": "review", "content": "# Review"}
        if len(given) == 1:
            return "emit_verdict", {"verdict": word, "rationale": "so"}
        return "done"

    @role()
    async def after(turn: Any) -> str:
        return "ran"

    scripted("judge", say)
    review = Artifact("review", "review.md", required=True)
    judge = Role("judge", body="B", emits=(Verdict,), models=("judge",), artifacts=(review,))
    graph = OperationGraphBuilder()
    graph.add_operation(judge, node_id="gate", depends_on=[], gate=True)
    graph.add_operation(after, depends_on=["gate"])
    async with Session(folder=tmp_path) as session:
        assert (await session.flow(graph)).reason == reason


async def test_structured_answers_are_repaired_a_bounded_number_of_times(tmp_path: Path):
    """``returns``: a value of another shape goes back to the model, then fails the node."""
    tries: list[int] = []

    def say(messages: list[Any], info: Any) -> Any:
        tries.append(1)
        good = len(tries) == 2
        return info.output_tools[0].name, {"n": 1 if good else "one"}

    scripted("typed", say)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    cast = Role("r", body="B", models=("typed",), returns=schema)
    result, _ = await ran(cast, tmp_path)
    assert result["work"].value == {"n": 1}
    result, _ = await ran(cast, tmp_path)
    assert result["work"].error.type == "ModelError"
    assert result["work"].usage.requests == 3


@pytest.mark.parametrize("fresh", [False, True])
async def test_an_attempt_continues_and_its_saving_is_counted(fresh: bool, tmp_path: Path):
    """Entity reuse: the second attempt is told what failed; what it was shown before is not sent anew.

    A node that is ``fresh`` is shown everything again: the recorded exception.
    """
    heard: list[list[Any]] = []

    def say(messages: list[Any], info: Any) -> Any:
        heard.append(messages)
        given = answers(messages)
        if len(heard) == 1 or given:
            return "done"
        return "write_artifact", {"name": "note", "content": "n"}

    scripted("continues", say)
    note = Artifact("note", "note.md", required=True)
    cast = Role("r", body="B", models=("continues",), artifacts=(note,), retry=2)
    result, facts = await ran(cast, tmp_path, parameters={"text": "word " * 1_000}, fresh=fresh)
    assert result["work"].error is None
    assert result["work"].attempts == 2
    first, second = (str(messages[-1].parts[-1].content) for messages in heard[:2])
    assert len(first) > 5_000
    if fresh:
        assert len(second) > 5_000
        assert len(heard[1]) == 1
    else:
        # of what was sent before the provider keeps the beginning: only this is new
        assert len(second) < 400
        assert "[CONTINUE]" in second
        assert "note" in second
        assert len(heard[1]) == 3
    assert all(fact.data["kept"] for fact in some(facts, "BranchExtended"))


async def test_unknown_forms_are_refused_before_anything_runs(tmp_path: Path):
    """Bad input: a model without a provider; no model at all."""
    with pytest.raises(OperationError, match="write PROVIDER:NAME"):
        await ran(Role("r", body="B", models=("gpt",)), tmp_path)
    with pytest.raises(OperationError, match="no function, no program and no model"):
        await ran(Role("r", body="B"), tmp_path)


# --- the real client ------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("pydantic_ai.models.ALLOW_MODEL_REQUESTS", True)
    return


def real(**more: Any) -> Role:
    return Role("r", body="You look.", emits=(Finding,), models=("openai-chat:gpt-4o",), **more)


async def test_streaming_tools_usage_and_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A streamed tool call, its receipt in the next request, tokens, cache reads and a price."""
    call = ("emit_finding", {"description": "seen"})
    with provider(Answer(call=call), Answer("all is well")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result, facts = await ran(real(), tmp_path)
    work = result["work"]
    assert work.error is None
    assert work.value == {"text": "all is well"}
    assert (work.usage.requests, work.usage.input_tokens, work.usage.output_tokens) == (2, 200, 20)
    assert work.usage.cost_usd > 0
    (usage,) = some(facts, "UsageRecorded")
    assert usage.data["cache_read"] == 120
    assert '"accepted":true' in server.asked[1]["messages"][-1]["content"].replace(" ", "")
    assert server.asked[0]["messages"][0]["role"] == "system"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer(status=500), "ModelError", "gpt-4o"),
        (Answer("cut off", cut=True), "ModelError", "gpt-4o"),
        (Answer(""), "ModelError", "gpt-4o"),
    ],
)
@pytest.mark.slow
async def test_what_fails(
    answer: Answer, kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A server error, a cut connection, an empty answer: a node error, no hang, and the call is counted."""
    with provider(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result, _ = await ran(real(), tmp_path)
    assert result["work"].error.type == kind
    assert words in result["work"].error.message
    assert result["work"].usage.requests >= 1


async def test_a_slow_body_ends_by_the_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A stream that never goes on: the attempt ends by its timeout, no hang, and the call is counted."""
    with provider(Answer("slow", slow=True)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result, _ = await ran(real(timeout=0.5), tmp_path)
    assert result["work"].error.type == "TimeoutError"
    assert result["work"].usage.requests == 1


async def test_an_answer_that_the_provider_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """PARSE: finish_reason length over the wire is an error that says so; tokens and price are counted."""
    with provider(Answer("half an ans", ended="length")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result, _ = await ran(real(), tmp_path)
    assert "cut off" in result["work"].error.message
    assert result["work"].usage.output_tokens == 10
    assert result["work"].usage.cost_usd > 0


async def test_a_structured_answer_that_is_no_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """PARSE: text where an object was asked for goes back twice, then fails the node; each try is paid."""
    with provider(Answer("Sure! Here is the object you wanted.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result, _ = await ran(real(returns=dict[str, int]), tmp_path)
    assert result["work"].error.type == "ModelError"
    assert result["work"].usage.requests == 3
    assert len(server.asked) == 3


async def test_a_rate_limit_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """429 with retry-after: the provider's hint is heeded."""
    limited = Answer(status=429, headers={"retry-after-ms": "10"}, code="rate_limit_exceeded")
    with provider(limited, Answer("well")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result, _ = await ran(real(), tmp_path)
    assert result["work"].value == {"text": "well"}
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "answer", [Answer(status=401, code="invalid_api_key"), Answer(status=429, code="insufficient_quota")]
)
async def test_quota_suspends_the_run(answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Kernel 7: the attempt is given back, the run is suspended as quota, and goes on when it is resumed."""
    cast, graph = real(), OperationGraphBuilder()
    graph.add_operation(cast, node_id="work", depends_on=[], instruction="Look.")
    answer.headers["retry-after-ms"] = "1"
    with provider(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with Session(folder=tmp_path, journal=tmp_path / "j.db", roles=[cast]) as session:
            result = await session.flow(graph)
            assert result.reason == "quota"
            assert "gpt-4o" in result.detail
            server.answers[:] = [Answer("well")]
            result = await (await session.resume()).wait()
    assert result.reason == "completed"
    assert result["work"].value == {"text": "well"}
    for file in tmp_path.rglob("*"):  # noqa: ASYNC240
        if file.is_file():
            assert KEY.encode() not in file.read_bytes()


async def test_a_fallback_steps_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``fallback``: the next model takes the turn of one that has no quota."""
    scripted("second", lambda _messages, _info: "from the second")
    with provider(Answer(status=401)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result, _ = await ran(real(fallback=("second",)), tmp_path)
    assert result["work"].value == {"text": "from the second"}


async def test_a_missing_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A node's error that says which variable to set."""
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("CALLBOARD_MODEL_CALLS", raising=False)
    result, _ = await ran(real(), tmp_path)
    assert "OPENAI_API_KEY" in result["work"].error.message


def test_importing_loads_no_model_library():
    """DESIGN 5: a backend is loaded when it is used."""
    import subprocess

    code = "import sys, orchestrator; orchestrator.Session; print('pydantic_ai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("openai:gpt-4o", True),
        ("anthropic:claude-sonnet-4-5", True),
        ("test", True),
        ("openai:of-my-own", False),
        ("ollama:llama3.2", False),
        ("scripted", False),
    ],
)
async def test_a_budget_in_dollars_needs_prices(model: str, known: bool, tmp_path: Path):
    """kernel.md 8: a model of unknown price under cost_usd is refused before anything runs."""
    scripted("scripted", lambda messages, info: "done")
    assert priced(model) is known
    graph = OperationGraphBuilder()
    speaker = Role(name="speaker", description="Speaks.", models=(model,))
    graph.add_operation(speaker, node_id="work", depends_on=[], instruction="Look.")
    async with Session(folder=tmp_path) as session:
        if known:
            run = await session.start(graph, budget=Budget(cost_usd=1.0))
            run.cancel()
            await run.over()
        else:
            with pytest.raises(OperationError, match=f"work calls {model}, whose price is not known"):
                await session.start(graph, budget=Budget(cost_usd=1.0))
            run = await session.start(graph, budget=Budget(tokens=1))
            run.cancel()
            await run.over()


def test_without_the_extra_nobody_can_tell(monkeypatch: pytest.MonkeyPatch):
    """The table comes with the extra `models`; None, not False: check then says what to install."""
    monkeypatch.setitem(sys.modules, "orchestrator.agents.models", None)
    assert priced("openai:gpt-4o") is None


async def _spent(tmp_path: Path, *, overlap: bool, clients: int) -> tuple[dict[str, int], int]:
    """Tokens of two nodes, and of their run; with ``overlap`` one call begins and ends inside the other."""
    begun, over = anyio.Event(), anyio.Event()

    async def answer(messages: list[Any], info: Any) -> Any:
        if overlap and "FIRST" in str(messages):
            begun.set()
            await over.wait()
        elif overlap:
            await begun.wait()
        yield "word " * (5 if "FIRST" in str(messages) else 3)
        over.set()

    for number in range(clients):
        register_model(f"client-{number}", FunctionModel(stream_function=answer))
    graph = OperationGraphBuilder()
    one, other = Role("one", body="B", models=("client-0",)), Role("other", body="B", models=("client-0",))
    last = other if clients == 1 else Role("one-too", body="B", models=("client-1",))
    graph.add_operation(one, node_id="a", depends_on=[], instruction="FIRST one")
    graph.add_operation(last, node_id="b", depends_on=[], instruction="second")
    budget = Budget(concurrency=2 if overlap else 1)
    async with Session(folder=tmp_path) as session:
        result = await session.flow(graph, budget=budget)
    used = {name: result[name].usage for name in ("a", "b")}
    total = result.usage.input_tokens + result.usage.output_tokens
    return {name: one.input_tokens + one.output_tokens for name, one in used.items()}, total


async def test_usage_belongs_to_the_call(tmp_path: Path):
    """COST 135, 136: roles that share a client, in turn or at once, or have one each: the same."""
    apart, total = await _spent(tmp_path, overlap=False, clients=1)
    assert apart["a"] > apart["b"] > 0
    assert total == sum(apart.values())
    assert await _spent(tmp_path, overlap=True, clients=1) == (apart, total)
    assert await _spent(tmp_path, overlap=True, clients=2) == (apart, total)
