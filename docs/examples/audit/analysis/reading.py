"""From bytes to a parsed module, or to the one reason why that is not possible."""

from __future__ import annotations

import ast
import io
import threading
import tokenize
import warnings
from pathlib import Path

from .model import Check, Issue
from .module import Module, index

MAX_BYTES = 2 * 1024 * 1024
"""Larger files are data in the shape of Python; they are named, not parsed."""

_PARSING = threading.Lock()


class UnreadableError(Exception):
    """A file that cannot be parsed; carries the one issue that says why."""

    def __init__(self, issue: Issue) -> None:
        """Keep the issue beside its text."""
        super().__init__(issue.text)
        self.issue = issue


def read(file: Path) -> bytes:
    """The bytes of a file.

    Raises:
        UnreadableError: it is larger than `MAX_BYTES`, or the system does not let us read it.

    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable("not-readable", error.strerror or type(error).__name__) from error
    if len(data) > MAX_BYTES:
        raise _unreadable(
            "too-large", f"the file is larger than {MAX_BYTES // 1024:,} KiB and was not parsed"
        )
    return data


def parse(path: str, data: bytes) -> tuple[Module, list[Issue]]:
    """The module in these bytes, with the warnings that Python's own parser gave.

    Raises:
        UnreadableError: not text, not Python, or nested deeper than the parser goes.

    """
    text = _decode(data)
    tree, warned = _tree(text)
    issues = [_issue("syntax-warning", str(w.message)[:200], w.lineno) for w in warned]
    return index(path, text, tree), issues


def _decode(data: bytes) -> str:
    if b"\0" in data:
        raise _unreadable("not-text", "the file holds null bytes; it is binary, or text in UTF-16")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except SyntaxError as error:
        raise _unreadable("not-text", f"the encoding is not known: {error.msg}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _unreadable(
            "not-text", f"byte 0x{data[error.start]:02x} is not valid {error.encoding}", line
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _tree(text: str) -> tuple[ast.Module, list[warnings.WarningMessage]]:
    """Parse one module at a time: warnings are state of the process, and so is the interpreter's lock."""
    try:
        with _PARSING, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            return ast.parse(text), list(warned)
    except SyntaxError as error:
        raise _unreadable("syntax-error", f"Python cannot parse this: {error.msg}", error.lineno) from error
    except (RecursionError, MemoryError) as error:
        raise _unreadable("too-deep", "the code is nested deeper than Python's parser goes") from error
    except ValueError as error:
        raise _unreadable("not-text", f"Python cannot read this: {error}") from error


def _unreadable(check: str, text: str, line: int | None = 1) -> UnreadableError:
    return UnreadableError(_issue(check, text, line))


def _issue(check: str, text: str, line: int | None) -> Issue:
    known = next(c for c in CHECKS if c.id == check)
    return Issue(check, line or 1, known.severity, known.confidence, text)


def _asked_elsewhere(_: Module) -> tuple[()]:
    return ()


CHECKS: tuple[Check, ...] = (
    Check(
        "syntax-error",
        "high",
        1.0,
        "Nothing in this file can run, and nothing in it was checked.",
        _asked_elsewhere,
        ("E999",),
    ),
    Check("not-text", "medium", 1.0, "It has the name of a Python module and is none.", _asked_elsewhere),
    Check(
        "not-readable",
        "medium",
        1.0,
        "The file could not be read, so nothing in it was checked.",
        _asked_elsewhere,
    ),
    Check("too-large", "low", 1.0, "Nothing in this file was checked.", _asked_elsewhere),
    Check("too-deep", "medium", 1.0, "Nothing in this file was checked.", _asked_elsewhere),
    Check(
        "syntax-warning", "low", 1.0, "A later version of Python will refuse it.", _asked_elsewhere, ("W605",)
    ),
)
