"""Checks of files and folders: what nodes leave, where they work, and who else works there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePosixPath
from typing import Final

from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.paths import path_fault
from orchestrator.flows.problems import Problem
from orchestrator.flows.references import References, Surroundings

__all__ = ["check_files"]

#: A folder that the caller names, in an argument.
_ARGUMENT: Final = re.compile(r"\$\{\s*args\.[A-Za-z_][A-Za-z0-9_]*\s*\}")


def check_files(source: Source, outline: Outline) -> Iterator[Problem]:
    """Problems of ``artifacts``, ``workdir`` and ``shared``."""
    references = References(source, outline)
    for name, node in outline.document.nodes.items():
        place: Place = ("nodes", name)
        seen: set[str] = set()
        for number, artifact in enumerate(node.artifacts):
            here = (*place, "artifacts", number)
            fault = path_fault(artifact.path)
            if fault is not None:
                yield source.problem((*here, "path"), f"artifact {artifact.name} of {name}: {fault}")
            if artifact.name in seen:
                yield source.problem(
                    here, f"{name} declares the artifact {artifact.name!r} twice; remove one"
                )
            seen.add(artifact.name)
        if node.workdir is not None:
            fault = None if _ARGUMENT.fullmatch(node.workdir) else path_fault(node.workdir)
            if fault is not None:
                message = f"workdir of {name}: {fault}, or one argument: ${{args.NAME}}"
                yield source.problem((*place, "workdir"), message)
            around = Surroundings(None, ("args",), bare=False)
            yield from references.texts((*place, "workdir"), node.workdir, around)
        elif node.shared:
            message = f"shared of {name} says nothing without workdir: its own folder is nobody else's"
            yield source.problem((*place, "shared"), message, key=True)
    yield from _together(source, outline)
    yield from _of_run(source, outline)


def _together(source: Source, outline: Outline) -> Iterator[Problem]:
    """Nodes that could work in one folder at the same time."""
    nodes = outline.document.nodes
    working = [name for name, node in nodes.items() if node.workdir is not None]
    for one, other in combinations(working, 2):
        if outline.is_above(one, other) or outline.is_above(other, one):
            continue
        if not _meet(nodes[one].workdir or "", nodes[other].workdir or ""):
            continue
        alone = [name for name in (one, other) if not nodes[name].shared]
        if alone:
            message = (
                f"{one} and {other} could work in {nodes[other].workdir} at the same time; order them, or "
                f"write shared: true at {' and '.join(alone)}"
            )
            yield source.problem(("nodes", other, "workdir"), message)


def _meet(one: str, other: str) -> bool:
    """Whether one folder is the other, or lies inside it, as far as can be told."""
    first, second = PurePosixPath(one.replace(" ", "")), PurePosixPath(other.replace(" ", ""))
    return first.is_relative_to(second) or second.is_relative_to(first)


def _of_run(source: Source, outline: Outline) -> Iterator[Problem]:
    """What the run must leave has to be left by a node."""
    by_name: dict[str, set[str]] = {}
    for name in outline.document.nodes:
        for artifact in outline.artifacts(name).values():
            by_name.setdefault(artifact.name, set()).add(artifact.path)
    seen: set[str] = set()
    for number, wanted in enumerate(outline.document.artifacts):
        place: Place = ("artifacts", number)
        paths = by_name.get(wanted.name)
        if wanted.name in seen:
            yield source.problem(place, f"the artifact {wanted.name!r} stands twice; remove one")
        elif paths is None and outline.cast.complete:
            message = f"no node leaves {wanted.name!r}{suggestion(wanted.name, by_name)}"
            yield source.problem((*place, "name"), f"{message}; declare it at a node")
        elif paths is not None and wanted.path is not None and wanted.path not in paths:
            message = f"{wanted.name} is left as {' or '.join(sorted(paths))}, not as {wanted.path}"
            yield source.problem((*place, "path"), message)
        seen.add(wanted.name)
