"""The roles of a document: its role files, and the library's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import emissions
import roles as our_roles
from orchestrator.flows.document import Document
from orchestrator.flows.load import Source
from orchestrator.flows.problems import Problem, Severity
from roles import Catalogue, McpServer, Role, RoleError, Tool, bind_tools
from roles.discovery import shared_roles
from roles.files import load_roles, load_tools

__all__ = ["Cast", "hidden_modules", "load_cast"]

_OURS: Final = ("orchestrator", "roles", "emissions")


class Cast:
    """Roles that a document can name.

    Attributes:
        catalogue: every role, the library's included.
        own: names of the roles that stand in the document's own role files.
        complete: every role file could be loaded.
        tools: names of the functions and servers in its role files that roles may use.
    """

    __slots__ = ("catalogue", "complete", "own", "tools")

    def __init__(
        self,
        catalogue: Catalogue,
        own: frozenset[str],
        *,
        complete: bool = True,
        tools: frozenset[str] = frozenset(),
    ) -> None:
        self.catalogue, self.own, self.complete, self.tools = catalogue, own, complete, tools


def load_cast(source: Source, document: Document, folder: Path) -> tuple[Cast, list[Problem]]:
    """Load the role files that ``cast:`` names; files outside the document's folder are refused."""
    problems: list[Problem] = []
    loaded: list[tuple[int, Path, list[Role]]] = []
    tools: dict[str, Tool | McpServer] = {}
    root = folder.resolve()
    for number, entry in enumerate(document.cast):
        place = ("cast", number)
        path = folder / entry
        if not path.resolve().is_relative_to(root) or Path(entry).is_absolute():
            problems.append(source.problem(place, f"{entry} leaves the document's folder; move it there"))
            continue
        if not path.exists():
            problems.append(source.problem(place, f"{entry} does not exist beside the document"))
            continue
        try:
            loaded.append((number, path, load_roles(path)))
            _join(tools, load_tools(path), path)
        except RoleError as error:
            problems.append(source.problem(place, str(error)))
    catalogue, own = Catalogue(), list[str]()
    for number, path, found in loaded:
        try:
            for role in found:
                catalogue.add(bind_tools(role, tools), origin=role.origin or str(path))
                own.append(role.name)
        except RoleError as error:
            problems.append(source.problem(("cast", number), str(error)))
    try:
        known = shared_roles()
        shared = [role for role in known if role.name in own]
        for role in known:
            if role.name not in own:
                catalogue.add(role, origin=known.origin(role.name))
    except RoleError as error:
        problems.append(source.problem(("cast",), str(error)))
    else:
        if shared:
            names = ", ".join(role.name for role in shared)
            message = f"your {names} will be used, not the library's of the same name"
            problems.append(source.problem(("cast",), message, Severity.NOTE))
    complete = not any(problem.severity is Severity.ERROR for problem in problems)
    return Cast(catalogue, frozenset(own), complete=complete, tools=frozenset(tools)), problems


def _join(known: dict[str, Tool | McpServer], found: Mapping[str, Tool | McpServer], path: Path) -> None:
    """Add the tools of one more entry; a name means one tool."""
    for name, one in found.items():
        if known.setdefault(name, one) is not one:
            raise RoleError(f"{path}: a tool or server called {name} stands in another role file; rename one")


def hidden_modules(source: Source, folder: Path) -> list[Problem]:
    """Modules beside the document that Python would import in place of ours."""
    homes = {Path(str(package.__file__)).resolve().parents[1] for package in (emissions, our_roles)}
    found = []
    for name in _OURS:
        file, package = folder / f"{name}.py", folder / name
        # a folder without __init__.py yields to a package, wherever it stands on the path
        hides = file.is_file() or (package / "__init__.py").is_file()
        if (
            hides
            and package.resolve() not in homes
            and package.resolve().parent not in {home.parent for home in homes}
        ):
            shown = file if file.is_file() else package
            message = f"{shown} hides the package {name!r} of callboard; rename it"
            found.append(source.problem((), message))
    return found
