"""The table of backends: what performs a role that has no function. A library is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

from orchestrator.agents import process
from orchestrator.agents.jobs import Backend, Job
from orchestrator.errors import ExecutionError, OperationError
from roles import Role

__all__ = ["backend_for", "check_model"]

_MODELS: Final = "orchestrator.agents.models"


def backend_for(job: Job) -> Backend:
    """What performs a job.

    Raises:
        ExecutionError: nothing does.
    """
    if job.role.program is not None:
        return process.perform
    if job.models:
        return cast("Backend", _models().perform)
    raise ExecutionError(f"role {job.role.name} has no function, no program and no model")


def check_model(role: Role, model: str) -> None:
    """Refuse a model that cannot be called whatever happens: another form, or no library for it.

    Raises:
        OperationError: what is missing, and the command that installs it.
    """
    check: Callable[[str, str], None] = _models().check
    check(model, f"role {role.name}")


def _models() -> Any:
    try:
        return import_module(_MODELS)
    except ImportError as error:
        raise OperationError(
            f"models need the extra `models` ({error.name} is missing): pip install 'callboard[models]'"
        ) from None
