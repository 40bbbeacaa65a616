"""The head of a Markdown role file: a small, strict subset of YAML.

One `key: value` to a line. A value is text, text in quotes, `[a, b]` or `{key: value}`, all on its line. What
YAML would read differently (a bare `a: b`, ` #`, a leading `&`, `*`, `!`, `|`, `>`) is refused with its line:
quote it. Nothing is guessed from a value's look: what is a number or a flag is decided by the key it stands
under.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roles.errors import RoleError

Value = str | list["Value"] | dict[str, "Value"]

MAX_DEPTH: Final = 4

_KEY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*:(?:[ \t]+|$)")
_LINE: Final = re.compile(r"\r\n|\n|\r")
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'" + r'|"(?:[^"\\]|\\["\\nt])*"')
_BARE: Final = re.compile(r"[^,\[\]{}\"'#&*!|>%@`\s:-](?:[^,\[\]{}#:\n]|(?<! )#|:(?! |$))*")
_LINE_BARE: Final = re.compile(r"[^\[\]{}\"'#&*!|>%@`\s,:?-](?:[^#:\n]|(?<![ \t])#|:(?![ \t]|$))*")
_ESCAPES: Final = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the head, with the line it stands on."""

    value: Value
    line: int


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A file's head by key, and the text below it."""

    entries: Mapping[str, Entry]
    body: str


def split_front_matter(text: str, where: str) -> FrontMatter:
    """Read the head of a Markdown file: what stands between the `---` of its first line and the next.

    Raises:
        RoleError: there is no head, it does not end, a key stands twice, or a line is not understood.
    """
    lines = _LINE.split(text)
    if lines[0].rstrip() != "---":
        raise RoleError(f"{where}:1: a role file begins with a line '---', its keys, and another '---'")
    entries: dict[str, Entry] = {}
    for number, line in enumerate(lines[1:], start=2):
        if line.rstrip() == "---":
            return FrontMatter(entries, "\n".join(lines[number:]).strip())
        if not line.strip() or line.startswith("#"):
            continue
        key, value = _entry(line, f"{where}:{number}")
        if key in entries:
            raise RoleError(
                f"{where}:{number}: {key} was given in line {entries[key].line} already; leave one out"
            )
        entries[key] = Entry(value, number)
    raise RoleError(f"{where}:{len(lines)}: the head does not end; close it with a line '---'")


def _entry(line: str, where: str) -> tuple[str, Value]:
    match = _KEY.match(line)
    if match is None:
        hint = (
            "a list stands on its key's line: key: [a, b]"
            if line.lstrip().startswith("- ")
            else "write key: value"
        )
        raise RoleError(f"{where}: {line.strip()[:60]!r} is not understood; {hint}")
    reader = _Reader(line, match.end(), where)
    value = reader.value(_LINE_BARE, 0)
    reader.end()
    return match[1], value


class _Reader:
    """Reads the value that stands on one line."""

    def __init__(self, line: str, at: int, where: str) -> None:
        self._line = line
        self._at = at
        self._where = where

    def value(self, bare: re.Pattern[str], depth: int) -> Value:
        mark = self._peek()
        if mark in "[{" and mark:
            if depth >= MAX_DEPTH:
                raise self._error("nested too deep")
            self._at += 1
            return self._list(depth) if mark == "[" else self._mapping(depth)
        if match := _QUOTED.match(self._line, self._at):
            self._at = match.end()
            return _unquote(match[0])
        match = bare.match(self._line, self._at)
        if match is None:
            raise self._error("a value is missing, or has to be quoted")
        self._at = match.end()
        return match[0].rstrip()

    def end(self) -> None:
        rest = self._peek()
        if rest and not (rest == "#" and self._line[self._at - 1] in " \t"):
            raise self._error("it ends the value; quote the whole value")

    def _list(self, depth: int) -> list[Value]:
        items: list[Value] = []
        while not self._closes("]", first=not items):
            items.append(self.value(_BARE, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Value]:
        made: dict[str, Value] = {}
        while not self._closes("}", first=not made):
            self._peek()
            match = _KEY.match(self._line, self._at)
            if match is None:
                raise self._error("expected 'key: value'")
            if match[1] in made:
                raise self._error(f"{match[1]} stands twice")
            self._at = match.end()
            made[match[1]] = self.value(_BARE, depth + 1)
        return made

    def _closes(self, mark: str, *, first: bool) -> bool:
        """Step over the end of a list or mapping, or over the comma before its next item."""
        found = self._peek()
        if found == mark:
            self._at += 1
            return True
        if not first:
            if found != ",":
                raise self._error(f"expected ',' or '{mark}'")
            self._at += 1
        return False

    def _peek(self) -> str:
        while self._line[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        return self._line[self._at : self._at + 1]

    def _error(self, what: str) -> RoleError:
        rest = self._line[self._at : self._at + 40].strip()
        return RoleError(f"{self._where}:{self._at + 1}: at {rest!r}: {what}")


def _unquote(text: str) -> str:
    inner = text[1:-1]
    if text[0] == "'":
        return inner.replace("''", "'")
    return re.sub(r"\\.", lambda match: _ESCAPES[match[0]], inner)
