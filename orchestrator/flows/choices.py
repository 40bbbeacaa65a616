"""Checks of what a node narrows or chooses: emissions, tools, model, what its model is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from emissions import EMISSIONS
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem, Severity
from roles import Role

__all__ = ["check_choices"]

#: PROVIDER:NAME, the form that model libraries share; ``test`` is the model that calls nobody.
_MODEL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:\S+|test")


def check_choices(source: Source, outline: Outline) -> Iterator[Problem]:
    """Problems of ``emits``, ``tools``, ``model``, ``asks`` and ``inputs``: narrow or choose, never widen."""
    default = outline.document.defaults.model
    if default is not None and not _MODEL.fullmatch(default):
        yield source.problem(("defaults", "model"), _form("defaults.model", default))
    for name in outline.document.nodes:
        yield from _emits(source, outline, name)
        yield from _tools(source, outline, name)
        yield from _model(source, outline, name)
        yield from _inputs(source, outline, name)


def _emits(source: Source, outline: Outline, name: str) -> Iterator[Problem]:
    role = outline.role(name)
    granted = {kind.__name__ for kind in role.grants} if role is not None else set(EMISSIONS)
    for number, kind in enumerate(outline.node(name).emits or ()):
        place: Place = ("nodes", name, "emits", number)
        if kind not in EMISSIONS:
            yield source.problem(place, f"there is no emission {kind!r}{suggestion(kind, EMISSIONS)}")
        elif role is not None and kind not in granted:
            message = (
                f"{name} cannot emit {kind}: its role {role.name} does not declare it; emits only narrows"
            )
            yield source.problem(place, message)


def _tools(source: Source, outline: Outline, name: str) -> Iterator[Problem]:
    role, named = outline.role(name), outline.node(name).tools
    if role is None or named is None:
        return
    known = _tool_names(role)
    for number, tool in enumerate(named):
        if tool not in known:
            message = (
                f"{name} cannot use {tool!r}: its role {role.name} does not have it; "
                f"tools only narrows{suggestion(tool, known)}"
            )
            yield source.problem(("nodes", name, "tools", number), message)


def _tool_names(role: Role) -> list[str]:
    return [tool if isinstance(tool, str) else str(getattr(tool, "__name__", tool)) for tool in role.tools]


def _model(source: Source, outline: Outline, name: str) -> Iterator[Problem]:
    node, role = outline.node(name), outline.role(name)
    own = role.models if role is not None else ()
    if node.model is not None and node.model not in own and not _MODEL.fullmatch(node.model):
        message = _form(f"model of {name}", node.model) + (suggestion(node.model, own) if own else "")
        yield source.problem(("nodes", name, "model"), message)
    for key in ("model", "effort", "asks", "tools", "inputs"):
        if role is not None and role.fn is not None and getattr(node, key) not in (None, False):
            message = f"{key} of {name} is only recorded: its role {role.name} is a function"
            yield source.problem(("nodes", name, key), message, Severity.NOTE, key=True)


def _form(what: str, model: str) -> str:
    return f"{what} is {model!r}; write PROVIDER:NAME"


def _inputs(source: Source, outline: Outline, name: str) -> Iterator[Problem]:
    shown = outline.node(name).inputs
    before = dict.fromkeys(outline.sources(name))
    for number, other in enumerate(shown if isinstance(shown, list) else ()):
        if other not in before:
            message = (
                f"inputs of {name} names {other!r}, which it does not come right after; "
                f"inputs only narrows{suggestion(other, before)}"
            )
            yield source.problem(("nodes", name, "inputs", number), message)
