"""``for_each`` and ``ask`` in documents: what check says of them, and what they compile to."""

from __future__ import annotations

import pytest

from orchestrator import load_flow
from orchestrator.core.spec import ForEach, Inquiry
from orchestrator.flows.draw import draw
from orchestrator.flows.problems import Severity

CAST = """
from orchestrator import Verdict, role

@role(returns=None)
def maker(turn):
    return 1

@role(emits=(Verdict,))
def judge(turn):
    return Verdict(verdict="APPROVE", rationale="so")
"""
HEAD = """\
version: 1
name: kinds
cast: [cast.py]
args: {names: {type: any, default: []}}
nodes:
  scan: {role: maker, returns: {files: [str], rows: [{size: int}], title: str, n: int}}
"""


@pytest.fixture
def flow(tmp_path):
    def flow(nodes, tail=""):
        (tmp_path / "cast.py").write_text(CAST)
        path = tmp_path / "flow.yaml"
        path.write_text(f"{HEAD}  {nodes}\n{tail}")
        return load_flow(path)

    return flow


EACH = "after: [scan], for_each: scan.files, max: 3"
READ = f"x: {{role: maker, {EACH}, returns: {{a: str}}}}\n  y: {{role: maker, after: [x],"
FAULTS = [
    (f"x: {{role: maker, {EACH}}}", None),
    (f"x: {{role: maker, {EACH}, as: file, with: {{path: '${{file}}', n: '${{index}}'}}}}", None),
    ("x: {role: maker, for_each: args.names, max: 3, with: {a: '${item.any.thing}'}}", None),
    ("x: {role: maker, for_each: \"['a', 'b']\", max: 3}", None),
    (f"x: {{ask: 'Keep ${{item}}?', {EACH}}}", None),
    ("x: {role: maker, after: [scan], for_each: scan.files}", "7:35: x has for_each and no max"),
    ("x: {role: maker, after: [scan], max: 3}", "x has max and no for_each"),
    ("x: {role: maker, after: [scan], as: file}", "x has as and no for_each"),
    ("x: {role: maker, on_failure: skip}", "x has on_failure: skip and no for_each"),
    (f"x: {{role: maker, {EACH}, max: 0}}".replace(", max: 3", ""), "nodes.x.max is 0; write at least 1"),
    (f"x: {{role: judge, {EACH}, gate: true}}", "x is a gate and has for_each"),
    (f"x: {{role: maker, {EACH}, branch: talk}}", "its instances run at once"),
    (f"x: {{role: maker, {EACH}, as: scan}}", "'scan' is a node"),
    (f"x: {{role: maker, {EACH}, as: context}}", "has a meaning in expressions; try 'context_'"),
    (f"x: {{role: maker, {EACH}, as: a-b}}", "try 'a_b'"),
    ("x: {role: maker, for_each: scan.files, max: 3}", "scan is not before x"),
    (
        "x: {role: maker, after: [scan], for_each: scan.file, max: 3}",
        "scan has no 'file'; did you mean 'files'?",
    ),
    ("x: {role: maker, after: [scan], for_each: scan.title, max: 3}", "gives a text, not a list"),
    ("x: {role: maker, after: [scan], for_each: scan.n, max: 3}", "gives a number, not a list"),
    ("x: {role: maker, after: [scan], for_each: 'len(scan.files)', max: 3}", "not a list"),
    ("x: {role: maker, after: [scan], for_each: 'scan.files)', max: 3}", "7:"),
    ("x: {role: maker, instruction: '${item}'}", "there is no 'item' here: it belongs to an element"),
    ("x: {role: maker, when: 'index > 1'}", "there is no 'index' here: it belongs to an element"),
    (f"x: {{role: maker, {EACH}, as: file, instruction: '${{item}}'}}", "there is no 'item' here"),
    (f"x: {{role: maker, {EACH}, as: file, instruction: '${{fil}}'}}", "did you mean 'file'?"),
    ("x: {role: maker, after: [scan], for_each: scan.rows, max: 3, with: {a: '${item.size}'}}", None),
    (
        "x: {role: maker, after: [scan], for_each: scan.rows, max: 3, with: {a: '${item.sise}'}}",
        "item has no 'sise'; did you mean 'size'?",
    ),
    (f"x: {{role: maker, {EACH}, when: item}}", "gives a text, not true or false"),
    (f"{READ} when: 'x.failed > 0', with: {{a: '${{x[0].a}}'}}}}", None),
    (f"{READ} with: {{a: '${{x.a}}'}}}}", "x is a list; write a position such as [0]"),
    ("x: {role: maker}\n  y: {role: maker, after: [x], with: {a: '${x.failed}'}}", "x has no 'failed'"),
    ("x: {ask: 'Publish?', choices: [a, b], default: a, expires: 5m, show: hm}", None),
    (
        "x: {ask: 'Publish?', gate: true}\n  y: {role: maker, after: [x], when: \"x.verdict == 'APPROVE'\"}",
        None,
    ),
    ("x: {ask: 'Publish?', returns: {n: int}}\n  y: {role: maker, after: [x], with: {a: '${x.n}'}}", None),
    ("x: {ask: 'Publish ${scan.titel}?', after: [scan]}", "did you mean 'title'?"),
    ("x: {ask: 'Publish?', show: '${scan.titel}', after: [scan]}", "did you mean 'title'?"),
    ("x: {ask: 'Publish?', role: maker}", "x names a role and a question; give exactly one"),
    ("x: {ask: 'Publish?', operation: chat}", "x names an operation and a question"),
    ("x: {ask: 'Publish?', instruction: more}", "asks a person and has instruction"),
    ("x: {ask: 'Publish?', with: {a: 1}}", "asks a person and has with"),
    ("x: {ask: 'Publish?', retry: 2}", "asks a person and has retry"),
    (
        "x: {ask: 'Publish?', timeout: 5s}",
        "asks a person and has timeout, which only roles have; use expires",
    ),
    ("x: {ask: 'Publish?', expires: 5m}", "it expires and has no default"),
    ("x: {ask: 'Publish?', choices: [a], default: b}", 'the default "b" is not one of a'),
    ("x: {ask: 'Publish?', gate: true, choices: [fine]}", "the choices of a gate are verdicts"),
    ("x: {ask: 'Publish?', expires: soon}", "90s"),
    ("x: {ask: ''}", "nodes.x.ask"),
    ("x: {role: maker, choices: [a]}", "x has choices and no ask"),
    ("x: {role: maker, show: a}", "x has show and no ask"),
    ("x: {role: maker, default: null}", "x has default and no ask"),
]


@pytest.mark.parametrize(("nodes", "message"), FAULTS)
def test_checks(flow, nodes, message):
    """flows.md, Checks: each key says what it belongs to, each name what it means; both arms."""
    found = [
        f"{one.line}:{one.column}: {one.message}"
        for one in flow(nodes).check()
        if one.severity is Severity.ERROR
    ]
    if message is None:
        assert found == []
    else:
        assert any(message in one for one in found), found


def test_the_defaults_of_a_document_are_not_a_question_s(flow):
    """``defaults`` speak of roles; a person has no attempts."""
    made = flow("x: {ask: 'Publish?'}", "defaults: {retry: 3, timeout: 5s}\n").graph.operations["x"]
    assert (made.retry, made.timeout) == (None, None)


def test_what_they_compile_to(flow):
    """One builder call per node: the document says what create_operation is told."""
    graph = flow(
        f"x: {{role: maker, {EACH}, as: file, on_failure: skip}}\n"
        "  y: {ask: 'Keep ${len(x)}?', after: [x], choices: ['y', 'n'], default: 'n', expires: 2m, show: hm}",
        "on_failure: stop\n",
    ).graph
    made = graph.operations
    assert made["x"].for_each == ForEach(over="scan.files", max=3, name="file", skip=True)
    assert (made["x"].stop_on_failure, made["y"].stop_on_failure) == (False, True)
    assert made["y"].verb == "ask"
    assert made["y"].inquiry == Inquiry(
        choices=("y", "n"), expires=120.0, default=made["y"].inquiry.default, show="hm"
    )
    assert bytes(made["y"].inquiry.default) == b'"n"'


def test_the_sentences(flow):
    """check prints how often a node runs, and who is asked."""
    told = flow(
        f"x: {{role: maker, {EACH}}}\n"
        f"  y: {{role: maker, {EACH}, when: \"item != 'a'\"}}\n"
        f"  z: {{ask: 'Keep ${{item}}?', {EACH}, when: 'len(scan.files) > 1'}}\n"
        "  p: {ask: 'Publish?', after: [x]}"
    ).sentences()
    assert told["x"] == "x runs once per element of scan.files, at most 3, if scan completed"
    assert told["y"] == (
        "y runs once per element of scan.files, at most 3, where item != 'a', if scan completed"
    )
    assert told["z"] == (
        "z asks a person once per element of scan.files, at most 3, if scan completed and len(scan.files) > 1"
    )
    assert told["p"] == "p asks a person if x completed"


def test_the_drawing(flow):
    """A node of many and a question are drawn as such, in text and for mermaid."""
    drawn = flow(f"x: {{role: maker, {EACH}}}\n  p: {{ask: 'Publish?', after: [x]}}")
    text, mermaid = draw(drawn), draw(drawn, "mermaid")
    assert "x (maker) for each of scan.files, at ... *" in text
    assert "p (ask) ?" in text
    assert '[/"x (maker) for each of scan.files, at most 3"/]' in mermaid
    assert '>"p (ask)"]' in mermaid
