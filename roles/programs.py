"""A program that performs a role: any executable, called with a list of arguments, never through a shell."""

from dataclasses import dataclass
from typing import Any, Final

from roles.errors import RoleError

__all__ = ["INSTRUCTION", "Program", "program_of"]

INSTRUCTION: Final = "{instruction}"
"""An argument that is this text is replaced by the path of the file that holds what the program is told."""

_OUTPUT: Final = 4 * 1024 * 1024
_PROTOCOLS: Final = ("text", "lines", "acp")
#: What an agent may ask to be allowed: the kinds of tool of the Agent Client Protocol.
_KINDS: Final = (
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
)


@dataclass(frozen=True, slots=True)
class Program:
    """How a program performs a role.

    Attributes:
        argv: the program and its arguments. One that names a file beside the role's own file means that file.
            `{instruction}` stands for a file with what the program is told; without it that comes on stdin.
        env: names of environment variables that it is given, beside the few that every program needs
            (PATH, HOME, LANG and the like). Their values are looked up at the call and are never recorded.
        result: a file in the node's folder that holds its value as JSON; without it the value is what it
            printed: `{"text": ..., "exit_code": 0}`.
        protocol: `text`: what it prints is text, in which tagged blocks are emissions; `lines`: each line is
            one JSON object (an emission, a report or the value), and receipts are answered on stdin; `acp`:
            an agent that speaks the Agent Client Protocol (the extra `agents`).
        output: bytes of output that are read; more of it fails the node.
        allow: under `acp`, what the agent may do when it asks first, by kind of tool: `read`, `edit`,
            `execute` and so on, or `*`; everything else is denied. Files are read and written for it in the
            node's folder alone.

    Raises:
        RoleError: an attribute does not hold what it should.
    """

    argv: tuple[str, ...]
    env: tuple[str, ...] = ()
    result: str | None = None
    protocol: str = "text"
    output: int = _OUTPUT
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no process could be started from."""
        for name in ("argv", "env", "allow"):
            texts = getattr(self, name)
            if isinstance(texts, str) or not all(
                isinstance(text, str) and text and "\0" not in text for text in texts
            ):
                raise RoleError(f"program: {name} is {texts!r}; give a list of texts, such as [python, x.py]")
            object.__setattr__(self, name, tuple(texts))
        if len(self.argv) == 0:
            raise RoleError("program: argv is empty; give the program and its arguments")
        if self.protocol not in _PROTOCOLS:
            raise RoleError(f"program: protocol is {self.protocol!r}; write text, lines or acp")
        if self.allow and self.protocol != "acp":
            raise RoleError("program: allow answers agents that ask; it goes with protocol: acp")
        if unknown := [kind for kind in self.allow if kind not in (*_KINDS, "*")]:
            raise RoleError(f"program: allow holds {unknown[0]!r}; there are {', '.join(_KINDS)} and *")
        if type(self.output) is not int or self.output < 1:
            raise RoleError(f"program: output is {self.output!r}; give bytes, at least 1")
        if self.result is not None:
            parts = self.result.split("/")
            if not self.result or self.result.startswith("/") or ".." in parts:
                raise RoleError(f"program: result is {self.result!r}; give a file in the node's folder")


def program_of(value: Any, where: str) -> Program | None:
    """Take a Program, a list of arguments, or None.

    Raises:
        RoleError: it is something else; the message begins with `where`.
    """
    if value is None or isinstance(value, Program):
        return value
    if isinstance(value, (list, tuple)):
        try:
            return Program(tuple(value))
        except RoleError as error:
            raise RoleError(f"{where}: {error}") from None
    raise RoleError(f"{where}: program is {type(value).__name__}; give its arguments: ('python', 'x.py')")
