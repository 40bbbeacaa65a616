"""Files that a node claims or declares: each must exist inside the node's own folder."""

from __future__ import annotations

from pathlib import Path

from roles import Role

__all__ = ["claim_fault", "missing"]


def claim_fault(folder: Path, path: str) -> str | None:
    """Why a claimed file is none, or None.

    Args:
        folder: the node's. path: as the role gave it, relative to that folder or inside it.
    """
    home = folder.resolve()
    place = (home / path).resolve()
    if not place.is_relative_to(home):
        return f"{path!r} is outside the node's folder; write it to turn.workdir"
    if not place.is_file():
        return f"{path!r} does not exist in the node's folder; write it to turn.workdir first"
    return None


def missing(role: Role | None, folder: Path) -> str | None:
    """The first declared and required file that a node did not leave, or None."""
    for artifact in () if role is None else role.artifacts:
        if artifact.required:
            fault = claim_fault(folder, artifact.path)
            if fault is not None:
                return f"artifact {artifact.name!r}: {fault}"
    return None
