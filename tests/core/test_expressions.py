"""The expression language: what it reads, what it refuses, and that it ends."""

from __future__ import annotations

import contextlib
import time
import warnings

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.expressions import (
    FUNCTIONS,
    ExpressionError,
    MissingValueError,
    NodeView,
    Path,
    compile_expression,
)
from orchestrator.errors import ConditionError, OrchestratorError
from tests.core.expression_escapes import ESCAPES

SCOPE = {
    "result": {
        "severity": "low",
        "n": 3,
        "ok": True,
        "none": None,
        "files": ["a", "b"],
        "items": [{"k": 1}, {"k": 2}],
    },
    "words": ["b", "a"],
    "flags": [True, False],
    "empty": [],
    "deep": {"a": {"b": [{"c": "d"}]}},
    "scan": NodeView(
        "scan", "completed", msgspec.json.encode({"summary": "s", "status": "theirs"}), {"note": "n.md"}
    ),
    "gone": NodeView("gone", "skipped"),
    "nodes": {"a.b-1": NodeView("a.b-1", "failed")},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("result.severity != 'critical'", True),
        ("result.severity == 'low' and result.n > 2", True),
        ("result.n > 5 or not result.ok", False),
        ("1 < result.n <= 3", True),
        ("1 < 2 > 3", False),
        ("'a' in result.files", True),
        ("'a' not in result.files", False),
        ("'severity' in result", True),
        ("'lo' in result.severity", True),
        ("deep.a.b[0].c", "d"),
        ("deep['a'][\"b\"][-1]['c']", "d"),
        ("deep.a.b[len(flags) - 2].c", "d"),
        ("len(result.files) + len(result.severity)", 5),
        ("lower('ABC') + upper('d')", "abcD"),
        ("strip('  x ')", "x"),
        ("startswith('abc', 'ab') and endswith('abc', 'bc')", True),
        ("any(flags)", True),
        ("all(flags)", False),
        ("any(empty)", False),
        ("all(empty)", True),
        ("count(words, 'a')", 1),
        ("pluck(result['items'], 'k')", [1, 2]),
        ("sum(pluck(result['items'], 'k'))", 3),
        ("max(words)", "b"),
        ("min(3, 1, 2)", 1),
        ("sorted(words)", ["a", "b"]),
        ("keys(deep)", ["a"]),
        ("str(result.n)", "3"),
        ("str(flags)", "[true,false]"),
        ("int('42') + int(2.9)", 44),
        ("float('1.5')", 1.5),
        ("round(2.675, 1)", 2.7),
        ("round(2.4)", 2),
        ("abs(-3)", 3),
        ("-result.n", -3),
        ("7 // 2 * 2 + 7 % 2 - 1 / 2", 6.5),
        ("'yes' if result.ok else missing.name", "yes"),
        ("[1, 'a', true, null]", [1, "a", True, None]),
        ("true == True and false == False and null == None", True),
        ("scan.summary", "s"),
        ("scan.status", "completed"),
        ("scan.artifacts.note", "n.md"),
        ("scan == {}['x']", None),
        ("nodes['a.b-1'].status", "failed"),
        ("exists(scan)", True),
        ("exists(gone)", False),
        ("exists(result.files[5])", False),
        ("exists(result.none)", True),
        ("exists(result.none.more)", False),
        ("exists(nowhere.at.all)", False),
        ("default(gone.x, 'none') == 'none'", True),
        ("default(result.none, 1)", None),
        ("default(result.x, default(result.y, 3))", 3),
        ("gone.status == 'skipped'", True),
        ("  result.ok  ", True),
        ("(result.ok\n and\tresult.ok)", True),
        (r"'a\'b\n\u0041'", "a'b\nA"),
    ],
)
def test_values(text, value):
    """Every form of the language, on JSON data."""
    if "{}" in text:
        with pytest.raises(ExpressionError):
            compile_expression(text)
        return
    found = compile_expression(text).evaluate(SCOPE)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("resutl.ok", "did you mean result?"),
        ("result.sevrity", "did you mean severity?"),
        ("result.files[9]", "has 2 items"),
        ("gone", "it is skipped"),
        ("gone.text", "exists(gone)"),
        ("result.none.x", "is null"),
    ],
)
def test_a_missing_value_is_an_error_that_says_what_exists(text, part):
    """COND 29: never an empty text, never true by accident."""
    with pytest.raises(
        MissingValueError, match=part.replace("(", r"\(").replace(")", r"\)").replace("?", r"\?")
    ):
        compile_expression(text).evaluate(SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "result.severity < 3",
        "result.ok < true",
        "words < words",
        "null < 1",
        "result.severity.x",
        "result.files.x",
        "result.files['x']",
        "deep[0]",
        "result.severity[0]",
        "result.severity and true",
        "result.n or true",
        "not result.none",
        "not words",
        "1 if result.n else 2",
        "result.severity + 1",
        "result.ok + 1",
        "1 / 0",
        "1 // 0",
        "1 % 0",
        "1.0 // 0",
        "9223372036854775807 + 1",
        "1e308 * 10",
        "9223372036854775807 * 9223372036854775807",
        "len(1)",
        "lower(1)",
        "any(words)",
        "all(result.none)",
        "any([1])",
        "all([null])",
        "pluck(words, 'k')",
        "pluck(result['items'], 'z')",
        "max(empty)",
        "max(1)",
        "max([1, 'a'])",
        "sorted([null])",
        "sum(words)",
        "sum([true])",
        "int('x')",
        "int('1_0')",
        "int(true)",
        "float('nan')",
        "float('1e999')",
        "float('1_0')",
        "round(1, 99)",
        "round('1')",
        "keys(words)",
        "abs('a')",
        "1 in result.severity",
        "1 in result",
        "'a' in 5",
        "exists(result.severity.x)",
        "default(result.n.x, 1)",
        "exists(result[words[9]])",
        "default(deep[missing], 1)",
    ],
)
def test_what_does_not_fit_is_an_error_and_absence_swallows_nothing_else(text):
    """COND 29, 31: strict types; exists and default look at absence of their own path only."""
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text).evaluate(SCOPE)
    if text.startswith(("exists", "default")):
        assert not isinstance(caught.value, MissingValueError)


@pytest.mark.parametrize("value", ["false", "no", "0", "", 0, 1, None, [], {}, 1.0, [True]])
def test_only_a_bool_is_a_condition(value):
    """COND 31: the published table: true and false are conditions, everything else is an error."""
    with pytest.raises(ConditionError, match="`x` gave"):
        compile_expression("x").evaluate_bool({"x": value})


@pytest.mark.parametrize("value", [True, False])
def test_a_bool_is_a_condition(value):
    """COND 31, the other arm."""
    assert compile_expression("x").evaluate_bool({"x": value}) is value


def test_a_condition_that_cannot_be_judged_names_itself():
    """S45: the error carries the condition's text."""
    with pytest.raises(ConditionError, match="n >= limit"):
        compile_expression("n >= limit").evaluate_bool({"n": 1})


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ("1", 1, False),
        (None, False, False),
        ([1, {"a": 2}], [1.0, {"a": 2}], True),
        ([True], [1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([], {}, False),
    ],
)
def test_equality_is_strict(left, right, same):
    """Unlike types are unequal, at any depth."""
    scope = {"a": left, "b": right}
    assert compile_expression("a == b").evaluate(scope) is same
    assert compile_expression("a != b").evaluate(scope) is not same
    assert compile_expression("a in [b]").evaluate(scope) is same


def test_attributes_are_keys_and_never_attributes():
    """The data's own methods cannot be reached."""
    with pytest.raises(MissingValueError):
        compile_expression("x.items").evaluate({"x": {"a": 1}})
    assert compile_expression("x.items").evaluate({"x": {"items": 2}}) == 2
    assert compile_expression("x['__class__']").evaluate({"x": {"__class__": 3}}) == 3


def test_names_and_paths():
    """A checker sees every look-up with its column."""
    found = compile_expression("scan.files[0].name == default(nodes['x-1'].y, a) and b[c.d].e")
    assert found.names == {"scan", "nodes", "a", "b", "c"}
    assert found.paths == (
        Path(("scan", "files", 0, "name"), 1),
        Path(("nodes", "x-1", "y"), 31, asked=True),
        Path(("a",), 47),
        Path(("b",), 54, open=True),
        Path(("c", "d"), 56),
    )
    assert found.kind == "bool"
    assert compile_expression("é.x == ü").paths[1].column == 8


def test_full_width_letters_are_the_same_name():
    """Names are compared after NFKC."""
    assert compile_expression("\uff52esult.ok").names == {"result"}


def test_compiling_is_cached():
    """Equal texts give one object."""
    assert compile_expression("a == 1") is compile_expression("a == 1")


@pytest.mark.parametrize("text", ESCAPES)
def test_escape_attempts_are_refused_at_compile_time(text):
    """bad-inputs 36, COND 30: refused with text and place, within 50 ms, without a warning."""
    start = time.thread_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ExpressionError) as caught:
            compile_expression(text)
    assert time.thread_time() - start < 0.05
    assert isinstance(caught.value, OrchestratorError)
    assert "\x00" not in str(caught.value)
    str(caught.value).encode()


def test_the_corpus_is_large():
    """At least a hundred attempts, each only once."""
    assert len(set(ESCAPES)) >= 100
    assert len(set(ESCAPES)) == len(ESCAPES)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a = 1", "=="),
        ("a && b", "write and"),
        ("a is None", "=="),
        ("[x for x in y]", "pluck"),
        ("${a}", "without"),
        ("a # b", "comments"),
        ("(a, b)", r"write a list \[a, b\]"),
        ("lenn(a)", r"did you mean len\?"),
        ("[1,]", "trailing comma"),
        ("a.__class__", r"\['__class__'\]"),
    ],
)
def test_refusals_say_what_to_write(text, advice):
    """An error says what, where and what next."""
    with pytest.raises(ExpressionError, match=advice) as caught:
        compile_expression(text)
    assert caught.value.column is not None


@given(st.text(max_size=60))
def test_any_text_compiles_or_is_refused(text):
    """No text makes the compiler fail in another way."""
    with contextlib.suppress(ExpressionError):
        compile_expression(text)


_WORDS = (
    "( ) [ ] , . a b 1 2.5 'x' == < in not and or if else + - * / // % true null x.y l exists( default("
).split()
_VOCABULARY = st.sampled_from([*sorted(FUNCTIONS), *_WORDS])
_DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.lists(_VOCABULARY, max_size=14),
    st.fixed_dictionaries({"a": _DATA, "b": _DATA, "x": _DATA, "l": _DATA}),
)
def test_evaluation_gives_json_or_an_expression_error(words, scope):
    """Every function and operator is total, whatever the data; data stays as it was."""
    before = msgspec.json.encode(scope)
    try:
        found = compile_expression(" ".join(words)).evaluate(scope)
    except ExpressionError:
        return
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
    assert msgspec.json.encode(scope) == before


def test_evaluation_is_bounded():
    """A fixed number of steps, however large the data; no large results."""
    scope = {"big": list(range(900_000)), "text": "x" * 99_000, "deep": None}
    nested: object = 0
    for _ in range(200):
        nested = [nested]
    scope["deep"] = nested
    for text in (
        "count(big, 1) + count(big, 2)",
        "text + text",
        "deep == [deep] or deep == deep",
        "lower(text) * 2",
    ):
        with pytest.raises(ExpressionError):
            compile_expression(text).evaluate(scope)
    assert compile_expression("len(big)").evaluate(scope) == 900_000


def test_a_simple_condition_is_fast():
    """About 2 microseconds for the usual condition; the bound leaves room for a busy machine."""
    expression = compile_expression("result.severity != 'critical'")
    best = 1.0
    for _ in range(20):
        start = time.thread_time()
        for _ in range(1_000):
            expression.evaluate(SCOPE)
        best = min(best, (time.thread_time() - start) / 1_000)
    assert best < 10e-6
