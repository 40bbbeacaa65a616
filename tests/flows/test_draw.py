"""Drawings: ASAP columns, escaped labels, what each verdict does."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from emissions import Finding, SpawnRequest, Verdict
from orchestrator.core.spec import Gate, Undecided
from orchestrator.errors import OperationError
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.conditions import EdgeCondition
from orchestrator.flows.draw import Arrow, Box, columns, draw, draw_mermaid, draw_text, picture
from orchestrator.flows.flow import load_flow
from roles import role


@role(emits=(SpawnRequest, Finding))
def scout(turn): ...


@role(emits=(Verdict,))
def critic(turn): ...


class Sure(EdgeCondition):
    def apply(self, result, context):
        return True


def made():
    builder = OperationGraphBuilder("demo")
    builder.add_operation(scout)
    builder.add_operation(node_id="write", depends_on=["scout"])
    builder.add_operation(critic, "review", ["scout"], gate=Gate(refuse_on=("REJECT", "REQUEST-CHANGES")))
    builder.add_operation(node_id="publish", depends_on=["write"], when="write.text == 'x'")
    builder.add_edge(
        "review", "publish", when="result.verdict == 'APPROVE'", label="yes", accept=["completed"]
    )
    builder.add_operation(critic, "plain", ["review"], when=Sure())
    return builder.get_graph()


def test_text():
    """What can start together stands in one column; conditions, gates and verdicts are told."""
    shown = draw(made())
    rows = shown.splitlines()
    assert re.split(r"\s+->\s+", rows[0]) == [
        "scout",
        "write (operate)",
        "publish (operate) if write.text == 'x'",
    ]
    assert rows[1].split() == ["review", "(critic)", "<gate>", "plain", "(critic)"]
    assert "publish <- write, review [yes: result.verdict == 'APPROVE']" in rows
    assert "plain <- review [Sure]" in rows
    assert "  APPROVE: opens publish, plain" in rows
    assert "  APPROVE-WITH-FIXES: opens publish, plain" in rows
    assert "  REQUEST-CHANGES: vetoes publish, plain" in rows
    assert "  REJECT: vetoes publish, plain" in rows
    assert "scout may emit SpawnRequest (acts), Finding (recorded)" in rows
    assert "review may emit Verdict (acts)" in rows
    assert "plain may emit Verdict (recorded)" in rows


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        (Gate(), "without a verdict: holds them"),
        (Gate(on_undecided=Undecided.REJECT), "without a verdict: counts as REJECT"),
        (Gate(on_undecided=Undecided.PASS), "without a verdict: nothing: it has no dependents"),
        (Gate(refusals=2, back_to="x"), "REJECT: sends the work back to x, 2 times, then"),
    ],
)
def test_gates(gate, told):
    """What each answer does, at each kind of gate."""
    builder = OperationGraphBuilder()
    builder.add_operation(critic, gate=gate)
    assert told in draw(builder.get_graph())


def test_mermaid():
    """Generated ids, quoted labels, shapes for gates, conditions on edges."""
    assert draw(made(), "mermaid").splitlines() == [
        "flowchart LR",
        '  n0["scout"]',
        '  n1["write (operate)"]',
        '  n2{{"review (critic)"}}',
        "  n3[\"publish (operate) if write.text == 'x'\"]",
        '  n4["plain (critic)"]',
        "  n0 --> n1",
        "  n0 --> n2",
        "  n1 --> n3",
        "  n2 -->|\"yes: result.verdict == 'APPROVE'\"| n3",
        '  n2 -->|"Sure"| n4',
    ]


def test_other_forms_are_refused():
    """One line that names the forms."""
    with pytest.raises(OperationError, match="text or mermaid"):
        draw(made(), "svg")


HARD = [
    "a[b]",
    '"q"',
    "end",
    "graph",
    "<b>",
    "a|b",
    "a\nb",
    "🎭",
    "a b",
    "a_b",
    "`x`",
    "#quot;",
    "&lt;",
    "\\",
    "\x1b[31m",
    "",
    "}}",
]


def test_names_cannot_break_a_drawing():
    """DRAW 148: distinct ids, label shown as written, nothing that a terminal obeys."""
    boxes = [Box(name, name) for name in HARD]
    arrows = [Arrow(HARD[0], name, name) for name in HARD[1:]]
    lines = draw_mermaid(boxes, arrows).splitlines()
    assert len(lines) == 1 + len(boxes) + len(arrows)
    unescape = {
        "#quot;": '"',
        "#35;": "#",
        "#lt;": "<",
        "#gt;": ">",
        "#amp;": "&",
        "#96;": "`",
        "#92;": "\\",
        "<br/>": "\n",
    }
    for number, (line, name) in enumerate(zip(lines[1:], HARD, strict=False)):
        match = re.fullmatch(r'  n(\d+)\["([^"]*)"\]', line)
        assert match, line
        assert int(match[1]) == number
        shown = re.sub(r"#\w+;|<br/>", lambda found: unescape[found[0]], match[2])
        assert shown == name.replace("\x1b", "\\x1b")
    text = draw_text(boxes, arrows)
    assert "\x1b" not in text
    assert "a\\nb" in text


@given(st.lists(st.text(max_size=8), unique=True, max_size=6))
def test_any_names_make_wellformed_lines(names):
    """One line per node in mermaid, whatever the name."""
    lines = draw_mermaid([Box(name, name) for name in names], []).splitlines()
    assert len(lines) == 1 + len(names)
    assert all(re.fullmatch(r'  n\d+\["[^"\n]*"\]', line) for line in lines[1:])
    draw_text([Box(name, name) for name in names], [])


def test_a_run_is_drawn_from_the_same_parts():
    """DRAW 149, 150: statuses, grown nodes and rounds are told apart; an unknown end is drawn as unknown."""
    boxes = [
        Box("a", "a", "completed"),
        Box("a.x-1", "a.x-1", "failed", "grown"),
        Box("b@2", "b@2", "vetoed", "round"),
    ]
    arrows = [Arrow("a", "a.x-1"), Arrow("a.x-1", "b@2"), Arrow("a", "gone")]
    text = draw_text(boxes, arrows)
    assert text.splitlines()[0] == "a [completed]  ->  a.x-1 + [failed]  ->  b@2 @ [vetoed]"
    mermaid = draw_mermaid(boxes, arrows)
    assert '  n1(["a.x-1<br/>failed"])' in mermaid
    assert '  n2[["b@2<br/>vetoed"]]' in mermaid
    assert '  n3["gone (unknown)"]' in mermaid
    assert "  n0 --> n3" in mermaid
    assert draw_text([], []) == "(nothing to draw)"


def test_every_edge_is_drawn():
    """DRAW 149: the picture has the definition's edges, all of them and no other."""
    graph = made()
    _, arrows = picture(graph)
    assert [(one.source, one.target) for one in arrows] == [(one.source, one.target) for one in graph.edges]


def test_columns():
    """The earliest column that the predecessors allow; a cycle is drawn, not hung in."""
    assert columns("abcd", [("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")]) == [["a", "d"], ["b"], ["c"]]
    assert columns("abc", [("a", "b"), ("b", "a"), ("b", "c")]) == [["a"], ["b"], ["c"]]
    assert columns("", []) == []
    assert columns("a", [("a", "a"), ("a", "z")]) == [["a"]]


@given(
    st.integers(1, 8).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    )
)
def test_columns_hold_every_node_once_and_respect_order(drawn):
    """Forward edges go to the right, whatever else there is."""
    count, edges = drawn
    found = columns(range(count), sorted(edges))
    assert sorted(name for column in found for name in column) == list(range(count))
    if all(a < b for a, b in edges):
        at = {name: number for number, column in enumerate(found) for name in column}
        assert all(at[a] < at[b] for a, b in edges)
        assert all(at[b] == 0 or any(at[a] == at[b] - 1 for a, c in edges if c == b) for b in range(count))


def test_edges_survive_being_saved_and_read(tmp_path):
    """DRAW 151: an edge is data: all are there each time; one to nothing is reported, not dropped."""
    path = tmp_path / "flow.yaml"
    nodes = "".join(
        f"  n{i}: {{role: critic, after: [{', '.join(f'n{j}' for j in range(i))}]}}\n" for i in range(6)
    )
    path.write_text(f"version: 1\nname: demo\nnodes:\n{nodes}")
    edges = load_flow(path).graph.edges
    assert len(edges) == 15
    yaml = YAML()
    for _ in range(50):
        path.write_text(_dumped(yaml, yaml.load(path.read_text())))
        assert load_flow(path).graph.edges == edges
    data = yaml.load(path.read_text())
    data["nodes"]["n5"]["after"].append("nowhere")
    path.write_text(_dumped(yaml, data))
    assert any(
        "comes after 'nowhere', which does not exist" in one.message for one in load_flow(path).check()
    )


def _dumped(yaml, data):
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()
