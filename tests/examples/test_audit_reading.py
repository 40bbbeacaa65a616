"""Files as they are met: broken, binary, huge, deep, foreign. None of them stops an audit."""

from __future__ import annotations

import sys

import pytest


def only(analysis, data, path="m.py"):
    """The one issue of these bytes."""
    (issue,) = analysis.inspect_bytes(path, data).issues
    return issue


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (b"\x7fELF\x00\x01", 1, "null bytes"),
        ("x = 1".encode("utf-16"), 1, "null bytes"),
        (b"x = 1\ny = '\xff'\n", 2, "0xff"),
        (b"# coding: no-such\nx = 1\n", 1, "encoding"),
        (b"\xef\xbb\xbf# coding: latin-1\nx = 1\n", 1, "encoding"),
    ],
)
def test_bytes_that_are_no_text(analysis, data, line, says):
    """A binary is a finding with a line, not a crash."""
    issue = only(analysis, data)
    assert (issue.check, issue.line, issue.severity) == ("not-text", line, "medium")
    assert says in issue.text


def test_latin_1_is_read_as_it_says(analysis):
    """A declared encoding is respected."""
    assert not analysis.inspect_bytes("_m.py", b"# coding: latin-1\nx = '\xe9'\n").issues


def test_a_byte_order_mark_and_every_line_end(analysis):
    """BOM, CR, CRLF: lines are counted as an editor counts them."""
    issues = analysis.inspect_bytes("_m.py", b"\xef\xbb\xbfx = 1\r\ny = 2\rexec(z)\n").issues
    assert [(i.check, i.line) for i in issues] == [("dynamic-code", 3)]


def test_form_feeds_are_no_lines(analysis):
    """`str.splitlines` would count them."""
    issues = analysis.inspect_bytes("_m.py", b"x = 1\n\x0c\nexec(z)  # audit: ignore\nexec(y)\n").issues
    assert [(i.check, i.line) for i in issues] == [("dynamic-code", 4)]


def test_a_syntax_error_says_where(analysis):
    """The line is the parser's."""
    issue = only(analysis, b"x = 1\n\nprint 'no'\n")
    assert (issue.check, issue.line, issue.severity, issue.confidence) == ("syntax-error", 3, "high", 1.0)


@pytest.mark.parametrize(
    ("path", "severity"), [("a.py", "high"), ("tests/data/bad.py", "low"), ("tests/test_a.py", "high")]
)
def test_a_broken_sample_of_a_test_is_mild(analysis, path, severity):
    """Files beside tests are often broken on purpose; a test that cannot be parsed never runs."""
    assert only(analysis, b"def f(:", path).severity == severity


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 5_000 + ")" * 5_000,
        "x = " + "[" * 150 + "]" * 150,
        "x = " + "-" * 100_000 + "1",
        "x = " + "+".join(["1"] * 20_000),
        "a" + ".b" * 20_000,
        "\n".join(f"{' ' * i}if x:" for i in range(150)),
        "x = " + "1" * 10_000,
        "if x: pass\n" + "elif x: pass\n" * 3_000,
        "f(" * 90 + ")" * 90,
    ],
    ids=["parens", "lists", "minus", "plus", "dots", "indent", "digits", "elif", "calls"],
)
def test_depth_is_no_crash(analysis, text):
    """Bad inputs 29: what the parser takes is checked without recursion, the rest is one finding."""
    result = analysis.inspect_bytes("_m.py", text.encode())
    assert {i.check for i in result.issues} <= {
        "too-deep",
        "syntax-error",
        "unreachable",
        "complex-function",
        "long-file",
    }


FLOODS = {
    "exec": "x = f()\n" + "exec(x)\n" * 5_000,
    "shell": "import os\n" + "x = 'ls'\n" * 5_000 + "os.system(x)\n" * 5_000,
    "closures": "for x in y:\n" + "  def f(): return x\n  fs.append(f)\n" * 5_000,
    "coroutines": "async def g(): ...\nasync def h():\n" + "  g()\n" * 5_000,
    "removals": "for x in y:\n" + "  y.remove(x)\n" * 5_000,
}


@pytest.mark.parametrize("text", FLOODS.values(), ids=FLOODS)
def test_many_of_a_kind_cost_linear_time(analysis, text):
    """Bad inputs 44: a generated module takes a second, not minutes; nothing here waits for a clock."""
    assert analysis.inspect_bytes("_m.py", text.encode()).issues


def test_a_deep_chain_in_finally(analysis):
    """What the parser takes is walked without recursion."""
    chain = "    if a: return 1\n" + "    elif b: return 2\n" * 300
    issues = analysis.inspect_bytes("_m.py", f"def f():\n  try: g()\n  finally:\n{chain}".encode()).issues
    assert {"jump-in-finally"} <= {i.check for i in issues}


def test_recursion_limit_is_left_alone(analysis):
    """The process is not changed by what it looks at."""
    before = sys.getrecursionlimit()
    analysis.inspect_bytes("m.py", ("x = " + "-" * 100_000 + "1").encode())
    assert sys.getrecursionlimit() == before


def test_an_empty_module_has_no_findings(analysis):
    """Nothing to say about nothing."""
    assert not analysis.inspect_bytes("m.py", b"").issues


def test_too_large_is_a_finding(analysis, tmp_path):
    """A file that grew since the scout saw it is bounded too."""
    with (tmp_path / "m.py").open("wb") as stream:
        stream.truncate(3 * 1024 * 1024)
    (issue,) = analysis.inspect_file(tmp_path, "m.py").issues
    assert issue.check == "too-large"


def test_a_file_that_went_away_is_a_finding(analysis, tmp_path):
    """Between scout and inspector anything may happen."""
    (issue,) = analysis.inspect_file(tmp_path, "gone.py").issues
    assert (issue.check, issue.line) == ("not-readable", 1)


def test_a_flood_is_bounded(analysis):
    """Forty of a kind are shown, the rest is a number, and the gate still sees the serious ones."""
    issues = analysis.inspect_bytes("_m.py", b"exec(x)\n" * 500).issues
    assert len(issues) == 41
    assert "460 more" in issues[-1].text
    assert issues[0].severity == "high"


def test_the_same_text_gives_the_same_issues(analysis):
    """Order is line, check, text; no set order shows through."""
    text = b"import os, sys, re\ndef f(id, type, input=[]):\n    exec(id)\n"
    runs = {analysis.inspect_bytes("m.py", text) for _ in range(3)}
    assert len(runs) == 1
    issues = runs.pop().issues
    assert list(issues) == sorted(issues, key=lambda i: (i.line, i.check, i.text))
