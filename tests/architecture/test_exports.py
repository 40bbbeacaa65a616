"""What a module says it exports is what it has; what users import is there and documented."""

from __future__ import annotations

import importlib
import inspect
import types

import pytest

from tests.architecture.tree import product, report

# The public surface: what users, docs and acceptance checks rely on.
SURFACE = """
 Accepted Budget ConditionError ContextConflictError CorruptJournalError CycleError DuplicateNodeError
EdgeCondition Emission Envelope ExecutionError ExpansionStrategy Flow FlowError FlowEvent ForEach Gate Graph
GraphError IncompatibleJournalError Inject Inquiry InternalError JournalError NeedsRecoveryError NodeError
NodeResult NodeStatus NotApplicable Operation OperationError OperationGraphBuilder OrchestratorError Problem
Receipt Refused Retry Role Run RunOwnedError RunReason RunResult Session Severity Steer Turn
UnknownNodeError VerdictValue Veto Write create_operation load_flow open_journal role run_sync

AnalysisResult ArtifactProduced ComplexityScore ComplianceVerdict Conflict DesignSpec Diagnosis Document
EscalationRequest ExecutionPlan Finding Gap Objection OperationOutcome Postmortem Proposal Recommendation
RiskAssessment SpawnRequest Synthesis TaskAssignment Verdict VerificationResult
""".split()

TESTING = "fake_turn run_flow_with scripted virtual_clock".split()

# Promised by the public surface and not built yet: the name, and what it comes with.
PENDING: dict[str, str] = {}

# Top-level packages of the extras: a module that needs one which is not installed cannot be looked at here.
EXTRAS = {"acp", "apsw", "mcp", "nats", "opentelemetry", "pydantic_ai", "starlette", "stamina", "uvicorn"}


def load(name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in EXTRAS:
            pytest.skip(f"{name} needs {error.name}, which is not installed")
        raise


MODULES = [source.module for source in product() if not source.module.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_all_matches_the_module(name: str):
    """Each name in `__all__` exists, once; each public function or class of a module is in its `__all__`."""
    module = load(name)
    exported = list(getattr(module, "__all__", ()))
    assert len(exported) == len(set(exported)), f"{name}.__all__ names something twice"
    missing = [entry for entry in exported if not hasattr(module, entry)]
    assert not missing, f"{name}.__all__ names what is not there: {missing}"
    if not exported:
        return
    defined = {
        key
        for key, value in vars(module).items()
        if (inspect.isroutine(value) or inspect.isclass(value)) and value.__module__ == name
    }
    unlisted = sorted(key for key in defined - set(exported) if not key.startswith("_"))
    assert not unlisted, f"{name} defines and does not export: {unlisted}"


def public() -> types.ModuleType:
    return load("orchestrator")


def test_the_public_surface_is_there():
    """Every name of the public surface can be imported from `orchestrator` and is in its `__all__`."""
    module = public()
    exported = set(getattr(module, "__all__", ()))
    missing = sorted(name for name in SURFACE if name not in exported or not hasattr(module, name))
    assert not missing, report(missing)


def test_nothing_pending_has_arrived():
    """A promised name that exists now moves from PENDING to SURFACE."""
    arrived = sorted(PENDING.keys() & set(getattr(public(), "__all__", ())))
    assert not arrived, report(arrived)


def test_the_testing_kit_is_there():
    """Every name of the kit can be imported from `orchestrator.testing`."""
    module = load("orchestrator.testing")
    missing = [name for name in TESTING if not hasattr(module, name)]
    assert not missing, report(missing)


def documented(value: object) -> bool:
    """Whether a public name says what it is. An alias of types and a constant cannot carry a docstring."""
    if not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)):
        return True
    own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    made_up = f"{getattr(value, '__name__', '')}("  # what dataclass writes when nobody wrote anything
    return bool(own and own.strip()) and not own.startswith(made_up)


def test_every_public_name_is_documented():
    """Each class and function of the public surface has a docstring that somebody wrote."""
    module = public()
    bare = [name for name in getattr(module, "__all__", ()) if not documented(getattr(module, name))]
    assert not bare, report(bare)


def test_public_methods_are_documented():
    """Each public method of a class of the public surface has a docstring too."""
    module = public()
    bare = [
        f"{name}.{key}"
        for name in getattr(module, "__all__", ())
        if inspect.isclass(cls := getattr(module, name))
        for key, member in vars(cls).items()
        if not key.startswith("_")
        and (isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member))
        and not inspect.getdoc(member)
    ]
    assert not bare, report(bare)


def test_dir_shows_the_surface():
    """Completion in an editor or a notebook sees the lazy names."""
    module = public()
    assert set(getattr(module, "__all__", ())) <= set(dir(module))


def test_an_unknown_name_is_an_attribute_error():
    """The lazy door refuses like any module: with the module and the name."""
    with pytest.raises(AttributeError, match=r"orchestrator.*no_such_name"):
        _ = public().no_such_name
