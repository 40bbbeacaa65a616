"""Documents that check passes run, and do what the page says: values as text, ways, branches, shapes."""

from __future__ import annotations

import pytest

from orchestrator import Session, run_sync
from orchestrator.flows.flow import load_flow
from orchestrator.flows.problems import Severity

CAST = """
from pydantic import BaseModel
from roles import role

class Report(BaseModel):
    title: str
    pages: int = 1

@role()
def gives(turn):
    return turn.parameters["value"]

@role()
def says(turn):
    return turn.instruction

@role()
def fails(turn):
    raise ValueError("no")

@role()
def talks(turn):
    return turn.branch.name
"""


@pytest.fixture
def ran(tmp_path):
    def ran(text, **options):
        (tmp_path / "cast.py").write_text(CAST)
        path = tmp_path / "flow.yaml"
        head = "version: 1\nname: demo\n" + ("" if text.startswith("cast:") else "cast: [cast.py]\n")
        path.write_text(head + text)
        problems = load_flow(path).check()
        assert not [one for one in problems if one.severity is Severity.ERROR]
        return run_sync(path, **options)

    return ran


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("{text: inner, b: 1}", "inner"),
        ("{b: [1, 2]}", '{"b":[1,2]}'),
        ("[1, null]", "[1,null]"),
        ("12", "12"),
        ("null", "null"),
        ("''", ""),
    ],
)
def test_every_value_has_a_text(ran, value, text):
    """check lets ``${x.text}`` of a node without returns pass, and the run gives it one."""
    result = ran(
        f"nodes:\n  x: {{role: gives, with: {{value: {value}}}}}\n"
        "  y: {role: says, after: [x], instruction: '<${x.text}>', when: len(x.text) >= 0}\n"
        "outputs: {o: '<${x.text}>'}\n"
    )
    assert (result["y"].value, result.outputs["o"]) == (f"<{text}>", f"<{text}>")


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        ("says", "says", "says", "completed"),
        ("fails", "says", "says", "skipped"),
        ("says", "fails", "says", "completed"),
        ("says", "fails", "fails", "skipped"),
    ],
)
def test_after_and_edges_of_one_node(ran, a, b, c, expected):
    """flows.md: ``after`` is a conjunction; of the edges a node needs one as well."""
    result = ran(
        f"nodes:\n  a: {{role: {a}}}\n  b: {{role: {b}}}\n  c: {{role: {c}}}\n"
        "  d: {role: says, after: [a]}\n"
        "edges: [{from: b, to: d}, {from: c, to: d, when: \"status == 'completed'\"}]\n"
    )
    assert result["d"].status == expected


@pytest.mark.parametrize(("taken", "status"), [("true", "completed"), ("false", "skipped")])
def test_a_false_way_skips_and_a_skipped_predecessor_does_not(ran, taken, status):
    """A way that is not taken is not discounted; a skipped entry of after beside another is."""
    result = ran(
        "nodes:\n  a: {role: says, when: len('') > 0 or exists(context.none)}\n  b: {role: says}\n"
        "  c: {role: says}\n  d: {role: says, after: [a, b]}\n"
        f"edges: [{{from: c, to: d, when: {taken} and exists(c)}}]\n"
    )
    assert (result["a"].status, result["d"].status) == ("skipped", status)


def test_emissions_and_ancestors_in_the_condition_of_an_edge(ran):
    """What a node's condition can name, an edge's can too."""
    result = ran(
        "nodes:\n  a: {role: gives, with: {value: {k: 1}}, returns: {k: int}}\n"
        "  b: {role: says, after: [a]}\n  c: {role: says}\n"
        "edges: [{from: b, to: c, when: len(emissions.Finding) == 0 and a.k == 1 and exists(b)}]\n"
    )
    assert result["c"].status == "completed"


def test_a_document_makes_the_branch_that_its_nodes_name(ran):
    """No session has to have it."""
    result = ran("nodes:\n  a: {role: talks, branch: talk}\n  b: {role: talks, branch: talk, after: [a]}\n")
    assert [result[name].value for name in "ab"] == ["talk", "talk"]


@pytest.mark.parametrize(
    ("value", "fault"), [("{title: a}", None), ("{title: 3}", "title is int"), ("{}", "no 'title'")]
)
def test_a_model_in_code_is_what_a_value_is_checked_against(ran, value, fault):
    """returns: module:Model; its defaults are filled in."""
    result = ran(f"nodes: {{a: {{role: gives, with: {{value: {value}}}, returns: 'cast:Report'}}}}")
    if fault is None:
        assert result["a"].value == {"title": "a", "pages": 1}
    else:
        assert fault in result["a"].error.message


async def test_a_session_runs_what_it_registers(tmp_path):
    """An operation of the session is no unknown one in its documents."""
    path = tmp_path / "flow.yaml"
    path.write_text("version: 1\nname: demo\nnodes: {a: {operation: hold}}\n")

    async def hold(turn):
        return 7

    async with Session() as session:
        session.register_operation("hold", hold)
        assert (await session.flow(path))["a"].value == 7


def test_what_a_role_says_is_no_template(ran, tmp_path):
    """COND: a reason with a placeholder in it is shown to the next tier as it was said."""
    more = """
from orchestrator import EscalationRequest, role

@role(emits=(EscalationRequest,), escalates_to="says")
def stuck(turn):
    return EscalationRequest(reason="I saw ${args.key} and $${this", context={"open": "${"})
"""
    (tmp_path / "more.py").write_text(more)
    result = ran(
        "cast: [cast.py, more.py]\nargs: {key: {default: hidden}}\nnodes:\n"
        "  first: {role: stuck, instruction: 'with ${args.key}'}\n  next: {role: says, after: [first]}\n"
    )
    assert result.ok, result.detail
    told = result["first+1"].value
    assert told.endswith("with hidden")
    assert "I saw ${args.key} and $${this" in told
    assert '{"open":"${"}' in told


def test_a_value_that_nobody_describes_may_be_anything(ran):
    """COND: without ``returns`` a function may give a number or a list; only fields have to be declared."""
    result = ran(
        "nodes:\n  five: {role: gives, with: {value: 5}}\n  some: {role: gives, with: {value: [1, 2]}}\n"
        "  once: {role: gives, after: [five], when: 'five == 5', with: {value: yes_}}\n"
        "  never: {role: gives, after: [five], when: 'five > 5', with: {value: no_}}\n"
        "  each: {role: gives, after: [some], for_each: some, max: 3, with: {value: '${item}'}}\n"
    )
    assert result.ok, result.detail
    assert result["once"].value == "yes_"
    assert result["never"].status == "skipped"
    assert result["each"].value == [1, 2]
