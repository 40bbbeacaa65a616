"""Files that an operation leaves, as somebody wrote them, and what a path inside a folder is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from orchestrator.core.encoding import fields_of, struct_of
from orchestrator.core.spec import Artifact
from orchestrator.errors import OperationError

__all__ = ["artifacts_of", "path_fault"]


def artifacts_of(values: object, where: str) -> tuple[Artifact, ...]:
    """The files that ``values`` mean: Artifacts, a role's, or mappings of their fields.

    Raises:
        OperationError: one is none of these, leaves the folder, or two have one name.
    """
    form = "give a list of {name, path, required, kind}"
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise OperationError(f"{where} is {values!r}; {form}")
    found: list[Artifact] = []
    for value in values:
        fields = value if isinstance(value, Mapping) else fields_of(value)
        try:
            artifact = struct_of(Artifact, fields)
        except ValueError as error:
            raise OperationError(f"{where}: {error}; {form}") from error
        fault = path_fault(artifact.path)
        if fault is not None or not artifact.name:
            raise OperationError(f"{where}: {artifact.name!r}: {fault or 'it has no name'}")
        if any(artifact.name == other.name for other in found):
            raise OperationError(f"{where}: two are called {artifact.name!r}; give each a name of its own")
        found.append(artifact)
    return tuple(found)


def path_fault(path: str) -> str | None:
    """What is wrong with a path that has to stay inside a folder, or None."""
    parts = PurePosixPath(path)
    if not path or parts.is_absolute() or ".." in parts.parts or "\\" in path or "\0" in path:
        return f"{path!r} is not a path inside the folder; give a relative one with '/' and without '..'"
    return None
