"""The documents that a document includes: read with it, never in a circle, never from outside its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from orchestrator.errors import FlowError
from orchestrator.flows.arguments import ArgumentError, bind_arguments
from orchestrator.flows.document import ArgSpec, Document
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.paths import path_fault
from orchestrator.flows.problems import Problem

__all__ = ["INCLUDE_DEPTH", "Included", "check_included", "read_includes"]

#: What only a node with a role or an operation can have.
_OF_ROLES: Final = (
    *("gate", "emits", "branch", "inherit", "fresh", "artifacts", "workdir", "returns"),
    *("model", "effort", "tools", "asks", "inputs"),
)
#: Documents below one another: a document, what it includes, what that includes, and so on.
INCLUDE_DEPTH: Final = 4


class Included(Protocol):
    """What a document needs to know of one that it includes."""

    @property
    def document(self) -> Document:
        """What it says."""

    @property
    def height(self) -> int:
        """How many documents stand below one another in it, itself counted."""


def read_includes(
    source: Source, document: Document, above: tuple[Path, ...], load: Callable[[Path], Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """The included documents by the path that names them, and what is wrong with the paths.

    Args:
        above: whole paths of this document and of those that include it. load: reads a document.

    Raises:
        FlowError: a document includes itself, perhaps through others, or includes are too deep.
    """
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    folder = above[-1].parent
    for name, node in document.nodes.items():
        if node.flow is None or node.flow in found:
            continue
        place: Place = ("nodes", name, "flow")
        path = folder / node.flow
        if path_fault(node.flow) or not path.resolve().is_relative_to(folder.resolve()):
            problems.append(source.problem(place, f"{node.flow} leaves the document's folder; move it there"))
        elif not path.is_file():
            problems.append(source.problem(place, f"{node.flow} does not exist beside the document"))
        else:
            fault = _circle(path.resolve(), above)
            flow = None if fault else load(Path(source.file).parent / node.flow)
            if flow is not None and len(above) + flow.height > INCLUDE_DEPTH + 1:
                fault = f"{node.flow} is included too deep; at most {INCLUDE_DEPTH} documents stand below one"
            if fault:
                line, column = source.position(place)
                raise FlowError(fault, file=source.file, line=line, column=column)
            found[node.flow] = flow
    return found, problems


def _circle(path: Path, above: tuple[Path, ...]) -> str | None:
    if path not in above:
        return None
    names = [one.name for one in (*above[above.index(path) :], path)]
    return f"a document cannot include itself: {' -> '.join(names)}"


def check_included(source: Source, name: str, document: Document, flow: Included | None) -> Iterator[Problem]:
    """Problems of a node that includes a flow: what it gives it, and what only roles can have."""
    node, place = document.nodes[name], ("nodes", name)
    for key in (key for key in _OF_ROLES if getattr(node, key)):
        message = f"{name} includes a flow, which has no {key}; write it at a node of {node.flow}"
        yield source.problem((*place, key), message, key=True)
    if node.instruction:
        message = f"{name} includes a flow, which is told by with:, not by an instruction"
        yield source.problem((*place, "instruction"), message, key=True)
    if flow is not None and flow.document.schedule == "supersteps":
        message = f"{name} includes {node.flow}, which has schedule: supersteps; run that document by itself"
        yield source.problem((*place, "flow"), message)
    if flow is not None:
        yield from _arguments(source, place, node.parameters, flow.document.args, str(node.flow))


def _arguments(
    source: Source, place: Place, given: Mapping[str, Any], known: Mapping[str, ArgSpec], where: str
) -> Iterator[Problem]:
    for key, value in given.items():
        at = (*place, "with", key)
        if key not in known:
            message = f"{where} has no argument {key!r}{suggestion(key, known)}"
            yield source.problem(at, message, key=True)
        elif not (isinstance(value, str) and "${" in value):
            try:
                bind_arguments({key: known[key]}, {key: value})
            except ArgumentError as error:
                yield source.problem(at, f"{where}: {error}")
    for key, spec in known.items():
        if spec.required and key not in given:
            yield source.problem(place, f"{where} needs the argument {key!r}; give it in with:", key=True)
