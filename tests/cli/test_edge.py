"""TEXT: the one function between text of others and a console."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.edge import clean, clean_json, clean_lines
from orchestrator.cli.opening import UsageError, any_value, pairs


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 日本 ✓", "plain ü 日本 ✓"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x07\x00\x7f\x9b", "\\x07\\x00\\x7f\\x9b"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2028\ufeff", "\\u2028\\ufeff"),
        ("\udcff", "\\udcff"),
        ("👩\u200d💻 a\u00a0b", "👩\u200d💻 a\u00a0b"),
        (7, "7"),
    ],
)
def test_clean(text: object, shown: str):
    """Control, direction and half characters are written out; letters, symbols and joiners stay."""
    assert clean(text) == shown


@given(st.text(st.characters()) | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Co"])))
def test_nothing_that_a_terminal_obeys_is_left(text: str):
    """For any text: no control, no direction, no half character, no line of its own; twice is once."""
    shown = clean(text)
    kept = {unicodedata.category(char) for char in shown if char not in "\u200c\u200d"}
    assert not kept & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert clean(shown) == shown
    assert "\n" not in shown


def test_lines_stay_lines():
    """A text of several lines keeps them, and only them."""
    assert clean_lines("a\r\nb\x1b\n\tc") == "a\nb\\x1b\n    c"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_keeps_its_data(text: str):
    """JSON on a terminal: nothing to obey, and the data as it was."""
    shown = clean_json(json.dumps({"a": [text]}, indent=1, ensure_ascii=False).encode())
    assert json.loads(shown) == {"a": [text]}
    kept = {unicodedata.category(char) for char in shown.decode() if char not in "\n\u200c\u200d"}
    assert not kept & {"Cc", "Cf", "Zl", "Zp"}


def test_pairs():
    """K=V: the first `=` separates; a value may be empty; a name stands once."""
    assert pairs(["a=1", "b=x=y", "c="], "--arg") == {"a": "1", "b": "x=y", "c": ""}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(UsageError, match="--arg"):
            pairs(wrong, "--arg")


def test_any_value():
    """JSON is read as JSON, other text is itself, and strict says how to quote."""
    assert any_value("[1, true]", "x") == [1, True]
    assert any_value("src/main", "x") == "src/main"
    with pytest.raises(UsageError, match="is not JSON"):
        any_value("src/main", "--input a", strict=True)
