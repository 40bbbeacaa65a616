"""Functions as tools of a role: who may use them, what they are given, what a model is told of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field

from orchestrator import OperationGraphBuilder, Role, Session, SpawnRequest, create_operation, load_flow, role
from orchestrator.agents.tools import ReadyTool, ToolArgumentsError, ToolError, answer, function_tool
from orchestrator.core.spec import Budget
from orchestrator.errors import FlowError, OperationError
from roles import RoleError, Tool, load_roles, tool

if TYPE_CHECKING:
    from collections.abc import Callable


class Place(BaseModel):
    """A place."""

    town: str
    lines: list[int] = []


def look_up(word: str, limit: Annotated[int, Field(ge=1, description="how many at most")] = 3) -> list[str]:
    """Find a word.

    Gives places.
    """
    return [word] * limit


async def visit(place: Place, *, model_config: str = "x") -> dict[str, Any]:
    return {"town": place.town, "kind": type(place).__name__, "given": model_config}


def breaks(word: str) -> str:
    raise LookupError(f"no {word} anywhere")


def leaves() -> None:
    sys.exit(3)


def opens() -> object:
    return object()


async def inline(fn: Callable[[], Any]) -> Any:
    return fn()


def ready(fn: Any) -> ReadyTool:
    return function_tool(Tool(fn.__name__, fn), inline)


# --- one call -------------------------------------------------------------------------------------


def test_the_schema_is_the_signature():
    """Names, types, defaults, descriptions; a parameter may be called anything."""
    made = ready(look_up)
    assert made.description == "Find a word.\n\nGives places."
    assert made.schema["required"] == ["word"]
    assert made.schema["additionalProperties"] is False
    assert made.schema["properties"]["limit"]["description"] == "how many at most"
    assert made.schema["properties"]["limit"]["default"] == 3
    assert set(ready(visit).schema["properties"]) == {"place", "model_config"}


async def test_arguments_are_read_and_results_are_json():
    """A parameter's type is what the function gets."""
    assert await ready(look_up).call({"word": "a", "limit": 2}) == ["a", "a"]
    given = await ready(visit).call({"place": {"town": "Bern"}})
    assert given == {"town": "Bern", "kind": "Place", "given": "x"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "word: Field required"),
        ({"word": "a", "limit": 0}, "limit: Input should be greater than or equal to 1"),
        ({"word": "a", "more": 1}, "more: Extra inputs are not permitted"),
        ({"word": None}, "word: Input should be a valid string"),
    ],
)
async def test_arguments_that_do_not_fit(given: dict[str, Any], words: str):
    """The function is not called; the model is told which argument and why."""
    with pytest.raises(ToolArgumentsError, match=words):
        await ready(look_up).call(given)


async def test_a_tool_that_raises_is_an_answer(monkeypatch: pytest.MonkeyPatch):
    """Whatever it raises, SystemExit included; a secret in it is not told."""
    monkeypatch.setenv("LOOKUP_TOKEN", "canary-0123456789")
    told: list[str] = []
    given = await answer(ready(breaks), {"word": "canary-0123456789"}, told.append)
    assert given == {"error": "breaks failed: LookupError: 'no [secret] anywhere'"} or "[secret]" in str(
        given
    )
    assert "canary" not in str(given) + "".join(told)
    assert "SystemExit" in (await answer(ready(leaves), {}, told.append))["error"]
    assert "not JSON" in (await answer(ready(opens), {}, told.append))["error"]
    with pytest.raises(ToolError, match="LookupError"):
        await ready(breaks).call({"word": "x"})


async def test_what_is_told_of_a_call_is_bounded():
    """Progress is short; a huge answer is cut at a visible mark."""
    told: list[str] = []
    given = await answer(ready(look_up), {"word": "x" * 1000, "limit": 1000}, told.append)
    assert all(len(one) < 300 for one in told)
    assert given["cut"].startswith("the answer has 1")
    assert len(given["text"]) == 200_000


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda word: word, "its parameter word has no type"),
        (lambda *words: words, "cannot be given by name"),
    ],
)
def test_what_no_schema_can_be_read_of(fn: Any, words: str):
    with pytest.raises(OperationError, match=words):
        function_tool(Tool("it", fn), inline)


def test_a_type_without_a_schema():
    def odd(stream: pytest.MonkeyPatch) -> None: ...

    with pytest.raises(OperationError, match="tool odd"):
        ready(odd)


# --- who has which --------------------------------------------------------------------------------


def test_declared():
    """A function, a name, or what @tool made; nothing else, and no name twice, none of ours."""
    made = tool(look_up)
    assert made("a", 1) == ["a"]
    assert Role("r", tools=(made, "files.*")).tools == (made, "files.*")
    assert tool(name="find")(look_up).name == "find"
    for tools, words in (
        ((look_up, made), "two tools are called look_up"),
        ((3,), "tools holds 3"),
        (("emit_finding",), "would hide ours"),
        ((lambda x: x,), "tools holds"),
    ):
        with pytest.raises(RoleError, match=words):
            Role("r", tools=tools)
    with pytest.raises(RoleError, match="has tools of its own"):
        Role("r", tools=(look_up,), program=("x",))


CAST = """
from roles import McpServer, tool

@tool
def look_up(word: str) -> str:
    "Find a word."
    return word.upper()

notes = McpServer("notes", argv=("python3", "notes.py"))
"""


def cast(folder: Path, tools: str) -> Path:
    (folder / "cast").mkdir()
    (folder / "cast" / "tools.py").write_text(CAST)
    (folder / "cast" / "reader.md").write_text(f"---\ntools: [{tools}]\nmodels: [test]\n---\nYou read.\n")
    flow = folder / "flow.yaml"
    flow.write_text("version: 1\nname: f\ncast: [cast]\nnodes:\n  read: {role: reader}\n")
    return flow


def test_tools_of_a_cast(tmp_path: Path):
    """A Markdown role names a function, or a server, that stands in the cast's Python file."""
    flow = load_flow(cast(tmp_path, "look_up, notes.read"))
    assert flow.check() == []
    (reader,) = load_roles(tmp_path / "cast")
    found, of_server = reader.tools
    assert (found.name, of_server.__name__, of_server.server.name) == ("look_up", "notes.read", "notes")


def test_an_unknown_tool_is_found_by_check(tmp_path: Path):
    """An error before anything runs; a tool of the session is no error in its session."""
    flow = load_flow(cast(tmp_path, "look_upp"))
    (problem,) = flow.check()
    assert "role reader names the tool 'look_upp', which nobody has" in problem.message
    assert "did you mean 'look_up'?" in problem.message
    assert flow.check(tools=["look_upp"]) == []
    with pytest.raises(FlowError, match="look_upp"):
        flow.bind()


async def test_an_unknown_tool_starts_nothing(tmp_path: Path):
    graph = OperationGraphBuilder()
    graph.add_operation(Role("r", tools=("search",), models=("test",)), depends_on=[])
    async with Session(folder=tmp_path, tools=[look_up]) as session:
        with pytest.raises(OperationError, match="the session has: look_up"):
            await session.flow(graph)
        with pytest.raises(OperationError, match="a name means one"):
            session.register_tool(look_up)
    cast = Role("r", tools=(look_up,), models=("test",))
    graph = OperationGraphBuilder()
    graph.add_operation(create_operation(cast, tools=["lookup"]), depends_on=[])
    async with Session([cast], folder=tmp_path) as session:
        with pytest.raises(OperationError, match="tools only narrows; did you mean 'look_up'"):
            await session.flow(graph)


@role()
async def asker(turn: Any) -> Any:
    return await turn.ask("Go on?", key="go")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_resumed_run_needs_its_tools(tmp_path: Path):
    """The session that goes on with a run has to have what its roles name."""
    pytest.importorskip("pydantic_ai")

    reader = Role("reader", body="B", tools=("look_up",), models=("test",))
    graph = OperationGraphBuilder()
    graph.add_operation(asker, depends_on=[])
    graph.add_operation(reader, depends_on=["asker"])
    roles, journal = [asker, reader], tmp_path / "runs.db"
    async with Session(roles, journal=journal, tools=[look_up]) as session:
        assert (await session.flow(graph)).reason == "awaiting_answer"
    async with Session(roles, journal=journal) as session:
        with pytest.raises(OperationError, match="there is no tool 'look_up'"):
            await session.resume()
    async with Session(roles, journal=journal, tools=[look_up]) as session:
        result = await (await session.resume(answers={"asker": "yes"})).wait()
    assert result.reason == "completed", result.detail


# --- a model uses them ----------------------------------------------------------------------------


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
class TestModels:
    """With a model, which is called on asyncio only."""

    @pytest.fixture
    def scripted(self) -> Callable[..., str]:
        """Registers a model that calls a tool, then says what it was answered."""
        pytest.importorskip("pydantic_ai")
        from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
        from pydantic_ai.models.function import DeltaToolCall, FunctionModel

        from orchestrator.agents.models import register_model

        def scripted(name: str, *calls: tuple[str, dict[str, Any]]) -> str:
            def say(messages: list[Any], info: Any) -> Any:
                parts = [part for one in messages if isinstance(one, ModelRequest) for part in one.parts]
                asked = sum(isinstance(one, ModelResponse) for one in messages)
                if asked < len(calls):
                    return calls[asked]
                answers = [part.content for part in parts if isinstance(part, ToolReturnPart)]
                return json.dumps(
                    {"offered": sorted(t.name for t in info.function_tools), "answers": answers}
                )

            async def stream(messages: list[Any], info: Any) -> Any:
                said = say(messages, info)
                if isinstance(said, str):
                    yield said
                else:
                    yield {0: DeltaToolCall(name=said[0], json_args=json.dumps(said[1]), tool_call_id="1")}

            def whole(messages: list[Any], info: Any) -> ModelResponse:
                said = say(messages, info)
                part = TextPart(said) if isinstance(said, str) else ToolCallPart(*said)
                return ModelResponse(parts=[part])

            register_model(name, FunctionModel(whole, stream_function=stream))
            return name

        return scripted

    async def test_it_is_offered_what_is_allowed(self, scripted: Any, tmp_path: Path):
        """Nothing else; a call and its answer are progress; a failure is an answer."""
        model = scripted(
            "user",
            ("look_up", {"word": "a", "limit": 0}),
            ("look_up", {"word": "a"}),
            ("breaks", {"word": "b"}),
        )
        cast = Role("r", body="B", tools=(look_up, "breaks", opens), models=(model,))
        graph = OperationGraphBuilder()
        graph.add_operation(cast, node_id="whole", depends_on=[])
        narrowed = create_operation(cast, node_id="narrow", tools=["breaks", "look_up"])
        graph.add_operation(narrowed, depends_on=[])
        progress: list[Any] = []
        async with (
            Session(folder=tmp_path, tools=[breaks]) as session,
            session.tap(progress.append, kinds=("NodeProgress",)),
        ):
            result = await session.flow(graph)
        assert result["whole"].error is None
        said = json.loads(result["whole"].value["text"])
        ours = ["emit_escalation_request"]
        assert said["offered"] == sorted([*ours, "look_up", "breaks", "opens"])
        assert "limit: Input should be" in said["answers"][0]
        assert said["answers"][1] == ["a", "a", "a"]
        assert "no b anywhere" in said["answers"][2]["error"]
        assert result["narrow"].error is None
        narrow = json.loads(result["narrow"].value["text"])
        assert narrow["offered"] == sorted([*ours, "look_up", "breaks"])
        told = [one.data["text"] for one in progress if one.node == "whole"]
        assert 'look_up is called with {"word":"a"}' in told
        assert any("breaks failed" in one for one in told)

    async def test_tools_shrink_down_the_line(self, scripted: Any, tmp_path: Path):
        """kernel.md 3: a child has its emitter's tools at most, or what the flow grants its role."""

        @role(emits=(SpawnRequest,))
        async def root(turn: Any) -> None:
            await turn.emit(SpawnRequest(assignee="boss", key="1"))

        spawn = ("emit_spawn_request", {"assignee": "hand", "instruction": "go", "reason": "r"})
        boss = Role(
            "boss", body="B", emits=(SpawnRequest,), tools=(look_up,), models=(scripted("boss", spawn),)
        )
        hand = Role("hand", body="B", tools=(look_up, breaks), models=(scripted("hand"),))
        for assignees, offered in ((None, ["look_up"]), (("boss", "hand"), ["breaks", "look_up"])):
            graph = OperationGraphBuilder()
            graph.add_operation(root, depends_on=[])
            async with Session(roles=[boss, hand], folder=tmp_path) as session:
                result = await session.flow(graph, budget=Budget(spawns=5, assignees=assignees))
            child = next(one for name, one in result.nodes.items() if ".hand" in name)
            assert child.error is None
            said = json.loads(child.value["text"])
            assert [name for name in said["offered"] if not name.startswith("emit_")] == offered

    async def test_the_role_above_has_its_own(self, scripted: Any, tmp_path: Path):
        """kernel.md 4: the author who says `escalates_to` grants the role above its tools."""
        give_up = ("emit_escalation_request", {"reason": "too hard", "urgency": "blocked"})
        below = Role(
            "below", body="B", tools=(look_up,), models=(scripted("below", give_up),), escalates_to="above"
        )
        above = Role("above", body="B", tools=(breaks,), models=(scripted("above"),))
        graph = OperationGraphBuilder()
        graph.add_operation(below, node_id="work", depends_on=[])
        async with Session(roles=[above], folder=tmp_path) as session:
            result = await session.flow(graph)
        child = next(one for one in result.nodes.values() if one.role == "above")
        assert child.error is None
        said = json.loads(child.value["text"])
        assert [name for name in said["offered"] if not name.startswith("emit_")] == ["breaks"]

    async def test_a_planned_node_says_what_its_role_is_granted(self, scripted: Any, tmp_path: Path):
        """Narrowed in the plan, it is narrowed for every child of that role, unless the emitter has more."""
        spawn = ("emit_spawn_request", {"assignee": "hand", "instruction": "go", "reason": "r"})
        hand = Role("hand", body="B", tools=(look_up, breaks), models=(scripted("planned_hand"),))
        boss = Role("boss", body="B", emits=(SpawnRequest,), models=(scripted("planned_boss", spawn),))
        graph = OperationGraphBuilder()
        graph.add_operation(create_operation(hand, node_id="first", tools=["breaks"]), depends_on=[])
        graph.add_operation(boss, depends_on=["first"])
        async with Session(roles=[hand], folder=tmp_path) as session:
            result = await session.flow(graph, budget=Budget(spawns=5, assignees=("hand",)))
        child = next(one for name, one in result.nodes.items() if ".hand" in name)
        said = json.loads(child.value["text"])
        assert [name for name in said["offered"] if not name.startswith("emit_")] == ["breaks"]
