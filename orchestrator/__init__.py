"""Callboard: runs in which many agents work together on a graph that can grow while it runs.

Everything a user needs is imported from here. Each name is loaded when it is first asked for, so that
``import orchestrator`` costs next to nothing. Importing it verifies that the packages ``roles`` and
``emissions`` are this project's own.

Raises:
    ImportError: another package or file named ``roles`` or ``emissions`` is in the way; it is named.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emissions import EMISSIONS as EMISSIONS
    from emissions import Accepted as Accepted
    from emissions import AnalysisResult as AnalysisResult
    from emissions import ArtifactProduced as ArtifactProduced
    from emissions import ComplexityScore as ComplexityScore
    from emissions import Compliance as Compliance
    from emissions import ComplianceVerdict as ComplianceVerdict
    from emissions import Conflict as Conflict
    from emissions import DesignSpec as DesignSpec
    from emissions import Diagnosis as Diagnosis
    from emissions import Document as Document
    from emissions import Emission as Emission
    from emissions import EscalationRequest as EscalationRequest
    from emissions import ExecutionPlan as ExecutionPlan
    from emissions import Finding as Finding
    from emissions import Gap as Gap
    from emissions import Malformed as Malformed
    from emissions import Objection as Objection
    from emissions import OperationOutcome as OperationOutcome
    from emissions import OrchestratorError as OrchestratorError
    from emissions import OutcomeStatus as OutcomeStatus
    from emissions import Postmortem as Postmortem
    from emissions import Proposal as Proposal
    from emissions import Receipt as Receipt
    from emissions import Recommendation as Recommendation
    from emissions import RefusalReason as RefusalReason
    from emissions import Refused as Refused
    from emissions import RiskAssessment as RiskAssessment
    from emissions import Route as Route
    from emissions import Severity as Severity
    from emissions import SpawnRequest as SpawnRequest
    from emissions import Synthesis as Synthesis
    from emissions import TaskAssignment as TaskAssignment
    from emissions import Urgency as Urgency
    from emissions import Verdict as Verdict
    from emissions import VerdictValue as VerdictValue
    from emissions import VerificationResult as VerificationResult
    from emissions import emission_type as emission_type
    from emissions import json_schema as json_schema
    from orchestrator.agents import Branch as Branch
    from orchestrator.agents import Message as Message
    from orchestrator.core.context import REDUCERS as REDUCERS
    from orchestrator.core.spec import Budget as Budget
    from orchestrator.core.spec import Edge as Edge
    from orchestrator.core.spec import ForEach as ForEach
    from orchestrator.core.spec import Gate as Gate
    from orchestrator.core.spec import Inquiry as Inquiry
    from orchestrator.core.spec import Operation as Operation
    from orchestrator.core.spec import Retry as Retry
    from orchestrator.core.status import NodeStatus as NodeStatus
    from orchestrator.core.status import RunReason as RunReason
    from orchestrator.errors import ConditionError as ConditionError
    from orchestrator.errors import ContextConflictError as ContextConflictError
    from orchestrator.errors import CorruptJournalError as CorruptJournalError
    from orchestrator.errors import CycleError as CycleError
    from orchestrator.errors import DuplicateNodeError as DuplicateNodeError
    from orchestrator.errors import ExecutionError as ExecutionError
    from orchestrator.errors import FlowError as FlowError
    from orchestrator.errors import GraphError as GraphError
    from orchestrator.errors import IncompatibleJournalError as IncompatibleJournalError
    from orchestrator.errors import InternalError as InternalError
    from orchestrator.errors import JournalError as JournalError
    from orchestrator.errors import NeedsRecoveryError as NeedsRecoveryError
    from orchestrator.errors import OperationError as OperationError
    from orchestrator.errors import RunOwnedError as RunOwnedError
    from orchestrator.errors import UnknownNodeError as UnknownNodeError
    from orchestrator.flows.builder import OperationGraphBuilder as OperationGraphBuilder
    from orchestrator.flows.conditions import EdgeCondition as EdgeCondition
    from orchestrator.flows.expansion import ExpansionStrategy as ExpansionStrategy
    from orchestrator.flows.flow import Flow as Flow
    from orchestrator.flows.flow import load_flow as load_flow
    from orchestrator.flows.graph import Graph as Graph
    from orchestrator.flows.operations import create_operation as create_operation
    from orchestrator.flows.problems import Problem as Problem
    from orchestrator.journal.reading import JournalReader as JournalReader
    from orchestrator.journal.reading import open_journal as open_journal
    from orchestrator.runtime.changes import Inject as Inject
    from orchestrator.runtime.changes import Steer as Steer
    from orchestrator.runtime.changes import Veto as Veto
    from orchestrator.runtime.changes import Write as Write
    from orchestrator.runtime.envelopes import Envelope as Envelope
    from orchestrator.runtime.results import DroppedSpawn as DroppedSpawn
    from orchestrator.runtime.results import FlowEvent as FlowEvent
    from orchestrator.runtime.results import NodeResult as NodeResult
    from orchestrator.runtime.results import RoundRecord as RoundRecord
    from orchestrator.runtime.results import RunResult as RunResult
    from orchestrator.runtime.results import Usage as Usage
    from orchestrator.runtime.run import Run as Run
    from orchestrator.runtime.views import RunView as RunView
    from orchestrator.supersteps.sessions import Session as Session
    from orchestrator.supersteps.sessions import run_sync as run_sync
    from roles import Artifact as Artifact
    from roles import Catalogue as Catalogue
    from roles import Emitted as Emitted
    from roles import McpServer as McpServer
    from roles import NodeError as NodeError
    from roles import NotApplicable as NotApplicable
    from roles import Rework as Rework
    from roles import Role as Role
    from roles import RoleError as RoleError
    from roles import Tool as Tool
    from roles import Turn as Turn
    from roles import load_roles as load_roles
    from roles import role as role
    from roles import tool as tool

__all__ = [
    "EMISSIONS",
    "REDUCERS",
    "Accepted",
    "AnalysisResult",
    "Artifact",
    "ArtifactProduced",
    "Branch",
    "Budget",
    "Catalogue",
    "ComplexityScore",
    "Compliance",
    "ComplianceVerdict",
    "ConditionError",
    "Conflict",
    "ContextConflictError",
    "CorruptJournalError",
    "CycleError",
    "DesignSpec",
    "Diagnosis",
    "Document",
    "DroppedSpawn",
    "DuplicateNodeError",
    "Edge",
    "EdgeCondition",
    "Emission",
    "Emitted",
    "Envelope",
    "EscalationRequest",
    "ExecutionError",
    "ExecutionPlan",
    "ExpansionStrategy",
    "Finding",
    "Flow",
    "FlowError",
    "FlowEvent",
    "ForEach",
    "Gap",
    "Gate",
    "Graph",
    "GraphError",
    "IncompatibleJournalError",
    "Inject",
    "Inquiry",
    "InternalError",
    "JournalError",
    "JournalReader",
    "Malformed",
    "McpServer",
    "Message",
    "NeedsRecoveryError",
    "NodeError",
    "NodeResult",
    "NodeStatus",
    "NotApplicable",
    "Objection",
    "Operation",
    "OperationError",
    "OperationGraphBuilder",
    "OperationOutcome",
    "OrchestratorError",
    "OutcomeStatus",
    "Postmortem",
    "Problem",
    "Proposal",
    "Receipt",
    "Recommendation",
    "RefusalReason",
    "Refused",
    "Retry",
    "Rework",
    "RiskAssessment",
    "Role",
    "RoleError",
    "RoundRecord",
    "Route",
    "Run",
    "RunOwnedError",
    "RunReason",
    "RunResult",
    "RunView",
    "Session",
    "Severity",
    "SpawnRequest",
    "Steer",
    "Synthesis",
    "TaskAssignment",
    "Tool",
    "Turn",
    "UnknownNodeError",
    "Urgency",
    "Usage",
    "Verdict",
    "VerdictValue",
    "VerificationResult",
    "Veto",
    "Write",
    "create_operation",
    "emission_type",
    "json_schema",
    "load_flow",
    "load_roles",
    "open_journal",
    "role",
    "run_sync",
    "tool",
]

#: Name -> the module that defines it. The imports above say the same to type checkers.
_HOMES = {
    "Accepted": "emissions",
    "AnalysisResult": "emissions",
    "Artifact": "roles",
    "ArtifactProduced": "emissions",
    "Branch": "orchestrator.agents",
    "Budget": "orchestrator.core.spec",
    "Catalogue": "roles",
    "ComplexityScore": "emissions",
    "Compliance": "emissions",
    "ComplianceVerdict": "emissions",
    "ConditionError": "orchestrator.errors",
    "Conflict": "emissions",
    "ContextConflictError": "orchestrator.errors",
    "CorruptJournalError": "orchestrator.errors",
    "CycleError": "orchestrator.errors",
    "DesignSpec": "emissions",
    "Diagnosis": "emissions",
    "Document": "emissions",
    "DroppedSpawn": "orchestrator.runtime.results",
    "DuplicateNodeError": "orchestrator.errors",
    "EMISSIONS": "emissions",
    "Edge": "orchestrator.core.spec",
    "EdgeCondition": "orchestrator.flows.conditions",
    "Emission": "emissions",
    "Emitted": "roles",
    "Envelope": "orchestrator.runtime.envelopes",
    "EscalationRequest": "emissions",
    "ExecutionError": "orchestrator.errors",
    "ExecutionPlan": "emissions",
    "ExpansionStrategy": "orchestrator.flows.expansion",
    "Finding": "emissions",
    "Flow": "orchestrator.flows.flow",
    "FlowError": "orchestrator.errors",
    "FlowEvent": "orchestrator.runtime.results",
    "Gap": "emissions",
    "ForEach": "orchestrator.core.spec",
    "Gate": "orchestrator.core.spec",
    "Inquiry": "orchestrator.core.spec",
    "Graph": "orchestrator.flows.graph",
    "GraphError": "orchestrator.errors",
    "IncompatibleJournalError": "orchestrator.errors",
    "Inject": "orchestrator.runtime.changes",
    "InternalError": "orchestrator.errors",
    "JournalReader": "orchestrator.journal.reading",
    "JournalError": "orchestrator.errors",
    "Malformed": "emissions",
    "McpServer": "roles",
    "Message": "orchestrator.agents",
    "NeedsRecoveryError": "orchestrator.errors",
    "NodeError": "roles",
    "NodeResult": "orchestrator.runtime.results",
    "NotApplicable": "roles",
    "Objection": "emissions",
    "Operation": "orchestrator.core.spec",
    "OperationError": "orchestrator.errors",
    "OperationGraphBuilder": "orchestrator.flows.builder",
    "OperationOutcome": "emissions",
    "OrchestratorError": "emissions",
    "OutcomeStatus": "emissions",
    "Postmortem": "emissions",
    "Problem": "orchestrator.flows.problems",
    "Proposal": "emissions",
    "REDUCERS": "orchestrator.core.context",
    "Receipt": "emissions",
    "Recommendation": "emissions",
    "RefusalReason": "emissions",
    "Refused": "emissions",
    "Retry": "orchestrator.core.spec",
    "Rework": "roles",
    "RoundRecord": "orchestrator.runtime.results",
    "RiskAssessment": "emissions",
    "Role": "roles",
    "RoleError": "roles",
    "Route": "emissions",
    "Run": "orchestrator.runtime.run",
    "RunOwnedError": "orchestrator.errors",
    "RunReason": "orchestrator.core.status",
    "RunResult": "orchestrator.runtime.results",
    "RunView": "orchestrator.runtime.views",
    "Session": "orchestrator.supersteps.sessions",
    "Severity": "emissions",
    "SpawnRequest": "emissions",
    "NodeStatus": "orchestrator.core.status",
    "Steer": "orchestrator.runtime.changes",
    "Synthesis": "emissions",
    "TaskAssignment": "emissions",
    "Tool": "roles",
    "Turn": "roles",
    "UnknownNodeError": "orchestrator.errors",
    "Urgency": "emissions",
    "Usage": "orchestrator.runtime.results",
    "Verdict": "emissions",
    "VerdictValue": "emissions",
    "VerificationResult": "emissions",
    "Veto": "orchestrator.runtime.changes",
    "Write": "orchestrator.runtime.changes",
    "create_operation": "orchestrator.flows.operations",
    "emission_type": "emissions",
    "json_schema": "emissions",
    "load_flow": "orchestrator.flows.flow",
    "load_roles": "roles",
    "role": "roles",
    "open_journal": "orchestrator.journal.reading",
    "run_sync": "orchestrator.supersteps.sessions",
    "tool": "roles",
}


def _verify_own(package: str) -> None:
    """Refuse to work with a stranger's ``roles`` or ``emissions``."""
    spec = find_spec(package)
    home = Path(__file__).resolve().parent.parent / package / "__init__.py"
    found = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
    if found != home:
        place = found or (list(spec.submodule_search_locations or ()) if spec is not None else "nowhere")
        message = (
            f"callboard needs its own package {package!r}, but Python finds {place}; "
            f"rename that file or folder, or start Python elsewhere"
        )
        raise ImportError(message)


def _verify() -> None:
    """Verify both packages once."""
    global _verified  # noqa: PLW0603 (a fact about the process)
    if not _verified:
        for package in ("emissions", "roles"):
            _verify_own(package)
        _verified = True


_verified = False
if "pytest" not in sys.modules:
    # pytest imports the plugin in orchestrator.testing wherever callboard is installed; a project with a
    # roles/ folder that does not use callboard must still be able to run its tests: there the first use tells
    _verify()


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    _verify()
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted({*globals(), *__all__})
