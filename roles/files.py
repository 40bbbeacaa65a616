"""Roles from files, by path: a project's `cast.py` and `cast/*.md`."""

import ast
import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from emissions import Emission, UnknownEmissionError, emission_type
from roles.declaration import Artifact, Retry, Role
from roles.errors import RoleError
from roles.front_matter import Entry, Value, split_front_matter
from roles.programs import Program
from roles.tools import McpServer, Tool, bind_tools

MAX_FILE: Final = 256 * 1024
"""Largest role file, in bytes."""

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def load_roles(path: str | Path) -> list[Role]:
    """Return the roles that a file declares; of a folder those of its `*.py` and `*.md`, by name.

    A Python file runs under a private module name; its folder is not put on `sys.path`. Every Role that it
    holds is returned, in the order of definition; a file that has not changed is not run again. A Markdown
    file is one role: keys in its head (front_matter.py), body below; without `name` it is called like the
    file. A tool that a role names is that of these files, if they hold one.

    Raises:
        RoleError: the file cannot be read, run or understood; the message names file and line.
    """
    place = Path(path)
    known = load_tools(place)
    return [bind_tools(role, known) for file in _files(place) for role in _roles(file)]


def load_tools(path: str | Path) -> dict[str, Tool | McpServer]:
    """Return the tools (`@tool`) and servers (`McpServer`) of a Python file, or of a folder's, by name.

    Raises:
        RoleError: a file cannot be read or run, or two of them have one name.
    """
    found: dict[str, Tool | McpServer] = {}
    for file in _files(Path(path)):
        for one in vars(load_module(file)).values() if file.suffix == ".py" else ():
            if not isinstance(one, Tool | McpServer) or found.get(one.name) is one:
                continue
            if one.name in found:
                raise RoleError(f"{file}: two tools or servers are called {one.name}; rename one")
            if isinstance(one, McpServer) and not one.origin:
                object.__setattr__(one, "origin", str(file))
            found[one.name] = one
    return found


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    return sorted(file for file in place.iterdir() if file.suffix in {".md", ".py"} and file.is_file())


def _roles(place: Path) -> list[Role]:
    content = _read(place)
    if place.suffix == ".py":
        return _python_roles(place, content)
    if place.suffix == ".md":
        return [_markdown_role(place, content)]
    raise RoleError(f"{place}: a role file is Python (.py) or Markdown (.md)")


def load_module(path: str | Path) -> ModuleType:
    """Run a Python file under a private module name and return the module; once while it does not change.

    Its folder is not put on `sys.path`.

    Raises:
        RoleError: the file cannot be read or run; the message names file and line.
    """
    place = Path(path)
    return _module(place, _read(place))


def _read(place: Path) -> bytes:
    try:
        if place.exists() and not place.is_file():
            # a named pipe would block until somebody writes
            raise RoleError(f"{place}: this is no regular file; give the path of a role file")
        with place.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except OSError as error:
        raise RoleError(f"{place}: {error.strerror or error}; give the path of a role file") from error
    if len(content) > MAX_FILE:
        raise RoleError(f"{place}: larger than {MAX_FILE // 1024} KiB; a role file is not a place for data")
    return content


def _module(place: Path, content: bytes) -> ModuleType:
    digest = hashlib.sha256(
        str(place.resolve()).encode(errors="surrogateescape") + b"\0" + content
    ).hexdigest()
    name = f"_callboard_cast_{digest[:20]}"
    return sys.modules.get(name) or _run(name, place)


def _python_roles(place: Path, content: bytes) -> list[Role]:
    module = _module(place, content)
    roles: list[Role] = []
    for name, value in vars(module).items():
        if not isinstance(value, Role) or any(value is role for role in roles):
            continue
        roles.append(value)
        if not value.origin:
            # the loader alone knows where a bare Role(...) stood
            object.__setattr__(value, "origin", f"{place}:{_line_of_name(name, content)}")
    return roles


def _line_of_name(name: str, content: bytes) -> int:
    """The line that gives a name of a module its last value; 1 if the module came by it in another way."""
    lines = [
        node.lineno
        for node in ast.walk(ast.parse(content))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
    ]
    return max(lines, default=1)


def _run(name: str, place: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise RoleError(f"{place}: Python cannot load it; a role file ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pydantic look their module up while it runs
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except BaseException as error:
        # SystemExit included: else a cast that ends the interpreter ends the command that reads it.
        del sys.modules[name]
        raise RoleError(f"{place}:{_line_of(error, place)}: {type(error).__name__}: {error}") from error
    return module


def _line_of(error: BaseException, place: Path) -> int:
    """Return the line in this file that led to the error."""
    names = (str(place), str(place.absolute()))  # the import system makes a relative path absolute
    if isinstance(error, SyntaxError) and error.filename in names:
        return error.lineno or 1
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
    return (frames[-1].lineno if frames else None) or 1


def _markdown_role(place: Path, content: bytes) -> Role:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RoleError(f"{place}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    where = str(place)
    head = split_front_matter(text, where)
    keys: dict[str, Any] = {"name": place.stem, "body": head.body, "origin": where}
    for key, entry in head.entries.items():
        reader = _READERS.get(key)
        if reader is None:
            raise RoleError(f"{where}:{entry.line}: unknown key {key!r}; there are {', '.join(_READERS)}")
        keys[key] = _read_key(reader, key, entry, where)
    if not head.body:
        raise RoleError(f"{where}: it has no body; say below the head what the role does")
    try:
        return Role(**keys)
    except RoleError as error:
        raise RoleError(f"{where}: {error}") from error


def _read_key(reader: Callable[[Value], Any], key: str, entry: Entry, where: str) -> Any:
    try:
        return reader(entry.value)
    except (RoleError, UnknownEmissionError, ValueError, TypeError) as error:
        raise RoleError(f"{where}:{entry.line}: {key}: {error}") from error


def _text(value: Value) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("give one text")


def _list(value: Value) -> list[Value]:
    if isinstance(value, list):
        return value
    raise ValueError("give a list: [a, b]")


def _texts(value: Value) -> tuple[str, ...]:
    return tuple(_text(item) for item in _list(value))


def _emission_types(value: Value) -> tuple[type[Emission], ...]:
    return tuple(emission_type(name) for name in _texts(value))


def _flag(value: Value) -> bool:
    flags = {"true": True, "false": False}
    if isinstance(value, str) and value in flags:
        return flags[value]
    raise ValueError("give true or false")


def _seconds(value: Value) -> float:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("give seconds, or a duration such as 90s, 30m or 2h")
    return float(match[1]) * _SECONDS[match[2]]


def _number(value: Value) -> float:
    return float(_text(value))


def _count(value: Value) -> int:
    return int(_text(value))


def _fields(value: Value, readers: Mapping[str, Callable[[Value], Any]]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"give {{{', '.join(readers)}}}")
    if unknown := [key for key in value if key not in readers]:
        raise ValueError(f"unknown key {unknown[0]!r}; there are {', '.join(readers)}")
    return {key: readers[key](item) for key, item in value.items()}


def _artifacts(value: Value) -> tuple[Artifact, ...]:
    return tuple(Artifact(**_fields(item, _ARTIFACT)) for item in _list(value))


def _retry(value: Value) -> Retry:
    return Retry(attempts=_count(value)) if isinstance(value, str) else Retry(**_fields(value, _RETRY))


def _program(value: Value) -> Program:
    return Program(_texts(value)) if isinstance(value, list) else Program(**_fields(value, _PROGRAM))


_ARTIFACT: Final[Mapping[str, Callable[[Value], Any]]] = {
    "name": _text,
    "path": _text,
    "required": _flag,
    "kind": _text,
}
_PROGRAM: Final[Mapping[str, Callable[[Value], Any]]] = {
    "argv": _texts,
    "env": _texts,
    "result": _text,
    "protocol": _text,
    "output": _count,
    "allow": _texts,
}
_RETRY: Final[Mapping[str, Callable[[Value], Any]]] = {
    "attempts": _count,
    "backoff": _seconds,
    "factor": _number,
    "max_delay": _seconds,
    "jitter": _number,
    "on": _texts,
}
_READERS: Final[Mapping[str, Callable[[Value], Any]]] = {
    "name": _text,
    "description": _text,
    "emits": _emission_types,
    "returns": _text,
    "models": _texts,
    "fallback": _texts,
    "effort": _text,
    "tools": _texts,
    "artifacts": _artifacts,
    "modes": _texts,
    "escalates_to": _text,
    "retry": _retry,
    "timeout": _seconds,
    "program": _program,
}
