"""Checks of what a document means: references, names, gates, shapes, edges; each with its other arm."""

from __future__ import annotations

import pytest

from orchestrator.core.commands import Finish, Start
from orchestrator.core.machine import GraphMachine
from orchestrator.core.spec import Plan
from orchestrator.flows.flow import load_flow
from orchestrator.flows.problems import Severity
from tests.flows.counting import calls

CAST = """
from emissions import Finding, SpawnRequest, Verdict
from roles import Role, role, tool

@role(emits=(SpawnRequest, Finding))
def scanner(turn): ...

@role(emits=(Verdict,))
def judge(turn): ...

@role()
def maker(turn): ...

def look(turn): ...

@tool
def search(words: str): ...

lost = Role(name="lost", tools=("serch", "files.read"), models=("p:small",))
typed = Role(name="typed", returns=dict[str, int], tools=("search", look), models=("small", "large"))
"""
HEAD = "version: 1\nname: demo\ncast: [cast.py]\nbudget: {spawns: 3}\n"


@pytest.fixture
def write(tmp_path):
    (tmp_path / "cast.py").write_text(CAST)
    (tmp_path / "bad.py").write_text("oops\n")
    (tmp_path / "shapes.py").write_text(
        "import pydantic\nclass Report(pydantic.BaseModel):\n    title: str\n"
    )

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


FAULTS = [
    ("x: {role: makr}", "there is no role 'makr'; did you mean 'maker'?"),
    ("x: {role: maker, operation: chat}", "exactly one"),
    ("x: {instruction: a}", "give it a role, an operation or a flow"),
    ("x: {role: maker, after: [y]}", "x comes after 'y', which does not exist"),
    ("x: {role: maker, after: [x]}", "x cannot come after itself"),
    ("x: {role: maker, after: [y]}\n  y: {role: maker}", "x comes after y, which stands below it"),
    ("y: {role: maker}\n  x: {role: maker, after: [y, y]}", "names y twice"),
    ("x-y: {role: maker}", "try 'x_y'"),
    ("context: {role: maker}", "has a meaning in expressions"),
    ("class: {role: maker}", "Python keyword"),
    ("x: {role: maker, gate: true}", "does not declare Verdict"),
    ("x: {role: judge, gate: true, emits: []}", "does not declare Verdict"),
    ("x: {role: maker, emits: [Finding]}", "its role maker does not declare it"),
    ("x: {role: scanner, emits: [Fnding]}", "there is no emission 'Fnding'; did you mean 'Finding'?"),
    ("x: {role: maker, uses: [db]}", "limits.names does not hold"),
    ("x: {role: maker, inherit: y}\n  y: {role: maker}", "no node before it"),
    ("x: {role: maker, returns: strng}", "'strng' is no type"),
    ("x: {role: maker, returns: [str, int]}", "one type in it"),
    ("x: {role: maker, returns: {a: {enum: [1]}}}", "enum holds texts"),
    ("x: {role: maker, returns: 'models:Report'}", "there is no models.py beside the document"),
    ("x: {role: maker, returns: 'shapes:Reprt'}", "shapes has no class 'Reprt'; did you mean 'Report'?"),
    ("x: {role: maker, returns: 'a b:C'}", "no shape; write module:Model"),
    ("x: {role: maker, returns: 'bad:C'}", "bad.py:1: NameError"),
    (
        "y: {role: maker, returns: 'shapes:Report'}\n  x: {role: maker, after: [y], when: y.titel == 1}",
        "y has no 'titel'; did you mean 'title'?",
    ),
    ("x: {role: maker, returns: ../a.json}", "leaves the document's folder"),
    ("x: {role: maker, returns: a.json}", "cannot be read"),
    ("x: {role: maker, instruction: '${y.text}'}", "there is no 'y'"),
    ("y: {role: maker}\n  x: {role: maker, instruction: '${y.text}'}", "y is not before x"),
    ("x: {role: maker, instruction: '${x.text}'}", "x cannot read its own value"),
    (
        "y: {role: maker}\n  x: {role: maker, after: [y], instruction: '${y.summary}'}",
        "returns: {summary: str}",
    ),
    ("y: {role: maker}\n  x: {role: maker, after: [y], instruction: '${y.status.z}'}", "y.status is a text"),
    (
        "y: {role: maker, returns: {a: str}}\n  x: {role: maker, after: [y], with: {k: ['${y.a.b}']}}",
        "has no 'b'",
    ),
    (
        "y: {role: maker, returns: {a: [str]}}\n  x: {role: maker, after: [y], with: {k: '${y.a.b}'}}",
        "is a list",
    ),
    ("y: {role: typed}\n  x: {role: maker, after: [y], with: {k: '${y.a.b}'}}", None),
    (
        "y: {role: judge}\n  x: {role: maker, after: [y], when: \"y.verdict == 'APPROVE'\"}",
        "y has no 'verdict'",
    ),
    ("x: {role: maker, instruction: '${args.a}'}", "there is no argument 'a'"),
    ("x: {role: maker, instruction: '${emissions.Findings}'}", "did you mean 'Finding'?"),
    ("x: {role: maker, instruction: '${result.a}'}", "there is no 'result'"),
    ("x: {role: maker, instruction: 'a ${b'}", "not closed"),
    ("x: {role: maker, instruction: '${1 +}'}", "one complete expression"),
    ("x: {role: maker, when: 'ref == ${x}'}", "without ${...}"),
    ("x: {role: maker, when: 'true # x'}", "comments"),
    ("x: {role: maker, when: ''}", "is empty"),
    ("x: {role: maker, when: \"'yes'\"}", "not true or false"),
    ("y: {role: maker, returns: {a: str}}\n  x: {role: maker, after: [y], when: y.a}", "gives a text"),
    ("y: {role: maker, returns: {a: bool}}\n  x: {role: maker, after: [y], when: y.a}", None),
    ("y: {role: maker, returns: {a: any}}\n  x: {role: maker, after: [y], when: y.a}", None),
    ("y: {role: maker}\n  x: {role: maker, after: [y], when: y.status}", "gives a text"),
    ("y: {role: maker, branch: b}\n  x: {role: maker, branch: b}", "share the branch 'b'"),
    ("y: {role: maker, branch: b}\n  x: {role: maker, branch: b, after: [y]}", None),
    ("x: {operation: chat, gate: true}", None),
    ("x: {operation: anything}", "there is no operation 'anything'"),
    ("x: {operation: oprate}", "did you mean 'operate'?"),
    ("y: {role: maker}\n  x: {role: maker, after: [y], instruction: '${y.text}'}", None),
    (
        "x: {role: typed, tools: [serch]}",
        "its role typed does not have it; tools only narrows; did you mean 'search'",
    ),
    ("x: {role: typed, tools: [search, look]}", None),
    ("x: {role: lost}", "role lost names the tool 'serch', which nobody has: write @tool over its function"),
    ("x: {role: typed, model: fast}", "model of x is 'fast'; write PROVIDER:NAME; there is: small, large"),
    ("x: {role: typed, model: large}", None),
    ("x: {role: typed, model: 'some:new-model'}", None),
    ("y: {role: maker}\n  x: {role: typed, after: [y], inputs: [y]}", None),
    (
        "y: {role: maker}\n  z: {role: maker, after: [y]}\n  x: {role: typed, after: [z], inputs: [y]}",
        "only narrows",
    ),
    ("x: {role: typed, inputs: some}", "write 'all' or 'none' or a list: [some]"),
    (
        "y: {role: judge, gate: true}\n  x: {role: maker, after: [y], when: y.verdict == 'APROVE'}",
        "never 'APROVE'",
    ),
    ("y: {role: judge, gate: true}\n  x: {role: maker, after: [y], when: y.verdict == 'APPROVE'}", None),
    (
        (
            "y: {role: maker, returns: {a: {enum: [b, c]}}}\n"
            "  x: {role: maker, after: [y], when: \"'d' != y.a\"}"
        ),
        "'d'",
    ),
    (
        (
            "y: {role: maker, returns: {a: {enum: [b, c]}}}\n"
            "  x: {role: maker, after: [y], when: \"y.a in ['b', 'd']\"}"
        ),
        "'d'",
    ),
    (
        (
            "y: {role: maker, returns: {a: {enum: [b, c]}}}\n"
            "  x: {role: maker, after: [y], when: \"y.a in ['b']\"}"
        ),
        None,
    ),
    (
        (
            "y: {role: maker, returns: {a: {enum: [b, c]}}}\n"
            "  x: {role: maker, after: [y], when: \"default(y.a, 'd') == 'd'\"}"
        ),
        None,
    ),
    ("y: {role: maker, returns: {a: int}}\n  x: {role: maker, after: [y], when: y.a == '3'}", "never alike"),
    ("y: {role: maker, returns: {a: int}}\n  x: {role: maker, after: [y], when: 3 < y.a <= 4.5}", None),
    ("y: {role: maker, returns: {a: bool}}\n  x: {role: maker, after: [y], when: y.a > 0}", "never alike"),
    ("y: {role: maker, returns: {a: str}}\n  x: {role: maker, after: [y], when: y.a == null}", None),
    (
        "y: {role: maker}\n  x: {role: maker, after: [y], when: y.status == 'complete'}",
        "did you mean 'completed'?",
    ),
    ("y: {role: maker}\n  x: {role: maker, after: [y], when: \"nodes['y'].status == 'failed'\"}", None),
    ("x: {role: maker, when: 1 == 2}", "x never runs: its condition `1 == 2` is never true"),
    ("y: {role: maker, when: false and true}\n  x: {role: maker, after: [y]}", "x never runs: y never runs"),
    ("y: {role: maker, when: 1 == 2}\n  z: {role: maker}\n  x: {role: maker, after: [y, z]}", "y never runs"),
    ("x: {role: maker, retry: {attempts: 3, backoff: 60s}, deadline: 2m}", "the pauses alone take 120 s"),
    ("x: {role: maker, retry: {attempts: 3, backoff: 59s}, deadline: 2m}", None),
]


@pytest.mark.parametrize(("nodes", "message"), FAULTS)
def test_checks_of_nodes(told, nodes, message):
    """flows.md, Checks: every reference, gate, name and shape; both arms."""
    found = told(f"{HEAD}nodes:\n  {nodes}\n")
    if message is None:
        assert found == []
    else:
        assert any(message in one for one in found), found


TOP_FAULTS = [
    ("context: {a: {reduce: appnd}}", "did you mean 'append'?"),
    ("args: {class: {type: str}}", "Python keyword"),
    ("args: {a: {required: true, default: x}}", "required and has a default"),
    ("args: {a: {type: str}}\noutputs: {o: '${args.a}'}", "args.a can be missing"),
    ("args: {a: {type: str}}\noutputs: {o: \"${default(args.a, '')}\"}", None),
    ("args: {a: {default: null}}\noutputs: {o: '${args.a}'}", None),
    ("limits: {roles: {makr: 1}}", "did you mean 'maker'?"),
    ("outputs: {o: '${y.text}'}", "there is no 'y'"),
    ("outputs: {o: '${x.text} ${x.status}'}", None),
    ("edges: [{from: x, to: y}]", "there is no node 'y'"),
    ("cast: [../cast.py]", "leaves the document's folder"),
    ("cast: [/etc/passwd]", "leaves the document's folder"),
    ("cast: [nobody.py]", "does not exist"),
    ("cast: [broken.py]", "broken.py"),
    ("cast: [cast.py, again.py]", "two roles are called maker"),
]


@pytest.mark.parametrize(("top", "message"), TOP_FAULTS)
def test_checks_of_the_rest(told, tmp_path, top, message):
    """Arguments, context, limits, outputs, edges, cast."""
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "again.py").write_text("from roles import Role\nmaker = Role(name='maker')\n")
    head = HEAD.replace("cast: [cast.py]\n", "") if top.startswith("cast") else HEAD
    found = told(f"{head}{top}\nnodes: {{x: {{role: maker}}}}\n")
    if message is None:
        assert found == []
    else:
        assert any(message in one for one in found), found


def test_edges(told):
    """Alternatives: conditions on result and status, one else, each pair once, no cycle."""
    nodes = "nodes:\n  a: {role: maker, returns: {k: str}}\n  b: {role: maker}\n  c: {role: maker}\n"
    when = "result.k == 'x'"
    assert (
        told(
            f'{HEAD}{nodes}edges:\n  - {{from: a, to: b, when: "{when}"}}\n  - {{from: a, to: c, else: true}}'
        )
        == []
    )
    for edges, message in [
        ("[{from: a, to: b, when: result.z == 1}]", "result has no 'z'"),
        ("[{from: a, to: b, when: a.z == 1}]", "a has no 'z'"),
        ("[{from: b, to: c, when: result.text == 'x'}]", "write b.text"),
        ("[{from: b, to: c, when: result.z == 'x'}]", "returns: {z: str}"),
        ("[{from: a, to: b}, {from: a, to: c, else: true}]", "c never runs: none of its edges can be taken"),
        ("[{from: a, to: b, when: 1 == 2}]", "b never runs"),
        ("[{from: a, to: b, when: \"nodes['b'].status == 'x'\"}]", "b is not before a"),
        ("[{from: a, to: b, when: status}]", "not true or false"),
        ("[{from: a, to: b}, {from: a, to: b}]", "named twice"),
        ("[{from: a, to: b, else: true, when: status == 'x'}]", "else"),
        ("[{from: a, to: b, else: true}, {from: a, to: c, else: true}]", "else"),
        ("[{from: a, to: b}, {from: b, to: c}, {from: c, to: b}]", "b -> c -> b"),
        ("[{from: a, to: a}]", "a -> a"),
        ("[{from: a, to: b, else: false}]", "true"),
        ("[{to: b}]", "lacks the key 'from'"),
    ]:
        found = told(f"{HEAD}{nodes}edges: {edges}\n")
        assert any(message in one for one in found), (edges, found)
    for when in ("a.k == 'x'", "len(emissions.Finding) > 0 and exists(context.k) and args == args"):
        assert told(f'{HEAD}{nodes}edges: [{{from: a, to: b, when: "{when}"}}]') == []
    both = nodes.replace("c: {role: maker}", "c: {role: maker, after: [a]}") + "edges: [{from: b, to: c}]\n"
    assert told(HEAD + both) == []


def test_everything_is_told_at_once_in_order(told):
    """flows.md: all problems, by place, each once."""
    found = told(
        "version: '2'\nname: d\ncast: [cast.py]\nnodes:\n  x: {rol: a, when: y.z == 1}\n"
        "  y: {role: makr, after: [q]}\n"
        "outputs: {o: '${z}'}\n"
    )
    places = [tuple(map(int, one.split(":")[:2])) for one in found]
    assert places == sorted(places)
    for part in (
        "version is '2'",
        "no key 'rol'",
        "y is not before x",
        "no role 'makr'",
        "'q', which",
        "no 'z'",
    ):
        assert any(part in one for one in found), (part, found)


def test_places_point_into_texts(told):
    """The column is that of the name inside the text, not only of the text."""
    row = '  x: {role: maker, instruction: "see ${ args.zz }"}'
    [one] = told(f"{HEAD}nodes:\n{row}\n")
    assert one.startswith(f"6:{row.index('args') + 1}: there is no argument 'zz'")


PRICES = """
version: 1
name: priced
cast: [cast.py]
budget: {cost_usd: 1.5%s}
nodes:
  a: {role: typed}
  b: {role: typed, model: "house:own"}
"""


@pytest.mark.parametrize(
    ("priced", "expected"),
    [
        (lambda model: True, []),
        (lambda model: model != "large", ["a calls large"]),
        (lambda model: model not in ("large", "house:own"), ["a calls large", "b calls house:own"]),
    ],
)
def test_models_of_unknown_price_under_a_budget_in_dollars(write, priced, expected):
    """kernel.md 8: refused, each model once; nothing is said without such a budget, or by who cannot tell."""
    path = write(PRICES.replace("%s", ""))
    found = [
        one.message.partition(",")[0]
        for one in load_flow(path).check(priced=priced)
        if one.severity == "error"
    ]
    assert found == expected
    write(PRICES.replace("{cost_usd: 1.5%s}", "{tokens: 9}"))
    assert not [one for one in load_flow(path).check(priced=priced) if one.severity == "error"]


def test_prices_that_cannot_be_told_are_a_warning(write):
    """Without the extra that knows prices, no model runs either: told once, at the budget."""
    path = write(PRICES.replace("%s", ""))
    found = [one for one in load_flow(path).check(priced=lambda model: None) if "prices" in one.message]
    assert [(one.line, str(one.severity)) for one in found] == [(5, "warning")]
    assert not [one for one in load_flow(path).check() if "prices" in one.message]


def test_a_chain_of_conditions_costs_twice_as_much_at_twice_its_length(write):
    """bad-inputs 44: checking and judging a chain whose every node has a condition is linear."""

    def cost(length):
        rows = ["  n0: {role: typed}\n"]
        rows += [
            f"  n{i}: {{role: typed, after: [n{i - 1}], when: 'n{i - 1}.x == 1'}}\n" for i in range(1, length)
        ]
        flow = load_flow(write(f"{HEAD}nodes:\n{''.join(rows)}", f"chain{length}.yaml"))
        assert not [one for one in flow.check() if one.severity is Severity.ERROR]
        graph = flow.graph
        started = Start("r", Plan(operations=tuple(graph.operations.values()), edges=tuple(graph.edges)))
        machine = GraphMachine()

        def run():
            machine.handle(started, 0, ())
            for number in range(length):
                machine.handle(Finish(f"n{number}", 1, value=0), number + 1, (b'{"x":1}',))

        cost = calls(flow.check), calls(run)
        assert machine.state.ended == "completed"
        return cost

    for single, double in zip(cost(80), cost(160), strict=True):
        assert double <= 2.3 * single
