"""From what a person typed to flows and values: paths, ``K=V`` pairs, files of arguments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.agents.backends import priced
from orchestrator.errors import FlowError, OperationError
from orchestrator.flows.flow import Flow, load_flow
from orchestrator.flows.load import read_source
from orchestrator.flows.problems import Severity
from orchestrator.flows.settings import Settings, settings_for

__all__ = ["UsageError", "any_value", "arguments", "errors_of", "near", "open_flow", "pairs", "settings_here"]


class UsageError(OperationError):
    """Raised when a command line does not fit; nothing has run."""


def open_flow(path: Path) -> Flow:
    """The flow at a path; a folder means the ``flow.yaml`` in it.

    Raises:
        FlowError: there is no document, or it cannot be read at all.
    """
    place = path / "flow.yaml" if path.is_dir() else path
    if not place.exists():
        folder = place.parent if place.parent.is_dir() else Path()
        found = sorted(file.name for file in folder.glob("*.yaml"))
        hint = f"there are: {', '.join(found[:5])}" if found else "`callboard init` writes one"
        raise FlowError(f"there is no flow document here; {hint}", file=str(place))
    return load_flow(place)


def near(place: str) -> str:
    """A place as seen from here, if it is below here."""
    return place.removeprefix(f"{Path.cwd()}{os.sep}")


def settings_here(folder: Path) -> Settings:
    """The settings that hold for a folder.

    Raises:
        UsageError: one of their files does not fit.
    """
    settings, problems = settings_for(folder)
    if problems:
        raise UsageError(str(problems[0]))
    return settings


def errors_of(flow: Flow) -> list[str]:
    """Every error of a flow as ``file:line:col: message``."""
    return [str(problem) for problem in flow.check(priced=priced) if problem.severity is Severity.ERROR]


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``K=V`` texts as a mapping.

    Raises:
        UsageError: one has no name or no ``=``, or a name stands twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} is {text!r}; write {option} NAME=VALUE")
        if name in found:
            raise UsageError(f"{option} names {name!r} twice; give it once")
        found[name] = value
    return found


def arguments(texts: Iterable[str], file: Path | None) -> dict[str, Any]:
    """The arguments of a flow: those of a file, and over them those of the command line.

    Raises:
        UsageError: a pair or the file does not fit. FlowError: the file cannot be read.
    """
    values: dict[str, Any] = {} if file is None else dict(_read(file))
    values.update(pairs(texts, "--arg"))
    return values


def _read(file: Path) -> Mapping[str, Any]:
    """A mapping from a file; JSON is YAML as well, so one reader and its limits serve both."""
    source = read_source(file)
    if source.problems:
        first = source.problems[0]
        raise FlowError(first.message, file=first.file, line=first.line, column=first.column)
    if not isinstance(source.data, dict):
        raise UsageError(f"{file}: arguments are a mapping of names to values, not a {_kind(source.data)}")
    return source.data


def _kind(value: object) -> str:
    return {list: "list", str: "text", type(None): "null"}.get(type(value), type(value).__name__)


def any_value(text: str, where: str, *, strict: bool = False) -> Any:
    """JSON read as JSON; another text is itself, or with ``strict`` an error.

    Raises:
        UsageError: it has to be JSON and is not.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        if strict:
            raise UsageError(
                f"""{where} is not JSON ({error}); quote a text twice: '"like this"'"""
            ) from None
        return text
