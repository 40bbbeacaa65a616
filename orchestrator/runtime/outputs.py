"""A document's ``outputs``, rendered when the run has stopped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from orchestrator.core.context import Reducer
from orchestrator.core.scopes import outputs_scope
from orchestrator.core.state import RunState
from orchestrator.core.templates import compile_template
from orchestrator.runtime.texts import said

__all__ = ["Finished", "render_outputs"]


class Finished(Protocol):
    """What outputs are rendered from: a run that was driven here, or one that was read."""

    log: logging.Logger

    @property
    def state(self) -> RunState:
        """What the run came to."""

    @property
    def reducers(self) -> Mapping[str, Reducer]:
        """The run's own reducers."""


def render_outputs(outputs: Mapping[str, str], run: Finished) -> dict[str, Any]:
    """Name -> value; what cannot be rendered (a node that did not complete) is left out and logged.

    That is no surprise after a run that did not complete; after one that did it is a warning.
    """
    if not outputs:
        return {}
    scope = outputs_scope(run.state, run.reducers)
    rendered: dict[str, Any] = {}
    for name, text in outputs.items():
        try:
            rendered[name] = compile_template(text).value(scope)
        except BaseException as error:  # noqa: BLE001 (a reducer behind ``context`` is its author's code)
            level = logging.WARNING if run.state.ended == "completed" else logging.INFO
            run.log.log(level, "output %s is absent: %s", name, said(error))
    return rendered
