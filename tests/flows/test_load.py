"""Reading documents: strict YAML with positions, hostile input refused before it costs anything."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import FlowError
from orchestrator.flows.flow import load_flow
from orchestrator.flows.load import read_source, source_of
from orchestrator.flows.scan import Refused, refuse_hostile
from tests.flows.counting import calls, document

BOMB = "a: &a [x]\n" + "\n".join(
    f"b{n}: &b{n} [*{p}, *{p}]" for n, p in enumerate(["a", *[f"b{i}" for i in range(11)]])
)
WIDE = "a: &a [" + "1," * 900 + "]\n" + "b: &b [" + "*a," * 9 + "]\nc: [" + "*b," * 9 + "]"

HOSTILE = {
    "nested brackets": "a: " + "[" * 3_000,
    "nested brackets closed": "a: " + "[" * 900 + "]" * 900,
    "nested braces": "a: " + "{a: " * 900,
    "mixed brackets": "a: " + "[{a: " * 500,
    "brackets over lines": "a:\n" + "".join(f"  {' ' * n}[\n" for n in range(60)),
    "brackets after a quote": "a: ['x', " + "[" * 100,
    "brackets after a false quote": "a: it\n  's\nb: " + "[" * 100 + "\nc: '",
    "brackets after a false double quote": 'a: it\n  "s\nb: ' + "[" * 100 + '\nc: "',
    "brackets in a flow text": "x: [hello\n 'y, " + "[" * 100 + "']",
    "brackets behind a false block": "a: |\nb: " + "[" * 100,
    "brackets behind a block": "a: |\n  text\nb: " + "[" * 100,
    "brackets behind a folded block": "- a: >-\n    text\n  b: " + "[" * 100,
    "brackets behind a comment": "a: 1 # '\nb: " + "[" * 100,
    "deep mapping": "\n".join(" " * n + "a:" for n in range(60)),
    "deep compact list": "- " * 60 + "a",
    "deep compact keys": "? " * 60 + "a",
    "compact in deep": "\n".join(" " * n + "a:" for n in range(25)) + "\n" + " " * 25 + "- " * 10 + "a",
    "alias bomb": BOMB,
    "wide alias bomb": WIDE,
    "many aliases": "a: &a 1\nb: [" + ", ".join(["*a"] * 30) + "]",
    "self alias": "&a [*a]",
    "self alias in a mapping": "a: &a {b: *a}",
    "deep self alias": "a: &a [[[*a]]]",
    "unknown alias": "a: *nobody",
    "merge key": "a: &a {gate: true}\nb: {<<: *a}",
    "merge key block": "a: &a {gate: true}\nb:\n  <<: *a",
    "merge list": "a: &a {x: 1}\nb:\n  <<: [*a, *a]",
    "python tag": "a: !!python/object/apply:os.system ['true']",
    "python name": "!!python/name:os.system",
    "local tag": "a: !thing 1",
    "standard tag": "a: !!str 1",
    "tag in flow": "a: [!!int '1']",
    "tag after dash": "- !x 1",
    "verbatim tag": "a: !<tag:x> 1",
    "tag on a key": "!!str a: 1",
    "tag after anchor": "a: &x !!str 1",
    "binary": "a: !!binary aGk=",
    "two documents": "a: 1\n---\nb: 2",
    "end mark": "a: 1\n...\nb: 2",
    "end mark alone": "a: 1\n...",
    "directive": "%YAML 1.1\n---\na: no",
    "tag directive": "%TAG ! tag:x,2000:\n---\na: 1",
    "tab indent": "a:\n\tb: 1",
    "tab first": "\ta: 1",
    "tab after space": "a:\n \tb: 1",
    "100k keys": "{" + ",".join(f"a{n}: 1" for n in range(100_000)) + "}",
    "100k lines": "\n".join(f"a{n}: 1" for n in range(100_000)),
    "30k items": "a: [" + ",".join("1" for _ in range(30_000)) + "]",
    "large text": "a: '" + "x" * 300_000 + "'",
    "next line": "a: 1\u0085b: 2",
    "line separator": "a: 1\u2028b: 2",
    "paragraph separator": "a: 1\u2029b: 2",
    "bare return": "a: 1\rb: 2",
    "null byte": "a: \x00",
    "escape": "a: \x1b[31m",
    "backspace": "a: x\x08",
    "not a character": "a: \uffff",
    "surrogate": "a: \ud800",
    "open list": "a: [1, 2",
    "open mapping": "a: {b: 1",
    "open quote": "a: 'x",
    "open double quote": 'a: "x',
    "bad escape": 'a: "\\q"',
    "two values": "a: b: c",
    "list then key": "- x\na: 1",
    "stray close": "a: ]",
    "at sign": "a: @x",
    "backtick": "a: `x`",
    "percent": "a: %x",
    "empty": "",
    "only comments": "# nothing\n# here\n",
    "only spaces": "   \n  \n",
    "anchor twice on one": "a: &x &y 1",
    "key without colon": "a\nb: 1",
    "bom inside": "a: 1\n\ufeffb: 2\nc: [",
}


@pytest.fixture(scope="session")
def ordinary():
    """What reading an ordinary document of 10 KiB costs, in calls: about 100 ms of a slow machine."""
    return calls(lambda: source_of(document(10_240)))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_documents_are_refused_in_one_line_and_at_once(text, ordinary):
    """bad-inputs 32, engine.md 32: place, one line, and no more work than an ordinary document."""
    with pytest.raises(FlowError) as caught:
        source_of(text, "flow.yaml")

    def again():
        with contextlib.suppress(FlowError):
            source_of(text, "flow.yaml")

    assert calls(again) < ordinary
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("flow.yaml:")
    assert caught.value.line is not None
    assert caught.value.column is not None


def test_the_corpus_is_large():
    """At least sixty documents."""
    assert len(HOSTILE) >= 60


ODD_BUT_GOOD = {
    "quoted signs": "a: '!x [[[ {{{ *a &b <<'\nb: \"%x \\\" [ ' \"",
    "plain signs": "a: x!y [z] {w} *v &u <<t 'q \"r\nb: it's - 'fine', \"too\"",
    "block text": "a: |\n  [[[[ !x 'y \"z\n    %deep\n  \tb\nb: >-\n  {{{{\n\n  *x",
    "block in a list": "- a: |\n    [[[[\n- b: 1",
    "plain over lines": "a: first\n  'second\n  third\nb: 1",
    "quoted over lines": "a: 'first\n  [[[ second'\nb: \"one\n  {{{ two\"",
    "comments": "# !x [[[\na: 1 # ' [[[ *x\n  # <<: y\nb: 2",
    "one mark": "# c\n---\na: 1",
    "windows lines": "a: 1\r\nb:\r\n  - x\r\n",
    "anchors": "a: &x {k: [1]}\nb: *x",
    "nested": "a: " + "[" * 20 + "1" + "]" * 20,
    "deep": "\n".join(" " * n + "a:" for n in range(20)),
    "unicode": "a: ä 漢 🎭\nschlüssel: 1",
    "placeholders": 'a: ${x.y}\nb: "${x[\'}\']}"\nc: ["${x}", 2]',
    "sign words": "a: -x\nb: x*y\nc: a&b\nd: <3\ne: 1 < 2\nf: ?x\ng: :x",
}


@pytest.mark.parametrize("text", ODD_BUT_GOOD.values(), ids=ODD_BUT_GOOD.keys())
def test_signs_inside_texts_are_texts(text):
    """The scan refuses nothing that is only written down."""
    assert source_of(text).problems == []


def test_scalars_are_what_they_look_like_and_nothing_else():
    """YAML 141, 144, bad-inputs 33: true, false, null, plain numbers; the rest is text or refused."""
    good = "a: true\nb: false\nc: null\nd:\ne: 12\nf: -3\ng: 0\nh: 1.50\ni: -0.5\nj: '12'\n"
    good += 'k: "true"\nl: 30m\nm: y\nn: 1.2.3\n'
    assert source_of(good).data == {
        "a": True, "b": False, "c": None, "d": None, "e": 12, "f": -3, "g": 0, "h": 1.5, "i": -0.5, "j": "12",
        "k": "true", "l": "30m", "m": "y", "n": "1.2.3",
    }  # fmt: skip


@pytest.mark.parametrize(
    "scalar",
    "no No NO yes on Off ~ Null True FALSE 12:30:45 1:10 010 0x1F 0o7 0b1 1e3 1E-3 1_000 1,000 .5 -.5 +1 "
    ".inf -.Inf .nan 2020-01-01 2020-1-1T00:00:00Z 1. -0 12345678901234567890 =".split(),
)
def test_surprises_are_refused_as_values_and_as_keys(scalar):
    """Quoted they are texts; bare they are refused with the place and the spelling."""
    [problem] = source_of(f"a: 1\nkey: {scalar}").problems
    assert (problem.line, problem.column) == (2, 6)
    assert f"'{scalar}'" in problem.message
    if scalar == "on":  # a key of retry: our reader takes every key for text
        assert source_of("on: x").data == {"on": "x"}
        return
    [problem] = source_of(f"a: 1\n{scalar}: x").problems
    assert (problem.line, problem.column) == (2, 1)
    assert source_of(f"key: '{scalar}'").data == {"key": scalar}


def test_a_key_that_stands_twice_is_refused_with_both_lines():
    """YAML 142: in a block, in flow, nested; every one is told."""
    found = source_of("a: 1\nb:\n  x: 1\n  y: 2\n  x: 3\na: 2\nc: {k: 1, k: 2}")
    assert [(one.line, one.column) for one in found.problems] == [(5, 3), (6, 1), (7, 11)]
    assert "lines 3 and 5" in found.problems[0].message
    assert found.data == {"a": 1, "b": {"x": 1, "y": 2}, "c": {"k": 1}}


def test_keys_are_texts():
    """A list, a mapping or a number is no key."""
    found = source_of("? [a]\n: 1\n1: x\n? {b: 1}\n: 2")
    assert len(found.problems) == 3
    assert found.data == {}


def test_positions():
    """Every value and every key knows where it stands; what is not there takes the place around it."""
    found = source_of("a:\n  b: [1, {c: 2}]\n  d: |\n    x\n")
    assert found.position(("a", "b")) == (2, 6)
    assert found.position(("a", "b"), key=True) == (2, 3)
    assert found.position(("a", "b", 1, "c")) == (2, 14)
    assert found.position(("a", "b", 7, "z")) == (2, 6)
    assert found.position(("zz",)) == (1, 1)


def test_files(tmp_path):
    """UTF-8 with and without BOM is read; other bytes and missing files are named."""
    path = tmp_path / "flow.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: \xc3\xa4")
    assert read_source(path).data == {"a": "ä"}
    path.write_bytes(b"a: 1\nb: \xff")
    with pytest.raises(FlowError, match="UTF-8") as caught:
        read_source(path)
    assert caught.value.line == 2
    path.write_bytes("a: 1".encode("utf-16"))
    with pytest.raises(FlowError, match="UTF-8"):
        read_source(path)
    for wrong in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(FlowError, match="cannot be read"):
            read_source(wrong)
    path.write_bytes(b"x" * 3_000_000)
    with pytest.raises(FlowError, match="larger"):
        read_source(path)


def test_the_scan_is_fast():
    """engine.md 32: a few calls a character, linear in the length; 1 ms for 10 KiB."""
    short, long = (calls(lambda text=text: refuse_hostile(text)) for text in map(document, (5_000, 50_000)))
    assert short < 4 * 5_000
    assert long < 11 * short


def test_all_checks_together_cost_less_than_reading(tmp_path, ordinary):
    """A document of 10 KiB is read and checked in about 100 ms: the YAML is the greater part of it."""
    path = tmp_path / "flow.yaml"
    path.write_text(document(10_240))
    assert calls(lambda: load_flow(path).check()) < 2 * ordinary


@given(st.text(alphabet="ab:-?[]{},'\"#&*!|>% \n\t$<\\", max_size=60))
def test_any_text_is_read_or_refused(text):
    """No document makes the reader fail in another way, and none takes long."""

    def read():
        with contextlib.suppress(FlowError):
            source_of(text)

    assert calls(read) < 100_000


@given(st.text(max_size=40))
def test_any_characters_pass_the_scan_or_are_refused(text):
    """The scan raises nothing but its own refusal."""
    with contextlib.suppress(Refused):
        refuse_hostile(text)
