"""Bad inputs 12, 18, 27, 29, 30: what a role gives is exact or refused by name; the engine survives."""

from __future__ import annotations

import datetime as dt
import enum
import math
import pathlib
import sys

import pytest

from orchestrator import (
    Finding,
    OperationGraphBuilder,
    Session,
    SpawnRequest,
    role,
)
from tests.scenarios.conftest import ok, ran


def giving(make):
    """a gives what ``make()`` makes; b follows whatever came of it."""

    @role()
    async def gives(turn):
        return make()

    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="a")
    graph.add_operation(ok, node_id="b")
    return graph


async def coroutine():
    """Never awaited."""


def generator():
    yield 1


async def agenerator():
    yield 1


class Text(str):
    """A subclass of an exact type."""

    __slots__ = ()


class Number(int):
    """Another one."""


class Mapping(dict):
    """Another one."""


class Colour(enum.Enum):
    """No JSON value."""

    RED = 1


class Own(BaseException):
    """No Exception."""


class Broken(Exception):
    """An exception whose text raises."""

    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (ValueError("why"), "ValueError", "why"),
        (Own("why"), "Own", "why"),
        (KeyboardInterrupt("why"), "KeyboardInterrupt", "why"),
        (SystemExit(3), "SystemExit", "3"),
        (Broken(), "Broken", "(its text raised RuntimeError)"),
        (ValueError("half \ud800"), "ValueError", "half \\ud800"),
        (ValueError("x" * 1_000_000), "ValueError", "x" * 10_000),
        (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "ExceptionGroup", "two (2 sub-exceptions)"),
    ],
)
@pytest.mark.parametrize("way", ["loop", "thread"])
async def test_12_a_role_that_raises(raised, kind, message, way):
    """Bad-inputs 12: the node fails with type and text; dependents settle; no hang."""

    async def in_loop(turn):
        raise raised

    def in_thread(turn):
        raise raised

    graph = OperationGraphBuilder()
    graph.add_operation(role(name="body")(in_loop if way == "loop" else in_thread), node_id="a")
    graph.add_operation(ok, node_id="b")
    run = await ran(graph)
    assert (run["a"].error.type, run["a"].error.message) == (kind, message)
    assert run["b"].status == "completed"


async def test_12_sys_exit():
    """Bad-inputs 12: ``sys.exit`` ends the node and nothing else."""

    @role()
    async def leaves(turn):
        sys.exit("bye")

    graph = OperationGraphBuilder()
    graph.add_operation(leaves, node_id="a")
    graph.add_operation(ok, node_id="b")
    run = await ran(graph)
    assert (run["a"].error.type, run["a"].error.message) == ("SystemExit", "bye")
    assert run["b"].status == "completed"


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (coroutine, "coroutine"),
        (generator, "generator"),
        (agenerator, "async_generator"),
        (lambda: pathlib.Path(__file__).open(encoding="utf-8"), "TextIOWrapper"),  # noqa: SIM115 (the test closes it)
        (object, "object"),
        (lambda: len, "builtin_function_or_method"),
        (lambda: {1, 2}, "set"),
        (lambda: b"bytes", "bytes"),
        (lambda: Text("x"), "Text"),
        (lambda: Number(1), "Number"),
        (Mapping, "Mapping"),
        (lambda: Colour.RED, "Colour"),
        (lambda: ValueError("returned"), "ValueError"),
        (lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "datetime"),
        (lambda: 1j, "complex"),
        (lambda: range(3), "range"),
    ],
)
@pytest.mark.parametrize("depth", [0, 1])
async def test_12_a_role_that_returns_nonsense(make, word, depth):
    """Bad-inputs 12, kernel 6: refused by name, with the path inside the value; the run goes on."""
    made = []

    def value():
        made.append(make())
        return {"deep": [made[0]]} if depth else made[0]

    run = await ran(giving(value))
    for one in made:
        if hasattr(one, "close"):
            one.close()
    assert run["a"].status == "failed"
    assert run["a"].error.type == "NotExactError"
    assert word in run["a"].error.message
    assert ("result.deep[0]" in run["a"].error.message) is bool(depth)
    assert run["b"].status == "completed"
    assert run["a"].value is None


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, float("1e400"), 2**63, -(2**63) - 1, 2**200, 10**5000],
    ids=["nan", "inf", "-inf", "1e400", "2**63", "-2**63-1", "2**200", "5000 digits"],
)
@pytest.mark.parametrize("where", ["plain", "nested", "written", "emitted"])
async def test_27_numbers_that_no_json_holds(value, where):
    """Bad-inputs 27: rejected before the write, naming the place; never null, never changed."""

    @role(emits=(SpawnRequest,))
    async def gives(turn):
        if where == "written":
            turn.write("key", {"deep": value})
        if where == "emitted":
            receipt = await turn.emit(SpawnRequest(assignee="ok", parameters={"deep": value}))
            return receipt.reason
        return value if where == "plain" else {"list": [0, value]}

    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="a")
    graph.add_operation(ok, node_id="b")
    run = await ran(graph, ok)
    assert run["b"].status == "completed"
    if where == "emitted" and run["a"].status == "completed":
        assert run["a"].value == "invalid"
        assert run.result.spawned == ()
        return
    assert run["a"].status == "failed"
    assert run["a"].value is None
    if where in {"plain", "nested"}:
        place = "result" if where == "plain" else "result.list[1]"
        assert run["a"].error.message.startswith(place)


@pytest.mark.parametrize("value", [0, -0.0, 2**63 - 1, -(2**63), 1.5, 5e-324, 1.7976931348623157e308, 1e22])
async def test_27_numbers_that_are_exact(value):
    """Bad-inputs 27: these come back as they were, -0.0 with its sign."""
    run = await ran(giving(lambda: [value]))
    (back,) = run["a"].value
    assert back == value
    assert type(back) is type(value)
    assert math.copysign(1, back) == math.copysign(1, value)


@pytest.mark.parametrize("depth", [101, 990, 100_000])
@pytest.mark.parametrize("kind", ["list", "dict"])
async def test_29_nested_too_deep(depth, kind):
    """Bad-inputs 29: refused at the cap with its path; no recursion error reaches the loop."""

    def make():
        value = 1
        for _ in range(depth):
            value = [value] if kind == "list" else {"k": value}
        return value

    run = await ran(giving(make))
    assert run["a"].status == "failed"
    assert run["a"].error.type == "NotExactError"
    assert "nested deeper than 100" in run["a"].error.message
    assert len(run["a"].error.message) < 300
    assert run["b"].status == "completed"


async def test_29_as_deep_as_is_allowed():
    """Bad-inputs 29: 100 levels are stored and read back."""

    def make():
        value = "bottom"
        for _ in range(100):
            value = [value]
        return value

    run = await ran(giving(make))
    assert run["a"].value == make()


async def test_29_values_that_hold_themselves():
    """Bad-inputs 29: a value that contains itself is refused like any that is too deep."""

    def make():
        value = {}
        value["self"] = [value, value]
        return value

    run = await ran(giving(make))
    assert run["a"].error.type == "NotExactError"


async def test_29_a_small_object_that_is_a_huge_value():
    """Bad-inputs 29, 31: forty lists that hold each other twice are 2**40 values: refused, at once."""

    def make():
        value = [1]
        for _ in range(40):
            value = [value, value]
        return value

    run = await ran(giving(make))
    assert run["a"].error.type == "NotExactError"
    assert run["b"].status == "completed"


@pytest.mark.parametrize("size", [64 * 1024 * 1024 - 2, 64 * 1024 * 1024 - 1])
async def test_31_the_cap_on_a_value(size):
    """Bad-inputs 31: 64 MiB of JSON are taken, one byte more is refused with both numbers."""

    @role()
    async def length(turn):
        return len(turn.inputs["a"]) if "a" in turn.inputs else None

    @role()
    async def gives(turn):
        return "x" * size

    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="a")
    graph.add_operation(length, node_id="b")
    async with Session() as session:
        result = await session.flow(graph)
    fits = size + 2 <= 64 * 1024 * 1024
    assert result["a"].status == ("completed" if fits else "failed")
    assert result["b"].value == (size if fits else None)
    if not fits:
        assert "67,108,865" in result["a"].error.message
        assert "67,108,864" in result["a"].error.message


@pytest.mark.parametrize(
    "value",
    [
        {"\u212b": 1, "\u00c5": 2, "A\u030a": 3, "a\u200bb": 4, "ab": 5},
        {"lc": 1, "__type__": "x", "$ref": "#/a", "py/object": "os.system", "": 0},
        {"gate_verdict": "reject", "context_": {}, "text": 'no blocks: ``` {"a": 1} ```'},
        {"a.b": {"c/d": "~0~1"}, "${args.x}": "${nodes['a']}"},
        "\u0000\u001f\u2028\u2029\U0001f600",
    ],
)
async def test_30_odd_keys_and_texts_are_plain_data(value):
    """Bad-inputs 30: keys that look alike or like tags stay apart, unchanged, and revive nothing."""

    @role()
    async def reads(turn):
        return turn.inputs["a"]

    @role()
    async def gives(turn):
        return value

    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="a")
    graph.add_operation(reads, node_id="b")
    run = await ran(graph)
    assert run["b"].value == value
    assert run.of("EmissionAccepted") == []


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a",), b"a", Text("a")])
async def test_30_keys_that_are_no_text(key):
    """Bad-inputs 30: a named error, never a key turned into text."""
    run = await ran(giving(lambda: {"in": {key: 1}}))
    assert run["a"].error.type == "NotExactError"
    assert type(key).__name__ in run["a"].error.message
    assert "result.in" in run["a"].error.message


@pytest.mark.parametrize(
    "where", ["value", "key", "context", "write", "write key", "step", "ask", "emission"]
)
async def test_30_half_surrogates(where):
    """Bad-inputs 30: what no JSON text can hold fails the node that gives it, never the run."""
    half = "\ud800"

    @role(emits=(Finding,))
    async def gives(turn):
        if where == "value":
            return [half]
        if where == "key":
            return {half: 1}
        if where == "context":
            return {"context": {half: 1}}
        if where == "write":
            turn.write("key", half)
        elif where == "write key":
            turn.write(half, 1)
        elif where == "step":
            await turn.step(half, lambda: 1)
        elif where == "ask":
            await turn.ask(half)
        else:
            await turn.emit(Finding.model_construct(description=half, confidence=0.5))
        return None

    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="a")
    graph.add_operation(ok, node_id="b")
    run = await ran(graph)
    assert run["b"].status == "completed"
    if where == "emission":
        assert [fact.data["reason"] for fact in run.of("EmissionRefused")] == ["invalid"]
    else:
        assert run["a"].status == "failed"
        assert run["a"].error.type == "NotExactError"
