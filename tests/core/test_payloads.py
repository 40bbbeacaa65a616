"""What the core reads of an emission is what pydantic validated, field by field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emissions import (
    Emission,
    EscalationRequest,
    Route,
    SpawnRequest,
    TaskAssignment,
    Urgency,
    Verdict,
    VerdictValue,
)
from orchestrator.core import payloads as p
from orchestrator.core.gates import gate_verdict
from orchestrator.core.spec import Gate
from orchestrator.runtime.values import dump
from tests.core.build import json

text = st.text(min_size=1, max_size=12).filter(lambda value: value.strip())
texts = st.lists(text, max_size=2)
mapping = st.dictionaries(st.text(max_size=4), json, max_size=3)

#: emission -> (struct, reader, strategy of its fields)
PAIRS: dict[type[Emission], tuple[type[Any], Any, dict[str, st.SearchStrategy[Any]]]] = {
    SpawnRequest: (
        p.SpawnPayload,
        p.read_spawn,
        {
            "instruction": text,
            "assignee": text,
            "operation": st.sampled_from(("operate", "chat", "communicate", "ReAct")),
            "parameters": mapping,
            "independent": st.booleans(),
            "reason": text,
            "key": text,
            "after": texts,
            "before": texts | st.just("successors"),
            "required": st.booleans(),
            "inherit": st.booleans(),
        },
    ),
    TaskAssignment: (
        p.AssignmentPayload,
        p.read_assignment,
        {
            "name": text,
            "task": text,
            "assignee": text,
            "inputs": mapping,
            "exit_criteria": text,
            "depends_on": texts,
            "modes": texts,
        },
    ),
    Verdict: (
        p.VerdictPayload,
        p.read_verdict,
        {
            "verdict": st.sampled_from(VerdictValue),
            "rationale": text,
            "evidence": text,
            "reversible_by": text,
        },
    ),
    EscalationRequest: (
        p.EscalationPayload,
        p.read_escalation,
        {
            "reason": text,
            "urgency": st.sampled_from(Urgency),
            "route": st.sampled_from(Route),
            "context": mapping,
        },
    ),
}
by_name = pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)


@by_name
def test_the_same_fields(kind: type[Emission]):
    """No field on one side only, none required on one side only."""
    struct = PAIRS[kind][0]
    fields = {field.name: field.required for field in msgspec.structs.fields(struct)}
    theirs = {name: field.is_required() for name, field in kind.model_fields.items()}
    assert set(fields) == set(theirs)
    assert {name for name, required in fields.items() if required} <= {
        name for name, required in theirs.items() if required
    }
    assert set(fields) == set(PAIRS[kind][2])


@by_name
def test_the_same_values(kind: type[Emission]):
    """Through the JSON of the boundary, which leaves defaults out: nothing is lost, nothing is made up."""
    _, read, fields = PAIRS[kind]
    required = [name for name, field in kind.model_fields.items() if field.is_required()]
    optional = {name: strategy for name, strategy in fields.items() if name not in required}

    @settings(max_examples=60)
    @given(st.fixed_dictionaries({name: fields[name] for name in required}, optional=optional))
    def check(given_fields: dict[str, Any]) -> None:
        emission = kind(**given_fields)
        payload = read(dump(emission))
        for name in fields:
            assert plain(getattr(payload, name)) == plain(getattr(emission, name))

    check()


def plain(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(bytes(value))
    return list(value) if isinstance(value, tuple) else value


@given(st.sampled_from(Urgency), st.none() | st.sampled_from(Route))
def test_the_same_route(urgency: Urgency, route: Route | None):
    """The route that an escalation takes is worked out alike on both sides."""
    emission = EscalationRequest(reason="x", urgency=urgency, route=route)
    assert p.read_escalation(dump(emission)).effective_route == emission.effective_route


LISTS = [(), ("REJECT",), ("REQUEST-CHANGES",), ("REJECT", "REQUEST-CHANGES"), ("APPROVE-WITH-FIXES",)]


@pytest.mark.parametrize("refuse_on", LISTS)
@pytest.mark.parametrize("verdict", VerdictValue)
def test_the_gate_map_is_total(verdict: VerdictValue, refuse_on: tuple[str, ...]):
    """kernel.md 5: every verdict at every gate; refuse_on lists what rejects, empty means REJECT."""
    expected = verdict.value in (refuse_on or ("REJECT",))
    assert gate_verdict(Gate(refuse_on=refuse_on), verdict) == ("reject" if expected else None)
    assert gate_verdict(Gate(refuse_on=refuse_on), verdict.value) == ("reject" if expected else None)


def test_there_are_four_verdicts():
    """A fifth one needs a line in this file and in the gate map."""
    assert [value.value for value in VerdictValue] == [
        "APPROVE",
        "APPROVE-WITH-FIXES",
        "REQUEST-CHANGES",
        "REJECT",
    ]
    with pytest.raises(ValueError, match="MAYBE"):
        gate_verdict(Gate(), "MAYBE")
