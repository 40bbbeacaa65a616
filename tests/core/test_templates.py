"""Texts with placeholders."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.expressions import ExpressionError
from orchestrator.core.templates import compile_template, needs_rendering, render_json, walk_texts

SCOPE = {
    "a": "x",
    "n": 3,
    "ok": True,
    "none": None,
    "list": [1, {"k": "v"}],
    "map": {"k": "ü"},
    "brace": "${a}",
}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("plain", "plain"),
        ("", ""),
        ("${a}", "x"),
        ("<${a}>", "<x>"),
        ("${a}${a}", "xx"),
        ("${ a }", "x"),
        ("${n} ${ok} ${none}", "3 true null"),
        ("${list} ${map}", '[1,{"k":"v"}] {"k":"ü"}'),
        ("${'}'} ${\"}\" + '{'}", "} }{"),
        ("$${a}", "${a}"),
        ("$${a} ${a}", "${a} x"),
        ("$$${a}", "$${a}"),
        ("$a $$ {a} $", "$a $$ {a} $"),
        ("$${", "${"),
        ("a $${b} c $${d", "a ${b} c ${d"),
        ("${brace}", "${a}"),
        ("${'a\\'}'}", "a'}"),
    ],
)
def test_rendering(text, rendered):
    """Strings as they are, the rest as compact JSON; what was put in is not rendered again."""
    assert compile_template(text).render(SCOPE) == rendered


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${n}", 3),
        ("${list}", [1, {"k": "v"}]),
        ("${none}", None),
        (" ${n}", " 3"),
        ("$${n}", "${n}"),
        ("", ""),
    ],
)
def test_one_placeholder_keeps_its_type(text, value):
    """A text that is exactly one placeholder is the value; any other is a text."""
    template = compile_template(text)
    assert template.value(SCOPE) == value
    assert template.single is (text in ("${n}", "${list}", "${none}"))


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("ab ${a", 4),
        ("${", 1),
        ("${'}", 1),
        ("${a} ${b + } x", 10),
        ("x ${}", 3),
        ("${ a b }", 6),
        ("$${a} ${", 7),
    ],
)
def test_errors_know_their_column(text, column):
    """An unclosed placeholder or a wrong expression is refused with its place in the text."""
    with pytest.raises(ExpressionError) as caught:
        compile_template(text)
    assert abs(caught.value.column - column) <= 2


def test_a_missing_value_is_an_error():
    """Never an empty text."""
    with pytest.raises(ExpressionError, match="there is no 'zz'"):
        compile_template("a ${zz} b").render(SCOPE)


def test_json_is_rendered_through_and_through():
    """Texts in mappings and lists; keys and other values stay."""
    data = {"${a}": ["${n}", {"t": "<${a}>"}, 1, None, True], "e": "$${a}"}
    assert render_json(data, SCOPE) == {"${a}": [3, {"t": "<x>"}, 1, None, True], "e": "${a}"}
    assert needs_rendering(data)
    assert not needs_rendering({"${a}": ["plain $ {", 1]})
    assert list(walk_texts({"k": ["a", {"l": "b"}]})) == [(("k", 0), "a"), (("k", 1, "l"), "b")]


def test_rendered_texts_are_bounded():
    """A few placeholders cannot make a text of any size."""
    with pytest.raises(ExpressionError, match="longer"):
        compile_template("${a}" * 50).render({"a": "x" * 100_000})


@given(st.text(alphabet="ab$} '\"\\", max_size=40))
def test_text_without_placeholders_is_itself(text):
    """Nothing but ``${`` and ``$${`` has a meaning."""
    assert compile_template(text).render({}) == text


@given(st.text(alphabet="a${}'\" .", max_size=30))
def test_any_text_compiles_or_is_refused(text):
    """No text makes the compiler fail in another way."""
    with contextlib.suppress(ExpressionError):
        compile_template(text).render({"a": "${a}"})


@given(st.text(max_size=30))
def test_escaping_gives_any_text_back(text):
    """With ``${`` doubled to ``$${`` a text renders to itself."""
    assert compile_template(text.replace("${", "$${")).render({}) == text
