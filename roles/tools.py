"""What a role may use: functions of one's own, and servers that offer tools over a protocol."""

import fnmatch
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, overload
from urllib.parse import urlsplit

from roles.errors import RoleError

if TYPE_CHECKING:
    from roles.declaration import Role

__all__ = [
    "Bound",
    "McpServer",
    "Tool",
    "bind_tools",
    "bound",
    "check_tools",
    "listed",
    "tool",
    "tool_name",
]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
#: Of a server any of its tools, by a shell's pattern.
_LISTED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}(\.\S+)?")
_SECONDS: Final = 60.0
#: What a model has anyway, where it may.
_OURS: Final = ("ask", "write_artifact")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that roles may use, under a name.

    Attributes:
        name: what roles call it. fn: a function with types; plain (it runs in a thread) or `async`.

    Raises:
        RoleError: the name is none, or nothing can call it.
    """

    name: str
    fn: Callable[..., Any]

    def __post_init__(self) -> None:
        """Refuse what no model could call."""
        if not _NAME.fullmatch(self.name):
            raise RoleError(f"tool {self.name!r}: give a name of letters, digits, '_' or '-'")
        if isinstance(self.fn, type) or not callable(self.fn):
            raise RoleError(f"tool {self.name}: {self.fn!r} is no function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was written."""
        return self.fn(*args, **kwargs)

    @property
    def __name__(self) -> str:
        """What roles call it."""
        return self.name

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, for what looks through wrappers (`inspect.signature`)."""
        return self.fn


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...
@overload
def tool(*, name: str) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    fn: Callable[..., Any] | None = None, /, *, name: str = ""
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: `@tool`, or `@tool(name="look_up")`. The roles of its cast may name it.

    What its parameters are is read from their types, what it does from its docstring.

    Raises:
        RoleError: it is no function.
    """
    if fn is not None:
        return Tool(name or getattr(fn, "__name__", ""), fn)
    return lambda function: Tool(name or getattr(function, "__name__", ""), function)


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of the Model Context Protocol. Roles name its tools: `files.read`, or `files.*`.

    It is started, or connected to, when a role first needs one of its tools, and ends with the session.

    Attributes:
        name: what stands before the dot.
        argv: the program to start and its arguments; it speaks on its stdin and stdout. One that names a file
            beside the file that declares the server means that file.
        url: the address of a server that runs already (streamable HTTP), instead of `argv`.
        env: names of environment variables that the program is given, beside the few that every one needs.
        bearer: name of the environment variable with the token for `url`.
        timeout: seconds for the start, and for each call.
        origin: where it was declared; takes no part in equality.

    Raises:
        RoleError: an attribute does not hold what it should.
    """

    name: str
    _: KW_ONLY
    argv: tuple[str, ...] = ()
    url: str = ""
    env: tuple[str, ...] = ()
    bearer: str = ""
    timeout: float = _SECONDS
    origin: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what could not be reached."""
        where = f"server {self.name}"
        if not _NAME.fullmatch(self.name):
            raise RoleError(f"server {self.name!r}: give a name of letters, digits, '_' or '-'")
        for name in ("argv", "env"):
            texts = getattr(self, name)
            if isinstance(texts, str) or not all(isinstance(one, str) and one for one in texts):
                raise RoleError(f"{where}: {name} is {texts!r}; give a list of texts; there is no shell")
            object.__setattr__(self, name, tuple(texts))
        if bool(self.argv) == bool(self.url):
            raise RoleError(f"{where}: give argv, the program to start, or url, where it runs; one of both")
        if self.url and (urlsplit(self.url).scheme not in {"http", "https"} or not urlsplit(self.url).netloc):
            raise RoleError(f"{where}: url is {self.url!r}; give an address: http://127.0.0.1:8000/mcp")
        if not 0 < self.timeout < float("inf"):
            raise RoleError(f"{where}: timeout is {self.timeout!r}; give seconds, more than 0")


def tool_name(entry: Any) -> str:
    """What a role calls one of its tools."""
    return entry if isinstance(entry, str) else str(getattr(entry, "__name__", ""))


def listed(name: str, patterns: Iterable[str]) -> bool:
    """True if a list of names and patterns allows a tool."""
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def check_tools(where: str, tools: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse what is neither a function nor a name, and two of one name.

    Raises:
        RoleError: which, and what to give.
    """
    names: set[str] = set()
    for entry in tools:
        known = isinstance(entry, (str, Tool, Bound)) or inspect.isroutine(entry)
        name = tool_name(entry)
        if not known or not _LISTED.fullmatch(name):
            raise RoleError(f"{where}: tools holds {entry!r}; give a function or a name: look_up, files.read")
        if name in names:
            raise RoleError(f"{where}: two tools are called {name}; leave one out, or rename it with @tool")
        if name in _OURS or name.startswith("emit_"):
            raise RoleError(f"{where}: the tool {name} would hide ours of that name; rename it with @tool")
        names.add(name)
    return tools


@dataclass(frozen=True, slots=True)
class Bound:
    """A name of a role's list with the server that it names: what `files.read` becomes where it is known."""

    listed: str
    server: McpServer

    @property
    def __name__(self) -> str:
        """As the role wrote it."""
        return self.listed


def bound(entry: Any, known: Mapping[str, Tool | McpServer]) -> Any:
    """What a role's entry means among what is known; the entry itself where nothing there has its name."""
    if not isinstance(entry, str):
        return entry
    named = known.get(entry.partition(".")[0])
    if isinstance(named, McpServer) and "." in entry:
        return Bound(entry, named)
    named = known.get(entry)
    return named if isinstance(named, Tool) else entry


def bind_tools(role: "Role", known: Mapping[str, Tool | McpServer]) -> "Role":
    """A role with the tools and servers that it names; what is not known stays a name."""
    tools = tuple(bound(entry, known) for entry in role.tools)
    return role if tools == role.tools else replace(role, tools=tools)
