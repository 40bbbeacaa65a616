"""Typed emissions: what a role may say to the house, the receipts it gets, and the boundary that reads them.

Floor 0: this package imports pydantic and the standard library, nothing of ours.
"""

from emissions.base import Emission, emission_stamp, stamp
from emissions.control import EscalationRequest, SpawnRequest
from emissions.errors import OrchestratorError
from emissions.extract import extract_json
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
from emissions.parse import Malformed, parse_mapping, parse_text
from emissions.plans import DesignSpec, ExecutionPlan, TaskAssignment
from emissions.receipts import Accepted, Receipt, RefusalReason, Refused
from emissions.registry import (
    EMISSIONS,
    UnknownEmissionError,
    emission_type,
    json_schema,
    kind_of,
    tag,
)
from emissions.values import Compliance, OutcomeStatus, Route, Severity, Urgency, VerdictValue
from emissions.work import ArtifactProduced, Document, OperationOutcome, Postmortem, VerificationResult

__all__ = [
    "EMISSIONS",
    "Accepted",
    "AnalysisResult",
    "ArtifactProduced",
    "ComplexityScore",
    "Compliance",
    "ComplianceVerdict",
    "Conflict",
    "DesignSpec",
    "Diagnosis",
    "Document",
    "Emission",
    "EscalationRequest",
    "ExecutionPlan",
    "Finding",
    "Gap",
    "Malformed",
    "Objection",
    "OperationOutcome",
    "OrchestratorError",
    "OutcomeStatus",
    "Postmortem",
    "Proposal",
    "Receipt",
    "Recommendation",
    "RefusalReason",
    "Refused",
    "RiskAssessment",
    "Route",
    "Severity",
    "SpawnRequest",
    "Synthesis",
    "TaskAssignment",
    "UnknownEmissionError",
    "Urgency",
    "Verdict",
    "VerdictValue",
    "VerificationResult",
    "emission_stamp",
    "emission_type",
    "extract_json",
    "json_schema",
    "kind_of",
    "parse_mapping",
    "parse_text",
    "stamp",
    "tag",
]
