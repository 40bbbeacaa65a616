"""The document: what check says, with places; what load and bind refuse."""

from __future__ import annotations

import json
import os

import pytest

from orchestrator.core.spec import Budget
from orchestrator.errors import FlowError
from orchestrator.flows.document import Document, flow_schema
from orchestrator.flows.flow import load_flow
from orchestrator.flows.problems import Problem, Severity

CAST = """
from emissions import Finding, SpawnRequest, Verdict
from roles import Role, role

@role(emits=(SpawnRequest, Finding))
def scanner(turn): ...

@role(emits=(Verdict,))
def judge(turn): ...

@role()
def maker(turn): ...

typed = Role(name="typed", returns=dict[str, int])
"""
HEAD = "version: 1\nname: demo\ncast: [cast.py]\nbudget: {spawns: 3}\n"


@pytest.fixture
def write(tmp_path):
    (tmp_path / "cast.py").write_text(CAST)

    def write(text, name="flow.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def told(write):
    def told(text, severity=Severity.ERROR):
        flow = load_flow(write(text))
        return [f"{one.line}:{one.column}: {one.message}" for one in flow.check() if one.severity is severity]

    return told


GOOD = """\
# yaml-language-server: $schema=flow.schema.json
version: 1
name: release_review
description: Draft, review and publish a change note.
cast: [cast.py]
args:
  repo: {type: path, required: true, help: Repository to look at}
  depth: {type: int, default: 2}
  mode: {enum: [fast, slow], default: fast}
context:
  findings: {reduce: extend}
budget: {concurrency: 4, spawns: "${args.depth}", depth: 3, escalations: 2, wall_clock: 30m, cost_usd: 2.50}
limits: {roles: {maker: 2}, names: {db: 1}}
defaults: {retry: 2, timeout: 90s}
nodes:
  scan: {role: scanner, instruction: "List ${args.repo}", returns: {summary: str, files: [str]}}
  draft: {role: maker, after: [scan], instruction: "Use ${scan.summary}", with: {files: "${scan.files}"}}
  audit: {role: maker, after: [scan], returns: {severity: {enum: [none, low, critical]}, why: str}, retry: 1}
  review:
    {role: judge, after: [draft, audit], gate: {refuse_on: [REJECT, REQUEST-CHANGES], on_undecided: reject}}
  publish:
    role: maker
    after: [review, {node: audit, accept: [completed, failed]}]
    when: "default(audit.severity, 'none') != 'critical' and review.verdict == 'APPROVE'"
    instruction: "Publish: ${draft.text} ${emissions.Finding} ${context.findings}"
    timeout: 2h
    uses: [db]
    on_failure: stop
outputs: {note: "${publish.text}", by: "${nodes['draft'].status}"}
"""


def test_a_good_document_is_silent(write):
    """Both arms begin here: no error, no warning, no note."""
    assert load_flow(write(GOOD)).check() == []


def test_sentences(write):
    """check prints, per node, when it runs."""
    found = load_flow(write(GOOD)).sentences()
    assert found["scan"] == "scan runs at the start"
    assert found["review"] == "review runs if draft and audit completed"
    assert found["publish"] == (
        "publish runs if review completed and audit completed or failed and "
        "default(audit.severity, 'none') != 'critical' and review.verdict == 'APPROVE'"
    )


def test_binding(write):
    """Arguments become JSON data, placeholders of the budget numbers, limits resources."""
    flow = load_flow(write(GOOD))
    bound = flow.bind({"repo": "/x", "depth": "7"})
    assert bound.args == {"repo": "/x", "depth": 7, "mode": "fast"}
    assert bound.budget == Budget(
        concurrency=4, spawns=7, depth=3, escalations=2, wall_clock=1800.0, cost_usd=2.5,
        assignees=("scanner", "maker", "judge", "typed"),
    )  # fmt: skip
    assert bound.limits == {"role:maker": 2, "name:db": 1}
    assert bound.reducers == {"findings": "extend"}
    assert bound.outputs == {"note": "${publish.text}", "by": "${nodes['draft'].status}"}
    assert "scanner" in bound.roles
    assert len(bound.graph) == 5
    assert (flow.name, flow.description, list(flow.args)) == (
        "release_review", "Draft, review and publish a change note.", ["repo", "depth", "mode"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "required and not given: repo"),
        ({"repo": "/x", "rep": 1}, "no argument 'rep'; did you mean 'repo'"),
        ({"repo": "/x", "depth": "two"}, "not a whole number"),
        ({"repo": "/x", "depth": "1_0"}, "not a whole number"),
        ({"repo": "/x", "depth": True}, "not a whole number"),
        ({"repo": "/x", "depth": 2**70}, "64 bits"),
        ({"repo": "/x", "depth": -1}, "budget.spawns is -1"),
        ({"repo": ""}, "not a path"),
        ({"repo": 3}, "not a path"),
        ({"repo": "/x", "mode": "medium"}, "write one of fast, slow"),
    ],
)
def test_arguments_that_do_not_fit(write, args, message):
    """Exit 2 material: one line that names the argument."""
    with pytest.raises(FlowError, match=message):
        load_flow(write(GOOD)).bind(args)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("str", [("x", "x"), ("1", "1")], [1, None, True]),
        ("int", [("12", 12), (3, 3), (" -4 ", -4)], ["1.0", "", 1.5, False, "0x1"]),
        ("float", [("1.5", 1.5), (2, 2.0), ("1e3", 1000.0)], ["nan", "inf", "x", True, "1_0", None]),
        ("bool", [("true", True), ("false", False), (True, True)], ["yes", "no", 1, "True", ""]),
        ("path", [("a/b", "a/b")], ["", None, "a\0b"]),
        (
            "any",
            [('{"a": [1]}', {"a": [1]}), ("plain", "plain"), ([1], [1]), (None, None)],
            [object(), float("nan")],
        ),
    ],
)
def test_argument_types(write, kind, good, bad):
    """Texts of a command line and values of code, by the document's type; nothing is guessed."""
    flow = load_flow(
        write(f"{HEAD}args: {{a: {{type: {kind}, required: true}}}}\nnodes: {{x: {{role: maker}}}}")
    )
    for given, expected in good:
        found = flow.bind({"a": given}).args["a"]
        assert found == expected
        assert type(found) is type(expected)
    for given in bad:
        with pytest.raises(FlowError, match="argument a"):
            flow.bind({"a": given})


SCHEMA_FAULTS = [
    ("nodes: {x: {role: maker, gate: no}}", "quote it"),
    ('nodes: {x: {role: maker, gate: "false"}}', "gate is 'false'; write true or a mapping (without quotes)"),
    ("nodes: {x: {role: maker, gate: false}}", "gate is False; write true or a mapping"),
    ("budget: {spawns: 1e3}\nnodes: {x: {role: maker}}", "quote it"),
    ("budget: {spawns: -1}\nnodes: {x: {role: maker}}", "spawns is -1; write at least 0"),
    (
        "budget: {spawns: true}\nnodes: {x: {role: maker}}",
        "spawns is True; write a whole number or ${args.NAME}",
    ),
    ("budget: {spawns: 1.5}\nnodes: {x: {role: maker}}", "spawns is 1.5; write a whole number"),
    ("budget: {concurrency: 0}\nnodes: {x: {role: maker}}", "at least 1"),
    ("budget: {wall_clock: 30}\nnodes: {x: {role: maker}}", None),
    ("budget: {wall_clock: soon}\nnodes: {x: {role: maker}}", "90s, 30m or 2h"),
    ("budget: {max_spawn: 1}\nnodes: {x: {role: maker}}", "has no key 'max_spawn'"),
    ("nodes: {x: {role: maker, gate: 1}}", "gate is 1; write true or a mapping"),
    ("nodes: {x: {role: null}}", "give it a role, an operation or a flow"),
    ("nodes: {x: {role: maker, aftr: [y]}}", "did you mean 'after'?"),
    ("nodes: {x: {role: maker, after: y}}", "after is 'y'; write a list: [y]"),
    ("nodes: {x: {role: maker, after: 'y, z'}}", "write a list: [y, z]"),
    ("nodes: {x: {role: maker, after: {node: y}}}", "write a list: [{...}]"),
    ("nodes: {x: {role: maker, uses: db}}", "write a list: [db]"),
    ("nodes: {x: {role: maker, description: 3}}", "write a text: '3'"),
    ("nodes: {x: {role: maker, asks: 1}}", "asks is 1; write true or false"),
    ("nodes: {x: {role: maker, after: [3]}}", "a text"),
    ("nodes: {x: {role: maker, after: [{nod: y}]}}", "lacks the key 'node'"),
    ("nodes: {x: {role: maker, retry: 0}}", "at least 1"),
    ("nodes: {x: {role: maker, retry: {backoff: 1s}}}", "lacks the key 'attempts'"),
    ("nodes: {x: {role: maker, retry: three}}", "a whole number or a mapping"),
    ("nodes: {x: {role: maker, timeout: -3}}", "90s, 30m or 2h"),
    ("nodes: {x: {role: maker, fresh: 1}}", "true or false"),
    ("nodes: {x: {role: maker, instruction: 3}}", "a text"),
    ("nodes: {x: {role: maker, gate: {refuse_on: [APPROVE]}}}", "'REJECT'"),
    ("nodes: {x: {role: maker, gate: {refuse: 1}}}", "did you mean 'refuse_on'?"),
    ("nodes: {x: 3, y: {role: maker}}", "a mapping"),
    ("args: {a: {typ: int}}\nnodes: {x: {role: maker}}", "did you mean 'type'?"),
    ("args: {a: {type: integer}}\nnodes: {x: {role: maker}}", "'int'"),
    ("nodse: 1\nnodes: {x: {role: maker}}", "did you mean 'nodes'?"),
    ("outputs: {a: 3}\nnodes: {x: {role: maker}}", "a text"),
]


@pytest.mark.parametrize(("text", "message"), SCHEMA_FAULTS)
def test_the_schema_is_strict(told, text, message):
    """bad-inputs 33, YAML 141-144: each names the path and the accepted form, at its place."""
    head = HEAD.replace("budget: {spawns: 3}\n", "") if text.startswith("budget") else HEAD
    found = told(head + text)
    if message is None:
        assert found == []
        return
    assert any(message in one for one in found), found


@pytest.mark.parametrize("version", ["1.10", "1.0", "0", "'1'", "true", "null"])
def test_only_version_1_is_read(told, version):
    """bad-inputs 33: an odd version is refused by name."""
    found = told(f"version: {version}\nname: d\ncast: [cast.py]\nnodes: {{x: {{role: maker}}}}")
    assert any("version is" in one and "write 1" in one for one in found)


@pytest.mark.parametrize(
    "text", ["[]", "x", "3", "nodes: {}", "version: 1\nname: x", "version: 1\nname: x\nnodes: []"]
)
def test_a_document_of_which_nothing_fits_is_refused_at_load(write, text):
    """load_flow raises for what cannot be used at all, with a place."""
    with pytest.raises(FlowError) as caught:
        load_flow(write(text))
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        ("{refusals: 2, back_to: w}", None),
        ("{refusals: 2}", None),
        ("{refusals: 2, back_to: ww}", "back_to of x names 'ww', which does not exist; did you mean 'w'?"),
        ("{refusals: 2, back_to: y}", "back_to of x names 'y', which is not before it; before it: w"),
        ("{refusals: 2, back_to: x}", "back_to of x names 'x', which is not before it; before it: w"),
        ("{back_to: w}", "back_to of x says nothing without refusals; write how often: refusals: 1"),
        ("{refusals: -1}", "nodes.x.gate.refusals is -1; write at least 0"),
        ("{refusals: '${args.n}', back_to: w}", "there is no argument 'n'"),
        ("{refusal: 1}", "nodes.x.gate has no key 'refusal'; did you mean 'refusals'?"),
    ],
)
def test_refusals_of_a_gate(told, gate, says):
    """flows.md, checks: ``back_to`` is an ancestor of its gate; each fault names what to write."""
    nodes = (
        f"w: {{role: maker}}, x: {{role: judge, after: [w], gate: {gate}}}, y: {{role: maker, after: [x]}}"
    )
    found = told(f"{HEAD}nodes: {{{nodes}}}\n")
    assert (says is None) is (found == []), found
    assert says is None or says in found[0]


def test_a_gate_with_nothing_to_send_back(told):
    """kernel 5: refusals of a gate that stands first are a mistake, and told as one."""
    nodes = "x: {role: judge, gate: {refusals: 1}}, y: {role: maker, after: [x]}"
    assert "x has refusals and nothing before it" in told(f"{HEAD}nodes: {{{nodes}}}\n")[0]


def test_two_gates_that_send_the_same_back(told):
    """A warning: two gates side by side would each have the work made anew; in a line they do not."""
    nodes = (
        "w: {role: maker}, x: {role: judge, after: [w], gate: {refusals: 1}}, "
        "y: {role: judge, after: [%s], gate: {refusals: 1, back_to: w}}, z: {role: maker, after: [x, y]}"
    )
    beside = told(f"{HEAD}nodes: {{{nodes % 'w'}}}\n", Severity.WARNING)
    assert "x and y both send w back" in beside[0]
    assert told(f"{HEAD}nodes: {{{nodes % 'w, x'}}}\n", Severity.WARNING) == []


def test_refusals_from_an_argument(write):
    """flows.md, budgets: numbers or ``${args...}``, also of a gate; checked when they are bound."""
    flow = load_flow(
        write(
            f"{HEAD}args: {{n: {{type: int, default: 3}}}}\n"
            "nodes:\n  w: {role: maker}\n"
            "  x: {role: judge, after: [w], gate: {refusals: '${args.n}'}}\n"
            "  y: {role: maker, after: [x]}\n"
        )
    )
    assert flow.bind().graph.operations["x"].gate.refusals == 3
    assert flow.bind({"n": 0}).graph.operations["x"].gate.refusals == 0
    with pytest.raises(FlowError, match="refusals of x is -1; write a whole number from 0"):
        flow.bind({"n": -1})
    assert "w and what follows run again, at most ${args.n} times" in flow.sentences()["x"]


def test_warnings(told):
    """flows.md, Warnings: each with its silent arm."""

    def warned(text):
        return told(HEAD + text, Severity.WARNING)

    assert "can REJECT, and nothing would happen" in warned("nodes: {x: {role: judge}}")[0]
    assert "nothing depends on the gate x" in warned("nodes: {x: {role: judge, gate: true}}")[0]
    assert warned("nodes: {x: {role: judge, gate: true}, y: {role: maker, after: [x]}}") == []
    assert warned("nodes: {x: {role: judge, emits: []}}") == []
    assert "role typed has no function" in warned("nodes: {x: {role: typed}}")[0]
    assert "chat has no role, and nothing names a model" in warned("nodes: {x: {operation: chat}}")[0]
    assert "names nothing" in warned("nodes: {x: {role: maker, when: 1 == 1}}")[0]
    assert "only x names the branch 'b'" in warned("nodes: {x: {role: maker, branch: b}}")[0]
    assert "cannot be named" in warned("nodes: {x: {role: maker, returns: {status: str}}}")[0]
    assert "never reached" in warned("nodes: {x: {role: maker, timeout: 2h, deadline: 1h}}")[0]
    assert "secret" in warned("args: {api_key: {default: abcdefghijkl}}\nnodes: {x: {role: maker}}")[0]
    assert "secret" in warned("nodes: {x: {role: maker, with: {api_key: abcdefghijkl}}}")[0]
    assert "secret" in warned("nodes: {x: {role: maker, instruction: use sk-abcdefghijklmnopqrstu}}")[0]
    assert (
        warned("args: {k: {required: true}}\nnodes: {x: {role: maker, with: {api_key: '${args.k}'}}}") == []
    )


def test_a_role_is_missing_because_no_cast_holds_one(told, tmp_path):
    """It is said where roles could have come from."""
    (tmp_path / "empty.py").write_text("x = 1\n")
    text = "version: 1\nname: d\n{}nodes: {{x: {{role: maker}}}}\n"
    assert "(the document names no cast:)" in told(text.format(""))[0]
    assert "(the cast: holds no role)" in told(text.format("cast: [empty.py]\n"))[0]
    assert told(text.format("cast: [cast.py]\n")) == []


def test_python_is_no_flow_document(tmp_path):
    """A cast given where its document belongs."""
    (tmp_path / "cast.py").write_text(CAST)
    with pytest.raises(FlowError, match="is Python; a flow document is YAML"):
        load_flow(tmp_path / "cast.py")


def test_two_nodes_that_wait_for_each_other(told):
    """Moving one above the other would not help, and is not what is advised."""
    text = "nodes: {x: {role: maker, after: [y]}, y: {role: maker, after: [x]}}\n"
    assert [one.split(": ", 1)[1] for one in told(HEAD + text)] == [
        "x and y wait for each other; remove y here, or x there"
    ]


def test_spawns_must_be_stated(told):
    """flows.md, Budgets: a document whose cast may spawn states it; 0 is allowed and warned about."""
    text = "version: 1\nname: d\ncast: [cast.py]\n{}nodes: {{x: {{role: scanner{}}}}}\n"
    assert any("state how many" in one for one in told(text.format("", "")))
    assert told(text.format("", ", emits: [Finding]")) == []
    assert told(text.format("budget: {spawns: 0}\n", "")) == []
    assert any(
        "spawns is 0" in one for one in told(text.format("budget: {spawns: 0}\n", ""), Severity.WARNING)
    )
    assert told(text.format("budget: {spawns: 1}\n", ""), Severity.WARNING) == []


@pytest.mark.parametrize("name", ["roles", "emissions", "orchestrator"])
def test_modules_that_hide_ours_are_errors(told, tmp_path, name):
    """flows.md, Checks: a file or a package; a folder that is no package hides nothing."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "notes.md").write_text("x")
    (tmp_path / name / "cast.py").write_text(CAST)
    text = f"{HEAD}nodes: {{x: {{role: maker}}}}\n"
    assert told(text) == []
    assert told(text.replace("cast.py", f"{name}/cast.py")) == []
    (tmp_path / name / "__init__.py").write_text("")
    assert any(f"hides the package '{name}'" in one for one in told(text))


def test_a_role_of_the_library_can_be_replaced_and_it_is_said(told, tmp_path):
    """The document's own role is used; a note tells."""
    (tmp_path / "mine.py").write_text("from roles import Role\nmine = Role(name='writer')\n")
    text = "version: 1\nname: d\ncast: [mine.py]\nnodes: {x: {role: writer}}\n"
    assert told(text) == []


def test_returns_from_a_schema_file(told, tmp_path):
    """A JSON Schema beside the document is as good as the short form."""
    (tmp_path / "shape.json").write_text(
        json.dumps({"type": "object", "properties": {"a": {"type": "string"}}})
    )
    text = f"{HEAD}nodes:\n  y: {{role: maker, returns: shape.json}}\n"
    text += "  x: {role: maker, after: [y], instruction: '${y.%s}'}\n"
    assert told(text % "a") == []
    assert any("y has no 'b'" in one for one in told(text % "b"))
    (tmp_path / "shape.json").write_text("[1]")
    assert any("no JSON Schema" in one for one in told(text % "a"))


def test_bind_refuses_a_document_with_errors(write):
    """The first error, with its place."""
    flow = load_flow(write(f"{HEAD}nodes: {{x: {{role: makr}}}}\n"))
    for use in (flow.bind, lambda: flow.graph):
        with pytest.raises(FlowError, match=r"flow\.yaml:5:19: there is no role 'makr'"):
            use()


def test_the_schema_is_the_model():
    """One schema: every key of the model is in it, closed, and no key of later versions."""
    schema = flow_schema()
    assert set(schema["properties"]) == set(Document.model_fields)
    assert schema["additionalProperties"] is False
    node = schema["$defs"]["NodeSpec"]
    assert {"with", "role", "after", "when", "gate", "returns"} <= set(node["properties"])
    json.dumps(schema)


def test_problems_print_and_sort():
    """file:line:col: message; warnings say so."""
    one = Problem("f.yaml", 3, 4, "m")
    assert str(one) == "f.yaml:3:4: m"
    assert str(Problem("f.yaml", 3, 4, "m", Severity.WARNING)) == "f.yaml:3:4: warning: m"
    assert min(Problem("f", 10, 1, "b"), Problem("f", 9, 5, "a")).line == 9


def test_a_newer_version_is_refused_by_name_and_nothing_else_is_said(write):
    """flows.md: a reader refuses a newer version by name."""
    with pytest.raises(
        FlowError, match=r"flow\.yaml:1:10: version 2 of the format is newer than this"
    ) as told:
        load_flow(write("version: 2\nname: d\nacts: {x: 1}\n"))
    assert "install a newer callboard" in str(told.value)


def test_what_is_no_regular_file_is_refused(tmp_path, told):
    """A named pipe would block the command until somebody writes into it."""
    os.mkfifo(tmp_path / "pipe.yaml")
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(FlowError, match="no regular file"):
        load_flow(tmp_path / "pipe.yaml")
    with pytest.raises(FlowError, match="no regular file"):
        load_flow("/dev/null")
    assert any(
        "no regular file" in one for one in told(HEAD.replace("cast.py", "pipe.py") + "nodes: {x: {role: y}}")
    )
    text = f"{HEAD}nodes: {{x: {{role: maker, returns: pipe.json}}}}"
    assert any("no regular file" in one for one in told(text))


def test_two_roles_of_one_name_in_one_file(told, tmp_path):
    """Both lines are said."""
    (tmp_path / "two.py").write_text(
        "from roles import Role, role\n\nfirst = Role(name='same')\n\n"
        "@role(name='same')\ndef second(turn): ...\n"
    )
    [one] = [
        one for one in told(HEAD.replace("cast.py", "two.py") + "nodes: {x: {role: same}}") if "two" in one
    ]
    assert "two.py:3" in one
    assert "two.py:5" in one


def test_operations_of_a_session_are_known(write):
    """What a session registers is no unknown operation there."""
    flow = load_flow(write(f"{HEAD}nodes: {{x: {{operation: hold}}}}"))
    assert "no operation 'hold'" in flow.check()[0].message
    assert flow.check(operations=["hold"]) == []
    with pytest.raises(FlowError, match="no operation 'hold'"):
        flow.bind()
    assert list(flow.bind(operations=["hold"]).graph.operations) == ["x"]


def test_budgets_that_cannot_be_met(told):
    """flows.md, Checks: a budget under which what the document wants cannot happen."""
    text = "version: 1\nname: d\ncast: [cast.py]\nbudget: {}\nnodes: {{x: {{role: {}}}}}\n"
    assert "depth is 0" in told(text.format("{spawns: 3, depth: 0}", "scanner"))[0]
    assert "assignees names no role" in told(text.format("{spawns: 3, assignees: []}", "scanner"))[0]
    assert told(text.format("{spawns: 3, depth: 1, assignees: [maker]}", "scanner")) == []
    assert "tokens is 0, and x needs" in told(text.format("{tokens: 0}", "typed"))[0]
    assert "cost_usd is 0, and x needs" in told(text.format("{cost_usd: 0.0}", "typed"))[0]
    assert told(text.format("{tokens: 0}", "maker")) == []
    retried = text.replace("role: {}", "role: {}, retry: {{attempts: 2, backoff: 1h}}")
    assert "wall_clock is 1800 s" in told(retried.format("{wall_clock: 30m}", "maker"))[0]
    assert told(retried.format("{wall_clock: 2h}", "maker")) == []
