"""Rehearsals: what is found in flows with one known fault each, and that a seed is one rehearsal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emissions import EMISSIONS, json_schema
from orchestrator.errors import FlowError, OperationError
from orchestrator.flows.shapes import schema_of, shape_fault
from orchestrator.testing import rehearse
from orchestrator.testing.drawn import Drawer, literals_in
from orchestrator.testing.improvised import MOODS

CAST = """
from orchestrator import EscalationRequest, Finding, Retry, Role, SpawnRequest, Verdict, role

def called(turn):
    raise SystemExit("a rehearsal called a role")

plain = Role("plain", fn=called)
loud = Role("loud", emits=(Finding, SpawnRequest), fn=called)
judge = Role("judge", emits=(Verdict,), fn=called)
shaky = Role("shaky", fn=called, timeout=5.0, retry=Retry(attempts=3, backoff=1.0))
"""
SEEDS = 40


def flow(folder: Path, nodes: str, head: str = "") -> Path:
    (folder / "cast.py").write_text(CAST, encoding="utf-8")
    path = folder / "flow.yaml"
    path.write_text(f"version: 1\nname: tried\ncast: [cast.py]\n{head}\nnodes:\n{nodes}\n", encoding="utf-8")
    return path


def found(path: Path, seeds: int = SEEDS) -> set[tuple[str, str]]:
    return {(one.kind, one.where) for one in rehearse(path, seeds).findings}


def test_a_sound_flow(tmp_path: Path):
    """Nothing is found, no role is called, everything ran, the gate went both ways."""
    path = flow(
        tmp_path,
        "  scan: {role: loud, returns: {level: {enum: [low, high]}, count: int}}\n"
        "  fix: {role: shaky, after: [scan], when: scan.level == 'high' and scan.count < 3}\n"
        "  review: {role: judge, after: [scan], gate: true}\n"
        "  publish: {role: plain, after: [review]}",
        "budget: {spawns: 6, depth: 2, concurrency: 3}",
    )
    seen = rehearse(path, 120)
    assert seen.ok, seen.findings
    assert seen.laws_held
    assert {"completed", "failed", "gate_rejected", "gate_undecided"} <= set(seen.reasons)
    assert seen.planned == 4
    assert 4 < seen.nodes.count <= 10
    assert seen.depth.count == 2
    budgets = {use.name: use for use in seen.budgets}
    assert budgets["spawns"].limit == 6
    assert budgets["spawns"].reached
    assert budgets["spawns"].most == 6
    assert budgets["depth"].reached
    assert budgets["concurrency"].most == 3


def test_never_true_and_never_false(tmp_path: Path):
    """A condition on what the value can never be; and one that everything fulfils."""
    path = flow(
        tmp_path,
        "  a: {role: plain, returns: {level: {enum: [low, high]}, count: int}}\n"
        "  b: {role: plain, after: [a], when: a.count > 3 and a.count < 3}\n"
        "  c: {role: plain, after: [a], when: \"a.level in ['low', 'high']\"}\n"
        "  d: {role: plain}\n"
        "  e: {role: plain}\n"
        "edges:\n"
        "  - {from: a, to: d, when: result.count > 77}\n"
        "  - {from: a, to: e, else: true}",
    )
    assert found(path) == {
        ("never_ran", "b"),
        ("never_true", "b when a.count > 3 and a.count < 3"),
        ("never_false", "c when a.level in ['low', 'high']"),
    }


@pytest.mark.parametrize("fast", [True, False])
def test_a_condition_on_arguments_alone(tmp_path: Path, fast: bool):
    """It goes the way of the arguments: no finding, but what never ran for it is one, and says why."""
    head = "args: {fast: {type: bool, default: true}}"
    path = flow(tmp_path, "  a: {role: plain}\n  b: {role: plain, after: [a], when: args.fast}", head)
    seen = rehearse(path, SEEDS, args={"fast": fast})
    assert [one.kind for one in seen.findings] == ([] if fast else ["never_ran"])
    if not fast:
        assert "args.fast depends on args alone" in seen.findings[0].message


def test_a_gate_that_cannot_pass(tmp_path: Path):
    """Its instruction names what may be missing whenever something else holds."""
    path = flow(
        tmp_path,
        "  a: {role: plain, returns: {count: int}}\n"
        "  b: {role: plain, after: [a], when: a.count > 3 and a.count < 3}\n"
        "  g: {role: judge, after: [a, b], gate: true, instruction: 'Judge ${b.text}'}\n"
        "  c: {role: plain, after: [g]}",
    )
    seen = found(path)
    assert {("never_passed", "g"), ("never_ran", "c"), ("never_ran", "b"), ("fault", "g")} <= seen


def test_context_keys_that_can_conflict(tmp_path: Path):
    """Two nodes that nothing orders write one key; with a reducer, or in order, there is no conflict."""
    shape = "returns: {text: str}"
    nodes = (
        f"  a: {{role: plain, writes: found, {shape}}}\n"
        f"  b: {{role: plain, writes: found, {shape}}}\n"
        "  c: {role: plain, after: [a, b]}"
    )
    assert ("conflict", "found") in found(flow(tmp_path, nodes))
    assert found(flow(tmp_path, nodes, "context: {found: {reduce: append}}")) == set()
    ordered = nodes.replace("b: {role: plain,", "b: {role: plain, after: [a],")
    assert found(flow(tmp_path, ordered)) == set()


def test_a_gate_that_is_passed_by(tmp_path: Path):
    """A node with several ways runs by one of them when what its gate waits for failed."""
    nodes = (
        "  a: {role: plain}\n"
        "  d: {role: plain, after: [a]}\n"
        "  g: {role: judge, after: [d], gate: true}\n"
        "  c: {role: plain}\n"
    )
    ways = "edges: [{from: a, to: c}, {from: g, to: c}]"
    assert found(flow(tmp_path, nodes + ways)) == {("ungated", "c")}
    plain = nodes.replace("c: {role: plain}", "c: {role: plain, after: [g, a]}")
    assert found(flow(tmp_path, plain)) == set()


def test_arguments_are_drawn_or_given(tmp_path: Path):
    """Required ones are drawn, also those of a budget; given ones stay."""
    head = (
        "args:\n"
        "  n: {type: int, required: true}\n"
        "  mode: {type: str, required: true, enum: [fast, slow]}\n"
        "budget: {spawns: '${args.n}'}"
    )
    path = flow(tmp_path, "  a: {role: loud}\n  b: {role: plain, when: args.mode == 'fast'}", head)
    assert found(path) == set()
    given = rehearse(path, SEEDS, args={"mode": "slow", "n": 2})
    assert {use.name: use.limit for use in given.budgets}["spawns"] == 2
    # what depends on arguments alone went their way
    assert {(one.kind, one.where) for one in given.findings} == {("never_ran", "b")}


def test_rounds(tmp_path: Path):
    """The most rounds of a refusal loop, and what `refusals` bounds."""
    nodes = (
        "  a: {role: plain}\n  g: {role: judge, after: [a], gate: {refusals: 2, back_to: a}}\n"
        "  c: {role: plain, after: [g]}"
    )
    seen = rehearse(flow(tmp_path, nodes), 80)
    assert seen.ok, seen.findings
    assert (seen.rounds.count, seen.rounds.where) == (3, "g")
    limit = next(use for use in seen.budgets if use.name == "refusals of g")
    assert (limit.limit, limit.most) == (2, 2)
    assert limit.reached
    assert "refusals_exhausted" in seen.reasons


def test_elements_and_questions(tmp_path: Path):
    """`for_each` and its max, people who answer, who do not, and who are late."""
    path = flow(
        tmp_path,
        "  scan: {role: plain, returns: {files: [str]}}\n"
        "  check: {role: plain, after: [scan], for_each: scan.files, max: 6, instruction: 'See ${item}'}\n"
        "  go: {ask: 'Go on with ${len(check)}?', after: [check], gate: true}\n"
        "  which: {ask: 'Which?', after: [go], choices: [a, b], expires: 1h, default: b}\n"
        "  end: {role: plain, after: [which], when: which == 'a'}",
    )
    seen = rehearse(path, 80)
    assert seen.ok, seen.findings
    assert {"awaiting_answer", "gate_rejected", "completed"} <= set(seen.reasons)
    limit = next(use for use in seen.budgets if use.name == "max of check")
    assert limit.limit == 6
    assert 1 < limit.most <= 6
    assert limit.reached


def test_a_seed_is_one_rehearsal(tmp_path: Path):
    """The same seed alone, in company and again: the same nodes with the same outcomes."""
    path = flow(
        tmp_path,
        "  scan: {role: loud}\n  review: {role: judge, after: [scan], gate: true}\n"
        "  publish: {role: shaky, after: [review]}",
        "budget: {spawns: 9}",
    )
    everyone, again = rehearse(path, 20), rehearse(path, 20)
    assert everyone == again
    for seed in (5, 13):
        alone = rehearse(path, [seed]).runs[0]
        assert alone == everyone.runs[seed]
        assert alone.outcomes


def test_few_rehearsals_say_nothing_about_never(tmp_path: Path):
    """What one seed did not show is no finding."""
    path = flow(tmp_path, "  a: {role: plain}\n  b: {role: plain, after: [a], when: a.text == 'never seen'}")
    assert rehearse(path, [0]).ok


def test_documents_with_errors(tmp_path: Path):
    """They are refused before anything is played."""
    with pytest.raises(FlowError, match="missing"):
        rehearse(flow(tmp_path, "  a: {role: missing}"))
    with pytest.raises(OperationError, match="at least 1"):
        rehearse(flow(tmp_path, "  a: {role: plain}"), 0)


def test_moods_are_shares():
    """Every tendency is a share, and some rehearsals are free of trouble."""
    for mood in MOODS:
        shares = [getattr(mood, name) for name in mood.__slots__ if name != "name"]
        assert all(0 <= share <= 1 for share in shares), mood


@given(st.integers(0, 10_000), st.sampled_from(sorted(EMISSIONS)))
def test_emissions_are_drawn_from_their_schemas(seed: int, kind: str):
    """What is drawn for a type of the house fits its schema, most often at once."""
    drawer = Drawer(random.Random(seed))
    tries = [drawer.value(json_schema(EMISSIONS[kind])) for _ in range(5)]
    assert any(_is_valid(kind, fields) for fields in tries), tries


def _is_valid(kind: str, fields: object) -> bool:
    try:
        EMISSIONS[kind].model_validate(fields)
    except ValueError:
        return False
    return True


SHAPES = st.recursive(
    st.sampled_from(["str", "int", "float", "bool", "any"]) | st.just({"enum": ["a", "b"]}),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=1)
        | st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=4)
    ),
    max_leaves=8,
)


@given(st.integers(0, 10_000), SHAPES)
def test_values_fit_their_shapes(seed: int, shape: object):
    """Any shape of a document."""
    schema = schema_of(shape)
    value = Drawer(random.Random(seed), literals_in(["x == 'a' and y < 3"])).value(schema)
    assert shape_fault(schema, value) is None


@given(
    st.integers(0, 1_000),
    st.tuples(st.integers(-5, 5), st.integers(0, 9)),
    st.booleans(),
    st.booleans(),
)
def test_numbers_keep_their_bounds(seed: int, bounds: tuple[int, int], whole: bool, exclusive: bool):
    """Inclusive and exclusive, whole and broken."""
    low, high = bounds[0], bounds[0] + bounds[1] + 2
    names = ("exclusiveMinimum", "exclusiveMaximum") if exclusive else ("minimum", "maximum")
    schema = {"type": "integer" if whole else "number", names[0]: low, names[1]: high}
    value = Drawer(random.Random(seed)).value(schema)
    assert low < value < high if exclusive else low <= value <= high
    assert isinstance(value, int) or not whole


def test_literals_and_references():
    """Constants with their neighbours; references, joined and alternative schemas, recursion that ends."""
    literals = literals_in(["a.b == 'x' and c > 3", "true or d in ['y']"])
    assert literals.texts == ("x", "y")
    assert literals.numbers == (2, 3, 4)
    tree = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                    "both": {
                        "allOf": [
                            {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
                            {"properties": {"b": {"type": ["boolean"]}}, "required": ["b"]},
                        ]
                    },
                },
                "required": ["next", "both"],
            }
        },
    }
    for seed in range(50):
        value = Drawer(random.Random(seed)).value(tree)
        assert value["both"]["a"] == 1
        assert type(value["both"]["b"]) is bool
