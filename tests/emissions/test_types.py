"""The 23 emission types: closed, immutable, exact through JSON, and cheap to know again."""

import copy
import json
import pickle
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import emissions
from emissions import (
    EMISSIONS,
    AnalysisResult,
    ArtifactProduced,
    Compliance,
    ComplianceVerdict,
    Conflict,
    Emission,
    EscalationRequest,
    Finding,
    OperationOutcome,
    OutcomeStatus,
    Route,
    Severity,
    SpawnRequest,
    Synthesis,
    TaskAssignment,
    UnknownEmissionError,
    Urgency,
    Verdict,
    VerdictValue,
    VerificationResult,
    emission_stamp,
    emission_type,
    json_schema,
    kind_of,
    stamp,
    tag,
)

# The table of the specification: required fields, then optional ones with their defaults.
TABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "Finding": ("description", {"confidence": 0.5, "severity": None, "evidence": None, "source": None}),
    "Conflict": ("sources nature", {}),
    "Gap": ("area what_is_unknown", {}),
    "Diagnosis": ("symptom root_cause", {"remedy": None, "confidence": 0.5, "evidence": None}),
    "Synthesis": ("summary", {"themes": (), "sources": (), "tensions": ()}),
    "Verdict": ("verdict rationale", {"evidence": None, "reversible_by": None}),
    "ComplianceVerdict": ("verdict control", {"evidence_refs": ()}),
    "RiskAssessment": ("failure_mode likelihood impact", {"mitigation": None}),
    "Objection": ("target objection", {"strongest_target_form": None, "what_would_resolve": None}),
    "Recommendation": ("recommendation rationale", {"alternatives": (), "tradeoffs": None}),
    "AnalysisResult": ("metric value", {"ci_95": None, "p_value": None}),
    "ComplexityScore": ("score rationale", {}),
    "ExecutionPlan": ("", {"steps": (), "dependencies": (), "exit_criteria": None}),
    "TaskAssignment": (
        "name task assignee",
        {"inputs": {}, "exit_criteria": None, "depends_on": (), "modes": ()},
    ),
    "DesignSpec": ("summary", {"components": (), "decisions": (), "alternatives": ()}),
    "ArtifactProduced": ("path kind", {"description": None, "verified": False}),
    "VerificationResult": ("suite passed", {"coverage": None, "gaps": ()}),
    "Document": ("title content", {"format": None, "audience": None}),
    "OperationOutcome": ("action target status", {"changes": (), "rollback": None}),
    "Proposal": ("idea value_proposition", {"feasibility": None, "risks": ()}),
    "Postmortem": ("summary root_cause", {"timeline": (), "contributing_factors": (), "action_items": ()}),
    "EscalationRequest": ("reason", {"urgency": Urgency.BLOCKED, "route": None, "context": {}}),
    "SpawnRequest": (
        "",
        {
            "instruction": "",
            "assignee": None,
            "operation": "operate",
            "parameters": {},
            "independent": False,
            "reason": None,
            "key": None,
            "after": (),
            "before": (),
            "required": False,
            "inherit": False,
        },
    ),
}

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
lists = st.lists(words, max_size=3)
shares = st.floats(0, 1)
jsons = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, jsons, max_size=3)
SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(["confidence", "likelihood", "impact", "score", "coverage", "p_value"], shares),
    **dict.fromkeys(["inputs", "context", "parameters"], objects),
    **dict.fromkeys(["passed", "verified", "independent", "required", "inherit"], st.booleans()),
    **dict.fromkeys(
        "themes tensions evidence_refs alternatives steps dependencies depends_on modes components decisions "
        "changes gaps risks timeline contributing_factors action_items after".split(),
        lists,
    ),
    "severity": st.sampled_from(Severity),
    "status": st.sampled_from(OutcomeStatus),
    "urgency": st.sampled_from(Urgency),
    "route": st.sampled_from(Route),
    "operation": st.sampled_from(["operate", "chat", "communicate", "ReAct"]),
    "before": st.just("successors") | lists,
    "value": st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    "ci_95": st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)),
    "sources": st.lists(words, min_size=2, max_size=4),
}
VERDICTS: dict[str, st.SearchStrategy[Any]] = {
    "Verdict": st.sampled_from(VerdictValue),
    "ComplianceVerdict": st.sampled_from(Compliance),
}


@st.composite
def an_emission(draw: st.DrawFn) -> Emission:
    kind = draw(st.sampled_from(list(EMISSIONS)))
    required, optional = TABLE[kind]
    names = required.split() + [name for name in optional if draw(st.booleans())]
    values = {}
    for name in names:
        strategy = VERDICTS[kind] if name == "verdict" else SPECIAL.get(name, words)
        values[name] = draw(strategy)
    return EMISSIONS[kind](**values)


def minimal(kind: str) -> Emission:
    special = {"sources": ["a", "b"], "passed": True, "value": 1, "verdict": None, "status": "failed"}
    special |= dict.fromkeys(["likelihood", "impact", "score"], 0.5)
    special["verdict"] = "REJECT" if kind == "Verdict" else "compliant"
    return EMISSIONS[kind](**{name: special.get(name, "x") for name in TABLE[kind][0].split()})


def test_the_set_is_the_table_and_closed():
    assert list(EMISSIONS) and set(EMISSIONS) == set(TABLE)
    assert len(EMISSIONS) == 23
    with pytest.raises(TypeError):
        EMISSIONS["Other"] = Finding  # type: ignore[index]


@pytest.mark.parametrize("kind", TABLE)
def test_fields_and_defaults_are_the_tables(kind):
    required, optional = TABLE[kind]
    fields = EMISSIONS[kind].model_fields
    assert {name for name, field in fields.items() if field.is_required()} == set(required.split())
    made = minimal(kind)
    assert {name: getattr(made, name) for name in fields if name not in required.split()} == optional


@pytest.mark.parametrize("kind", TABLE)
def test_every_type_is_closed_frozen_documented_and_versioned(kind):
    type_ = EMISSIONS[kind]
    made = minimal(kind)
    with pytest.raises(ValidationError, match="extra"):
        type_(**made.__dict__, surplus=1)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(made, next(iter(type_.model_fields)), "y")
    assert "good" in (type_.__doc__ or "") or "good" in json_schema(type_)["description"]
    assert type_.schema_version == 1
    assert kind_of(made) == kind_of(type_) == kind


@pytest.mark.parametrize("kind", TABLE)
def test_schema_is_json_with_its_version(kind):
    schema = json_schema(EMISSIONS[kind])
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$id"] == f"urn:callboard:emission:{tag(EMISSIONS[kind])}:1"
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(EMISSIONS[kind].model_fields)


@given(an_emission())
def test_round_trip_through_json(emission):
    text = emission.model_dump_json()
    again = type(emission).model_validate_json(text)
    assert again == emission
    assert hash(again) == hash(emission)
    assert type(emission).model_validate(json.loads(text)) == emission
    assert again.model_dump_json() == text


def test_names_lead_to_types():
    for kind, type_ in EMISSIONS.items():
        assert emission_type(kind) is type_
        assert emission_type(tag(type_)) is type_
    assert tag(SpawnRequest) == "spawn_request"
    assert tag(Finding) == "finding"
    with pytest.raises(UnknownEmissionError, match="did you mean Verdict"):
        emission_type("verdct")
    with pytest.raises(UnknownEmissionError):
        emission_type("spawn-request" * 100)


def test_exports_are_exact():
    assert sorted(emissions.__all__) == sorted(set(emissions.__all__))
    for name in [*emissions.__all__, *EMISSIONS]:
        assert hasattr(emissions, name)
    assert set(EMISSIONS) <= set(emissions.__all__)


@pytest.mark.parametrize("value", VerdictValue)
def test_verdict_takes_every_spelling_of_the_table(value):
    for spelling in [
        value.value,
        value.value.lower(),
        value.value.replace("-", "_"),
        value.value.replace("-", " ").title(),
        f"  {value.value} \n",
        value.value.replace("-", " - "),
    ]:
        verdict = Verdict(verdict=spelling, rationale="because")
        assert verdict.verdict is value
        assert json.loads(verdict.model_dump_json())["verdict"] == value.value


@pytest.mark.parametrize(
    "bad",
    "APPROVED|REJECTED|no|approvewithfixes|-reject-|REJECT!|reject, approve||approve_with_fixe\u017f|"
    "\uff32\uff25\uff2a\uff25\uff23\uff34|re ject".split("|"),
)
def test_verdict_guesses_nothing(bad):
    with pytest.raises(ValidationError):
        Verdict(verdict=bad, rationale="because")


@given(st.text(max_size=30) | st.integers() | st.none() | st.booleans())
def test_verdict_accepts_no_fifth_word(value):
    try:
        verdict = Verdict(verdict=value, rationale="")  # type: ignore[arg-type]
    except ValidationError:
        return
    assert verdict.verdict in set(VerdictValue)


def test_compliance_and_severity_fold_alike():
    assert ComplianceVerdict(verdict="Not_Applicable", control="c").verdict is Compliance.NOT_APPLICABLE
    assert ComplianceVerdict(verdict="NON COMPLIANT", control="c").verdict is Compliance.NON_COMPLIANT
    assert Finding(description="d", severity="High").severity is Severity.HIGH
    assert Finding(description="d", severity="high").severity in {"high", "critical"}
    with pytest.raises(ValidationError):
        Finding(description="d", severity="severe")


def test_numbers_are_strict_and_finite():
    for bad in (float("nan"), float("inf"), "0.5", True, -0.1, 1.1):
        with pytest.raises(ValidationError):
            Finding(description="d", confidence=bad)  # type: ignore[arg-type]
    for bad in (float("nan"), 2**63, "1", True):
        with pytest.raises(ValidationError):
            AnalysisResult(metric="m", value=bad)  # type: ignore[arg-type]
    assert type(AnalysisResult(metric="m", value=3).value) is int
    assert AnalysisResult(metric="m", value=3, ci_95=[1, 2]).ci_95 == (1.0, 2.0)
    for bad_interval in ([1], [1, 2, 3], {1, 2}, [float("nan"), 1]):
        with pytest.raises(ValidationError):
            AnalysisResult(metric="m", value=3, ci_95=bad_interval)  # type: ignore[arg-type]


def test_flags_are_strict():
    for bad in ("yes", 1, "true"):
        with pytest.raises(ValidationError):
            VerificationResult(suite="s", passed=bad)  # type: ignore[arg-type]
        with pytest.raises(ValidationError):
            SpawnRequest(independent=bad)  # type: ignore[arg-type]


def test_lists_are_tuples_and_unordered_input_is_refused():
    assert Synthesis(summary="s", themes=["a", "b"]).themes == ("a", "b")
    for bad in ({"a", "b"}, iter(["a"]), "ab"):
        with pytest.raises(ValidationError):
            Synthesis(summary="s", themes=bad)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        Conflict(sources=["one"], nature="n")


def test_spawn_request_before_is_successors_or_names():
    assert SpawnRequest(before="successors").before == "successors"
    assert SpawnRequest(before=["a"], after=("b",)).before == ("a",)
    for bad in ("scout", {"a"}, 1, [1]):
        with pytest.raises(ValidationError):
            SpawnRequest(before=bad)  # type: ignore[arg-type]
    assert get_args(SpawnRequest.model_fields["operation"].annotation) == (
        "operate",
        "chat",
        "communicate",
        "ReAct",
    )


def test_parameters_are_a_copy_and_json():
    given_ = {"paths": ["a"]}
    request = SpawnRequest(parameters=given_)
    given_["paths"].append("b")
    given_["more"] = []
    assert request.parameters == {"paths": ["a"]}
    for bad in ({"a": object()}, {"a": {1}}, {1: "a"}, {"a": Finding(description="d")}):
        with pytest.raises(ValidationError):
            SpawnRequest(parameters=bad)  # type: ignore[arg-type]
    assert SpawnRequest().parameters is not SpawnRequest().parameters


def test_deep_parameters_raise_validation_and_nothing_else():
    """bad-inputs 29: no recursion error leaves construction."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ValidationError, match="depth"):
        SpawnRequest(parameters=deep)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValidationError):
        TaskAssignment(name="n", task="t", assignee="a", inputs={"loop": loop})


def test_text_that_is_no_utf8_is_refused():
    """TEXT: half of a surrogate pair would fail far away, when the journal is written."""
    with pytest.raises(ValidationError, match="unicode"):
        Finding(description="\ud800")


def test_escalation_route_follows_urgency():
    """bad-inputs 25: an unknown route is an error, not a silent default."""
    assert EscalationRequest(reason="r").effective_route is Route.HIGHER_TIER
    assert EscalationRequest(reason="r", urgency="fyi").effective_route is Route.NOTIFY
    assert EscalationRequest(reason="r", route="give_up").effective_route is Route.GIVE_UP
    with pytest.raises(ValidationError):
        EscalationRequest(reason="r", route="upstairs")


def test_stamp_belongs_to_the_object_and_not_to_its_value():
    """bad-inputs 16: the same object is known again; an equal one is not taken for it."""
    one, two = Finding(description="d"), Finding(description="d")
    assert emission_stamp(one) is None
    stamp(one, 7)
    assert emission_stamp(one) == 7
    assert one == two and hash(one) == hash(two) and emission_stamp(two) is None
    assert one.model_dump() == two.model_dump() and repr(one) == repr(two)
    for same in (copy.copy(one), copy.deepcopy(one), one.model_copy(), pickle.loads(pickle.dumps(one))):
        assert same == one
        assert emission_stamp(same) is None
    stamp(one, "again")
    assert emission_stamp(one) == "again"


def test_equality_is_by_type_and_value():
    class Observation(Finding):
        """A type of a user's own."""

    assert Observation(description="d") != Finding(description="d")
    assert Observation.emission_kind == "Observation"
    assert len({SpawnRequest(parameters={"a": 1}), SpawnRequest(parameters={"a": 1})}) == 1
    assert Finding(description="d") != "d"


def test_replaced_validates():
    finding = Finding(description="d")
    assert finding.replaced(severity="low").severity is Severity.LOW
    with pytest.raises(ValidationError):
        finding.replaced(severity="none")


def test_a_field_called_kind_does_not_hide_the_types_name():
    made = ArtifactProduced(path="a.md", kind="report")
    assert made.kind == "report"
    assert kind_of(made) == "ArtifactProduced"
    assert OperationOutcome(action="a", target="t", status="Partial").status is OutcomeStatus.PARTIAL
