"""A document's ``outputs``, rendered when the run has stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.core.scopes import outputs_scope
from orchestrator.core.templates import compile_template
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["render_outputs"]


def render_outputs(outputs: Mapping[str, str], engine: Engine) -> dict[str, Any]:
    """Name -> value; what cannot be rendered (a node that did not complete) is left out and logged."""
    if not outputs:
        return {}
    scope = outputs_scope(engine.state, engine.reducers)
    rendered: dict[str, Any] = {}
    for name, text in outputs.items():
        try:
            rendered[name] = compile_template(text).value(scope)
        except OrchestratorError as error:
            engine.log.info("output %s is absent: %s", name, error)
    return rendered
