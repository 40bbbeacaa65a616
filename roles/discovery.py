"""Roles that every project can use: those of the config folder, of installed packages, the library's."""

import os
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from roles.catalogue import Catalogue
from roles.declaration import Role
from roles.errors import RoleError
from roles.files import load_roles
from roles.library import library

GROUP: Final = "callboard.roles"
"""Entry points of this group name a Role, several of them, or a function that gives them."""


def config_folder() -> Path:
    """Return the folder of a person's own settings and roles; it need not exist.

    `CALLBOARD_CONFIG` if that is set, else `callboard` in `XDG_CONFIG_HOME`, else in `~/.config`.
    """
    named = os.environ.get("CALLBOARD_CONFIG")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "callboard"


def shared_roles() -> Catalogue:
    """Return the roles of `cast/` in the config folder, those of installed packages, and the library's.

    Raises:
        RoleError: one cannot be loaded, or two have one name; the message names both places.
    """
    found = Catalogue()
    folder = config_folder() / "cast"
    if folder.is_dir():
        found.update(load_roles(folder))
    for entry in sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        found.update(_offered(entry), origin=f"the entry point {entry.name} = {entry.value}")
    found.update(library())
    return found


def _offered(entry: EntryPoint) -> Iterator[Role]:
    place = f"entry point {entry.name} = {entry.value} of {GROUP}"
    try:
        given: Any = entry.load()
        given = given() if callable(given) and not isinstance(given, Role) else given
    except Exception as error:
        raise RoleError(f"{place} cannot be loaded: {type(error).__name__}: {error}") from error
    some = (given,) if isinstance(given, Role) else given
    if not isinstance(some, Iterable):
        raise RoleError(f"{place} gives a {type(given).__name__}; it has to give roles")
    for role in some:
        if not isinstance(role, Role):
            raise RoleError(f"{place} gives a {type(role).__name__} among its roles")
        yield role
