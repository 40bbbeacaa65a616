"""What each verb takes, gives and leaves in the branch (kernel.md 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

pytest.importorskip("pydantic_ai")

from orchestrator import Finding, OperationGraphBuilder, Role, Session, SpawnRequest, Turn, load_flow, role
from orchestrator.agents.verbs import read_already
from orchestrator.core.spec import Operation
from orchestrator.core.verbs import VERBS, verb_fault
from orchestrator.errors import FlowError, OperationError
from orchestrator.flows.operations import create_operation
from tests.agents.scripts import answers, scripted, told

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def anyio_backend() -> str:
    """The library that calls models runs on asyncio only."""
    return "asyncio"


def weight(thing: str) -> int:
    """How much a thing weighs."""
    return {"anvil": 50}.get(thing, 1)


async def performed(verb: str, folder: Path, say: Any = None, **options: Any) -> tuple[Any, list[str]]:
    """One node without a role on the session's default model; its result, and who spoke on the branch."""
    graph = OperationGraphBuilder()
    options = {"instruction": "Go.", **options}
    graph.add_operation(create_operation(verb, node_id="node", **options), depends_on=[])
    if say is not None:
        scripted("says", say)
    async with Session(model="test" if say is None else "says", folder=folder) as session:
        session.register_tool(weight)
        result = await session.flow(graph)
        left = [message.role for message in session.branches["default"].messages]
    return result["node"], left


@pytest.mark.parametrize(("verb", "stays"), [("operate", True), ("chat", False), ("communicate", True)])
async def test_a_text_without_a_role(verb: str, stays: bool, tmp_path: Path):
    """kernel.md 1, 7: the session's default branch serves it; chat leaves no trace there."""
    node, left = await performed(verb, tmp_path, lambda _messages, _info: "done")
    assert node.value == {"text": "done"}
    assert node.usage.requests == 1
    assert left == (["system", "user", "assistant"] if stays else [])


async def test_communicate_is_heard_by_who_comes_after(tmp_path: Path):
    """A node without a role below another one starts from a copy of the session's branch."""
    heard: list[int] = []

    def say(messages: list[Any], _info: Any) -> str:
        heard.append(len(messages))
        return "said"

    scripted("says", say)
    graph = OperationGraphBuilder()
    graph.add_operation("communicate", node_id="first", depends_on=[], instruction="One.")
    graph.add_operation("chat", node_id="second", depends_on=["first"], instruction="Two.")
    graph.add_operation("communicate", node_id="third", depends_on=["second"], instruction="Three.")
    async with Session(model="says", folder=tmp_path) as session:
        assert (await session.flow(graph)).reason == "completed"
    assert heard == [1, 3, 3]


async def test_react_acts_and_answers(tmp_path: Path):
    """ReAct: thought, call, answer; its steps are progress on the bus."""

    def say(messages: list[Any], _info: Any) -> Any:
        given = answers(messages)
        return f"It weighs {given[0]}." if given else ("weight", {"thing": "anvil"})

    node, left = await performed("ReAct", tmp_path, say, tools=["weight"])
    assert node.value == {"text": "It weighs 50."}
    assert left[-1] == "assistant"


async def test_react_stream_gives_its_steps(tmp_path: Path):
    """ReActStream: the list of its steps, the answer last; each is told while it runs."""

    def say(messages: list[Any], _info: Any) -> Any:
        return "Fifty." if answers(messages) else ("weight", {"thing": "anvil"})

    scripted("says", say)
    graph = OperationGraphBuilder()
    operation = create_operation("ReActStream", node_id="node", instruction="Go.", tools=["weight"])
    graph.add_operation(operation, depends_on=[])
    told_on_bus: list[str] = []
    async with Session(model="says", folder=tmp_path) as session:
        session.register_tool(weight)
        async with session.tap(lambda one: told_on_bus.append(one.data["text"]), kinds=("NodeProgress",)):
            result = await session.flow(graph)
    assert result["node"].value == [
        {"thought": "", "calls": [{"tool": "weight", "arguments": {"thing": "anvil"}, "answer": 50}]},
        {"answer": "Fifty."},
    ]
    assert "step 1: calls weight" in told_on_bus


async def test_react_is_bounded(tmp_path: Path):
    """After its last step there are no tools left to call, so it has to answer."""
    seen: list[int] = []

    def say(_messages: list[Any], info: Any) -> Any:
        tools = [tool.name for tool in info.function_tools if tool.name == "weight"]
        seen.append(len(tools))
        return ("weight", {"thing": "anvil"}) if tools else "Enough."

    node, _ = await performed("ReAct", tmp_path, say, tools=["weight"], parameters={"max_steps": 2})
    assert node.value == {"text": "Enough."}
    assert seen == [1, 1, 0]


async def test_parse_reads_json_without_a_model(tmp_path: Path):
    """parse: a text that holds the object already costs nothing; one that does not is read by the model."""
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    text = 'Here it is:\n```json\n{"n": 3}\n```\n'
    node, left = await performed("parse", tmp_path, parameters={"text": text}, returns=shape)
    assert node.value == {"n": 3}
    assert node.usage.requests == 0

    def say(messages: list[Any], info: Any) -> Any:
        assert "three of them" in told(messages)
        return info.output_tools[0].name, {"n": 3}

    node, left = await performed("parse", tmp_path, say, parameters={"text": "three of them"}, returns=shape)
    assert node.value == {"n": 3}
    assert node.usage.requests == 1
    assert left == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"n": 1}', [{"n": 1}]),
        ('```json\n{"n": 1}\n```\nand {braces} in prose {', [{"n": 1}]),
        ('one\n```\n{"n": 1}\n```\ntwo\n```json\n{"n": 2}\n```', [{"n": 1}, {"n": 2}]),
        ('{"n": "```json\\n{}\\n```"}', [{"n": "```json\n{}\n```"}]),
        ('So:\n```json\n{"n": "a ```b``` c"}\n```', [{"n": "a ```b``` c"}]),
        ('```json\n{"n": 1', []),
        ('```json\n{"n": 1} or so\n```', []),
        ('I read [a, b], then {"n": 1} came', []),
        ('{"n": 1, "n": 2}', []),
        ('{"n": NaN}', []),
        ("", []),
    ],
)
def test_what_a_text_holds_already(text: str, found: list[Any]):
    """PARSE 130-132 for parse: a real decoder says where a value ends; what is unclear a model reads."""
    assert list(read_already(text)) == found


async def test_parse_into_what_is_no_object(tmp_path: Path):
    """returns may be any shape: a provider is asked for an object that holds it."""

    def say(_messages: list[Any], info: Any) -> Any:
        return info.output_tools[0].name, {"value": ["a", "b"]}

    node, _ = await performed("parse", tmp_path, say, parameters={"text": "a and b"}, returns=list[str])
    assert node.value == ["a", "b"]


async def test_select_is_held_to_its_choices(tmp_path: Path):
    """select: an answer that is no choice is returned for repair; the value lists what was selected."""
    tries: list[str] = []

    def say(messages: list[Any], info: Any) -> Any:
        tries.append(told(messages))
        return info.output_tools[0].name, {"selected": ["green" if len(tries) == 1 else "red"]}

    choices = {"red": "stop", "amber": "wait"}
    node, left = await performed("select", tmp_path, say, parameters={"choices": choices})
    assert node.value == {"selected": ["red"]}
    assert "- amber: wait" in tries[0]
    assert "'green' is none of the choices" in tries[1]
    assert left[0] == "system"


async def test_interpret_makes_a_clear_instruction(tmp_path: Path):
    """interpret: the rough text is data; the value is the instruction, and nothing stays."""

    def say(messages: list[Any], _info: Any) -> str:
        assert "make it faster pls" in told(messages)
        return "Reduce the run time of the import."

    node, left = await performed("interpret", tmp_path, say, parameters={"text": "make it faster pls"})
    assert node.value == {"text": "Reduce the run time of the import."}
    assert left == []


async def test_act_calls_one_tool(tmp_path: Path):
    """act: no model, no branch; arguments that do not fit fail the node by name."""
    call = {"tool": "weight", "arguments": {"thing": "anvil"}}
    node, left = await performed("act", tmp_path, parameters=call, instruction="")
    assert (node.value, node.usage.requests, left) == (50, 0, [])
    node, _ = await performed("act", tmp_path, parameters={"tool": "weight", "arguments": {"thing": [1]}})
    assert node.error.type == "ToolArgumentsError"
    assert "weight: thing" in node.error.message


async def test_act_of_a_role_is_held_to_its_tools(tmp_path: Path):
    """The allow-list of a role: what it does not list it cannot call, and no model is needed."""
    graph = OperationGraphBuilder()
    call = {"tool": "weight", "arguments": {"thing": "anvil"}}
    graph.add_operation("act", role=Role("weigher", tools=(weight,)), depends_on=[], parameters=call)
    async with Session(folder=tmp_path) as session:
        assert (await session.flow(graph))["weigher"].value == 50
    graph = OperationGraphBuilder()
    graph.add_operation("act", role=Role("other", tools=()), depends_on=[], parameters=call)
    async with Session(folder=tmp_path) as session:
        session.register_tool(weight)
        with pytest.raises(OperationError, match="role other does not have"):
            await session.flow(graph)


# --- nothing runs that cannot ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "options", "words"),
    [
        ("parse", {}, "say its shape with returns"),
        ("select", {}, "needs the parameter choices"),
        ("select", {"parameters": {"choices": []}}, "a list of different texts"),
        ("select", {"parameters": {"choices": ["a"], "most": 2}}, "at most 1 of its choices"),
        ("act", {}, "needs the parameter tool"),
        ("act", {"parameters": {"tool": "lift"}}, "no tool .lift."),
        ("ReAct", {"parameters": {"max_steps": 0}}, "max_steps is 0"),
        ("ReActStream", {"returns": int}, "the list of its steps"),
        ("interpret", {"instruction": ""}, "what it is to make clear"),
        ("select", {"parameters": {"choices": ["a"]}, "gate": True}, "can be no gate"),
        ("ReAct", {"tools": ["lift"]}, "no tool .lift."),
        ("opperate", {}, "did you mean 'operate'"),
    ],
)
async def test_what_a_verb_lacks_is_told_before_anything_runs(
    verb: str, options: dict[str, Any], words: str, tmp_path: Path
):
    """kernel.md 1: a verb that does not resolve is an error before anything runs."""
    with pytest.raises(OperationError, match=words):
        await performed(verb, tmp_path, **options)


async def test_a_verb_without_a_model(tmp_path: Path):
    """Nothing performs it: the message says how to."""
    graph = OperationGraphBuilder()
    graph.add_operation("chat", depends_on=[], instruction="Go.")
    async with Session(folder=tmp_path) as session:
        with pytest.raises(OperationError, match=r"nothing names a model.*--model"):
            await session.flow(graph)


def test_a_template_is_judged_when_it_is_rendered():
    """``choices: ${scan.files}`` cannot be judged before the run."""
    call = create_operation("select", {"choices": "${scan.files}", "most": "${args.n}"}, node_id="x")
    assert verb_fault(call) is None
    assert verb_fault(create_operation("act", {"tool": "t", "arguments": "${scan}"}, node_id="x")) is None


def test_every_verb_has_an_entry():
    """The nine words of kernel.md 1, and which of them hold a conversation."""
    assert set(VERBS) == {
        *("operate", "chat", "communicate", "ReAct", "ReActStream", "parse", "select", "interpret", "act"),
    }
    assert [name for name, verb in VERBS.items() if not verb.speaks] == ["act"]
    assert verb_fault(Operation(name="x", verb="operate")) is None


# --- in documents and grown -----------------------------------------------------------------------

DOCUMENT = """\
version: 1
name: sorting
cast: [cast.py]
args: {note: {required: true}}
nodes:
  read: {operation: parse, with: {text: "${args.note}"}, returns: {colour: str, weight: int}}
  heavy:
    operation: act
    after: [read]
    with: {tool: is_heavy, arguments: {weight: "${read.weight}"}}
    returns: bool
  way:
    operation: select
    after: [read, heavy]
    when: heavy
    instruction: How?
    with: {choices: [cart, hand]}
outputs: {way: "${way.selected}"}
"""
CAST = """\
from orchestrator import Role

def is_heavy(weight: int) -> bool:
    '''Whether it is too heavy for one.'''
    return weight > 20

lifter = Role("lifter", body="B", tools=(is_heavy,))
"""


async def test_verbs_in_a_document(tmp_path: Path):
    """flows.md: ``operation:`` names a verb; the tools of the cast can be called."""
    (tmp_path / "cast.py").write_text(CAST)
    (tmp_path / "flow.yaml").write_text(DOCUMENT)
    flow = load_flow(tmp_path / "flow.yaml")
    assert [one.message for one in flow.check() if one.severity == "error"] == []
    note = '{"colour": "red", "weight": 30}'
    async with Session(model="test", folder=tmp_path / "runs") as session:
        result = await session.flow(flow, args={"note": note})
    assert result.reason == "completed", result.detail
    assert result["read"].value == {"colour": "red", "weight": 30}
    assert result["heavy"].value is True
    assert result.outputs["way"][0] in ("cart", "hand")


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("{operation: parse, with: {text: a}}", "x: parse gives an object"),
        ("{operation: select}", "needs the parameter choices"),
        ("{operation: act}", "needs the parameter tool"),
        ("{operation: chatt}", "there is no operation 'chatt'"),
    ],
)
def test_a_document_says_what_its_verb_lacks(node: str, words: str, tmp_path: Path):
    """check: all at once, before a run."""
    (tmp_path / "flow.yaml").write_text(f"version: 1\nname: f\nnodes: {{x: {node}}}\n")
    flow = load_flow(tmp_path / "flow.yaml")
    assert any(words in problem.message for problem in flow.check())
    with pytest.raises(FlowError):
        flow.bind()


async def test_a_child_performs_what_was_asked(tmp_path: Path):
    """kernel.md 3: SpawnRequest.operation on a role that speaks; a chat leaves nothing in its branch."""
    scripted("says", lambda _messages, _info: "done")
    helper = Role("helper", body="B", emits=(Finding,), models=("says",))

    @role(emits=(SpawnRequest,))
    async def asks(turn: Turn) -> None:
        for verb in ("operate", "chat", "ReAct"):
            request = SpawnRequest(assignee="helper", operation=verb, instruction="Go.", key=verb)
            assert await turn.emit(request)

    graph = OperationGraphBuilder()
    graph.add_operation(asks, depends_on=[])
    async with Session(roles=[helper], folder=tmp_path) as session:
        result = await session.flow(graph)
        left = {name: len(branch.messages) for name, branch in session.branches.items() if "helper" in name}
    assert result.reason == "completed"
    assert left == {"asks.helper-1": 3, "asks.helper-2": 0, "asks.helper-3": 3}


async def test_an_injected_verb_has_the_default_model(tmp_path: Path):
    """A verb without a role can also come from outside, on the session's default model."""
    scripted("says", lambda _messages, _info: "done")
    begun, go_on = anyio.Event(), anyio.Event()

    @role()
    async def waits(turn: Turn) -> None:
        begun.set()
        await go_on.wait()

    graph = OperationGraphBuilder()
    graph.add_operation(waits, depends_on=[])
    async with Session(model="says", folder=tmp_path) as session:
        run = await session.start(graph)
        await begun.wait()
        receipt = run.inject("communicate", node_id="more", instruction="Go.")
        go_on.set()
        result = await run.wait()
    assert receipt, receipt
    assert result["more"].value == {"text": "done"}
