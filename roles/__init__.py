"""Roles: who works in a run, what each declares that it may emit, and the turn it works with.

Floor 1: this package imports `emissions` and the standard library, nothing else.
"""

from roles.catalogue import Catalogue
from roles.declaration import Artifact, Retry, Role
from roles.decorator import role
from roles.errors import RoleError, UnknownRoleError
from roles.files import load_roles, load_tools
from roles.library import library
from roles.modes import MODES
from roles.programs import Program
from roles.prompts import Brief, Handed, Prompt, build_prompt
from roles.tools import McpServer, Tool, bind_tools, tool
from roles.turn import Emitted, Inputs, NodeError, NotApplicable, Rework, Turn

__all__ = [
    "MODES",
    "Artifact",
    "Brief",
    "Catalogue",
    "Emitted",
    "Handed",
    "Inputs",
    "McpServer",
    "NodeError",
    "NotApplicable",
    "Program",
    "Prompt",
    "Retry",
    "Rework",
    "Role",
    "RoleError",
    "Tool",
    "Turn",
    "UnknownRoleError",
    "bind_tools",
    "build_prompt",
    "library",
    "load_roles",
    "load_tools",
    "role",
    "tool",
]
