"""The closed set of emission types, by name."""

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from emissions.base import Emission
from emissions.control import EscalationRequest, SpawnRequest
from emissions.errors import OrchestratorError
from emissions.findings import AnalysisResult, Conflict, Diagnosis, Finding, Gap, Synthesis
from emissions.judgements import (
    ComplexityScore,
    ComplianceVerdict,
    Objection,
    Proposal,
    Recommendation,
    RiskAssessment,
    Verdict,
)
from emissions.plans import DesignSpec, ExecutionPlan, TaskAssignment
from emissions.work import ArtifactProduced, Document, OperationOutcome, Postmortem, VerificationResult

_ALL: Final[tuple[type[Emission], ...]] = (
    Finding,
    Conflict,
    Gap,
    Diagnosis,
    Synthesis,
    Verdict,
    ComplianceVerdict,
    RiskAssessment,
    Objection,
    Recommendation,
    AnalysisResult,
    ComplexityScore,
    ExecutionPlan,
    TaskAssignment,
    DesignSpec,
    ArtifactProduced,
    VerificationResult,
    Document,
    OperationOutcome,
    Proposal,
    Postmortem,
    EscalationRequest,
    SpawnRequest,
)

EMISSIONS: Final[Mapping[str, type[Emission]]] = MappingProxyType({type_.__name__: type_ for type_ in _ALL})
"""Kind (class name) -> type, for the 23 types of the house; read-only."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class UnknownEmissionError(OrchestratorError, LookupError):
    """No emission type has this name; the message suggests the nearest one."""


def kind_of(emission: Emission | type[Emission]) -> str:
    """Return the kind of an emission or of its type: the class name."""
    return emission.emission_kind


def tag(type_: type[Emission]) -> str:
    """Return the snake_case name that fences and tools use: SpawnRequest -> "spawn_request"."""
    return _HUMP.sub("_", type_.emission_kind).lower()


def names_of(types: Mapping[str, type[Emission]]) -> dict[str, type[Emission]]:
    """Return every name, class name and tag, under which these types are found."""
    return _NAMES if types is EMISSIONS else _named(types)


def _named(types: Mapping[str, type[Emission]]) -> dict[str, type[Emission]]:
    return {**{tag(type_): type_ for type_ in types.values()}, **types}


_NAMES: Final = _named(EMISSIONS)


def nearest_kind(name: str, types: Mapping[str, type[Emission]] = EMISSIONS) -> str | None:
    """Return the kind that `name` was probably meant to be, or None if none is near."""
    folded = {kind.lower(): kind for kind in types}
    wanted = re.sub(r"[ _-]", "", name[:100]).lower()
    found = difflib.get_close_matches(wanted, folded, n=1, cutoff=0.75)
    return folded[found[0]] if found else None


def emission_type(name: str) -> type[Emission]:
    """Return the emission type with this class name or tag ("SpawnRequest" or "spawn_request").

    Raises:
        UnknownEmissionError: there is none; spellings are not guessed.
    """
    try:
        return _NAMES[name]
    except KeyError:
        near = nearest_kind(name)
        hint = f"did you mean {near}?" if near else "`callboard emissions` lists them"
        raise UnknownEmissionError(f"no emission is called {name[:100]!r}; {hint}") from None


def json_schema(type_: type[Emission]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an emission type, its kind and version in `$id`."""
    return {"$id": f"urn:callboard:emission:{tag(type_)}:{type_.schema_version}", **type_.model_json_schema()}
