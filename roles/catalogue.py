"""The roles of a run by name, without ambiguity."""

import difflib
from collections.abc import Iterable, Iterator

from roles.declaration import Role
from roles.errors import RoleError, UnknownRoleError


class Catalogue:
    """Roles by name, in the order in which they were added. A name means one role, whoever asks first.

    Args:
        roles: what to add at once.
        origin: where these come from, for messages.
    """

    def __init__(self, roles: Iterable[Role] = (), *, origin: str = "") -> None:
        self._roles: dict[str, Role] = {}
        self._origins: dict[str, str] = {}
        self.update(roles, origin=origin)

    def add(self, role: Role, *, origin: str = "") -> None:
        """Add one role; the very same one again is no news.

        Args:
            role: the role.
            origin: where it comes from; the place of its declaration if empty.

        Raises:
            RoleError: another role has this name; the message names both places.
        """
        if not isinstance(role, Role):
            raise RoleError(f"{role!r} is not a role; give a Role, or a function under @role()")
        place = origin or role.origin or "code"
        known = self._roles.get(role.name)
        if known is role:
            return
        if known is not None:
            raise RoleError(
                f"two roles are called {role.name}: one from {self._origins[role.name]}, "
                f"one from {place}; rename one"
            )
        self._roles[role.name] = role
        self._origins[role.name] = place

    def update(self, roles: Iterable[Role], *, origin: str = "") -> None:
        """Add several roles from one place; see `add`."""
        for role in roles:
            self.add(role, origin=origin)

    def get(self, name: str) -> Role:
        """Return the role of this name.

        Raises:
            UnknownRoleError: there is none; the message suggests the nearest names.
        """
        try:
            return self._roles[name]
        except KeyError:
            raise UnknownRoleError(f"no role is called {name!r}; {self._hint(name)}") from None

    def origin(self, name: str) -> str:
        """Return where the role of this name comes from.

        Raises:
            UnknownRoleError: there is none.
        """
        self.get(name)
        return self._origins[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names in order."""
        return tuple(self._roles)

    def __iter__(self) -> Iterator[Role]:
        return iter(self._roles.values())

    def __len__(self) -> int:
        return len(self._roles)

    def __contains__(self, name: object) -> bool:
        return name in self._roles

    def _hint(self, name: str) -> str:
        near = difflib.get_close_matches(str(name)[:100], self._roles, n=3)
        if near:
            return f"did you mean {' or '.join(near)}?"
        return (
            f"there are {', '.join(sorted(self._roles)[:20])}" if self._roles else "there are no roles here"
        )
