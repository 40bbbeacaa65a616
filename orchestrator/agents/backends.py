"""The table of backends: what performs a role that has no function. A library is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

from orchestrator.agents import process
from orchestrator.agents.jobs import Backend, Job
from orchestrator.errors import ExecutionError, OperationError
from roles import Role

__all__ = ["backend_for", "check_model", "check_program", "mcp_client", "priced"]


def backend_for(job: Job) -> Backend:
    """What performs a job.

    Raises:
        ExecutionError: nothing does.
    """
    program = job.role.program
    if program is not None:
        return process.perform if program.protocol != "acp" else cast("Backend", _agents().perform)
    if job.models:
        return cast("Backend", _models().perform)
    raise ExecutionError(f"role {job.role.name} has no function, no program and no model")


def check_program(role: Role) -> None:
    """Refuse an agent that nobody here can talk to.

    Raises:
        OperationError: what is missing, and the command that installs it.
    """
    if role.program is not None and role.program.protocol == "acp":
        _agents()


def check_model(where: str, model: str) -> None:
    """Refuse a model that cannot be called whatever happens: another form, or no library for it.

    Raises:
        OperationError: what is missing, and the command that installs it.
    """
    check: Callable[[str, str], None] = _models().check
    check(model, where)


def mcp_client() -> Any:
    """The module that speaks to servers of tools.

    Raises:
        OperationError: its library is missing; with the command that installs it.
    """
    return _loaded("orchestrator.agents.mcp", "servers of tools need", "mcp")


def priced(model: str) -> bool | None:
    """Whether it is known what a model costs; None where the extra ``models``, which knows, is missing."""
    try:
        known: Callable[[str], bool] = _models().priced
    except OperationError:
        return None
    return known(model)


def _agents() -> Any:
    return _loaded("orchestrator.agents.acp", "agents that speak ACP need", "agents")


def _models() -> Any:
    return _loaded("orchestrator.agents.models", "models need", "models")


def _loaded(module: str, who: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise OperationError(
            f"{who} the extra `{extra}` ({error.name} is missing): pip install 'callboard[{extra}]'"
        ) from None
