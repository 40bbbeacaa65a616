"""The role library: one Markdown file to a role, in this folder."""

from functools import cache
from pathlib import Path

from roles.declaration import Role
from roles.files import load_roles

__all__ = ["library"]


def library() -> list[Role]:
    """Return the roles of the library, by name.

    Raises:
        RoleError: a file of the library is broken: a fault of the installation.
    """
    return list(_load())


@cache
def _load() -> tuple[Role, ...]:
    files = sorted(Path(__file__).parent.glob("*.md"))
    return tuple(role for file in files for role in load_roles(file))
