"""Checks of what a node narrows or chooses: emissions, tools, model, what its model is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from emissions import EMISSIONS
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem, Severity
from orchestrator.flows.settings import MODEL_FORM
from roles.tools import listed, tool_name

__all__ = ["check_choices", "check_tools"]


def check_choices(source: Source, outline: Outline) -> Iterator[Problem]:
    """Problems of ``emits``, ``tools``, ``model``, ``asks`` and ``inputs``: narrow or choose, never widen."""
    default = outline.document.defaults.model
    if default is not None and not MODEL_FORM.fullmatch(default):
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
    known = [tool_name(tool) for tool in role.tools]
    for number, tool in enumerate(named):
        if not listed(tool, known):
            message = (
                f"{name} cannot use {tool!r}: its role {role.name} does not have it; "
                f"tools only narrows{suggestion(tool, known)}"
            )
            yield source.problem(("nodes", name, "tools", number), message)


def check_tools(source: Source, outline: Outline, tools: Collection[str]) -> Iterator[Problem]:
    """Names of tools that neither the cast nor the session (``tools``) has, once for each role."""
    seen: set[str] = set()
    known = sorted({*tools, *outline.cast.tools})
    for name in outline.document.nodes:
        role = outline.role(name)
        if role is None or role.name in seen or role.fn is not None:
            continue
        seen.add(role.name)
        for tool in role.tools:
            # one of the cast is bound to its function or server already
            if isinstance(tool, str) and not _known(tool, tools):
                near = suggestion(tool, known) if known else ""
                message = (
                    f"role {role.name} names the tool {tool!r}, which nobody has: "
                    f"write @tool over its function, or McpServer, in a file of the cast{near}"
                )
                yield source.problem(("nodes", name, "role"), message)


def _known(tool: str, tools: Collection[str]) -> bool:
    return tool in tools or ("." in tool and tool.partition(".")[0] in tools)


def _model(source: Source, outline: Outline, name: str) -> Iterator[Problem]:
    node, role = outline.node(name), outline.role(name)
    own = role.models if role is not None else ()
    if node.model is not None and node.model not in own and not MODEL_FORM.fullmatch(node.model):
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
    before = dict.fromkeys(outline.document.context if outline.stepped else outline.sources(name))
    for number, other in enumerate(shown if isinstance(shown, list) else ()):
        if other not in before:
            what = "is no key of context:" if outline.stepped else "it does not come right after"
            message = (
                f"inputs of {name} names {other!r}, which {what}; "
                f"inputs only narrows{suggestion(other, before)}"
            )
            yield source.problem(("nodes", name, "inputs", number), message)
