"""What can be wrong with a declaration."""

from emissions import OrchestratorError


class RoleError(OrchestratorError, ValueError):
    """A role is declared wrongly, or its file cannot be read; the message says what, where and what to do."""


class UnknownRoleError(RoleError, LookupError):
    """No role has this name; the message suggests the nearest ones."""
