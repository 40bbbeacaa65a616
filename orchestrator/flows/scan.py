"""The look at a document's characters before the YAML reader sees it.

The reader needs seconds for a few hostile kilobytes (nested brackets, many aliases), so everything
that could make it slow, or that YAML and editors read differently, is refused here in one pass.
Quoted texts and comments are skipped; a block text (``|`` or ``>``) is recognised by its indentation.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["Refused", "refuse_hostile"]

SIZE_LIMIT: Final = 256 * 1024
LINE_LIMIT: Final = 2_000
DEPTH_LIMIT: Final = 32
ALIAS_LIMIT: Final = 20
ITEM_LIMIT: Final = 20_000

_BREAKS = re.compile("[\u0085\u2028\u2029]|\r(?!\n)")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_BLOCK = re.compile(r"(?:^|[\s:\-?])[|>][0-9+\-]{0,2}[ \t]*(?:#.*)?$")
_SINGLE = re.compile(r"'(?:[^']|'')*'")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_QUIET = re.compile(r"""[^\[\]{}'"#&*!<:,\-?\n\r \t]+""")
_PLAIN = re.compile(r"[^:#\n]+")
_COMPACT = re.compile(r"(?:[-?][ ]+)+")
_MARK = re.compile(r"(?:---|\.\.\.)(?:[ \t]|$)")
_NAME = re.compile(r"[^\s,\[\]{}]+")


class Refused(Exception):  # noqa: N818 (it is an answer that travels up, not an error of the program)
    """Raised with the place and the reason; ``load`` turns it into a FlowError."""

    def __init__(self, message: str, line: int, column: int) -> None:
        self.message, self.line, self.column = message, line, column
        super().__init__(message)


def refuse_hostile(text: str) -> None:
    """Pass ``text`` or raise Refused; takes time linear in its length."""
    if len(text) > SIZE_LIMIT:
        raise Refused(f"the document is larger than {SIZE_LIMIT // 1024} KiB", 1, 1)
    lines = text.count("\n") + 1
    if lines > LINE_LIMIT:
        raise Refused(f"the document has {lines:,} lines; at most {LINE_LIMIT:,} are read", LINE_LIMIT, 1)
    if text.count(",") + text.count(":") > ITEM_LIMIT:
        raise Refused(f"the document holds more than {ITEM_LIMIT:,} items", 1, 1)
    for pattern, what in (
        (_BREAKS, "a line break that editors read differently"),
        (_CONTROL, "a control character"),
    ):
        found = pattern.search(text)
        if found:
            raise _Scanner(text).refused(f"{what} ({found.group()!r}); remove it", found.start())
    _Scanner(text).run()


class _Scanner:
    """One pass over the characters; ``fresh`` says that a node may begin at the place being read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.aliases = 0
        self.fresh = True
        self.indents: list[int] = [0]

    def refused(self, message: str, at: int) -> Refused:
        line = self.text.count("\n", 0, at) + 1
        return Refused(message, line, at - (self.text.rfind("\n", 0, at) + 1) + 1)

    def run(self) -> None:
        position, block = 0, -1
        while position < len(self.text):
            end = self._end(position)
            line = self.text[position:end].rstrip("\r")
            content = line.lstrip(" ")
            indent = len(line) - len(content)
            if block >= 0 and (not content or indent > block):
                position = end + 1
                continue
            block = -1
            if content and not content.startswith("#"):
                end = self._line(position, line, indent)
                last = self.text[self.text.rfind("\n", 0, end) + 1 : end].rstrip("\r")
                if self.depth == 0 and _BLOCK.search(_unquoted(last)):
                    block = len(last) - len(last.lstrip(" "))
            position = end + 1

    def _end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def _line(self, start: int, line: str, indent: int) -> int:
        """Read from ``start`` to the end of the line in which what begins there ends."""
        at = start + indent
        if self.depth == 0:
            self.fresh = True
            self._beginning(start, line, indent)
        text = self.text
        while at < len(text) and text[at] != "\n":
            pattern = _QUIET if self.fresh or self.depth else _PLAIN
            quiet = pattern.match(text, at)
            if quiet is not None:
                at, self.fresh = quiet.end(), False
                continue
            char = text[at]
            if char == "#" and (at == start or text[at - 1] in " \t"):
                return self._end(at)
            at = self._quoted(at) if char in "'\"" and self.fresh else self._sign(at, char)
        return at

    def _sign(self, at: int, char: str) -> int:
        """Judge one character that can have a meaning; the place after it."""
        if char in " \t\r":
            return at + 1
        if char in "[{" and (self.fresh or self.depth):
            self.depth += 1
            if self.depth > DEPTH_LIMIT:
                raise self.refused(f"brackets nest deeper than {DEPTH_LIMIT} levels", at)
            self.fresh = True
        elif char in "]}" and self.depth:
            self.depth -= 1
            self.fresh = False
        elif self.fresh and char in "!*&<":
            return self._special(at, char)
        elif char == "," and self.depth:
            self.fresh = True
        else:
            parted = self.text[at + 1 : at + 2] in ("", " ", "\t", "\n", "\r")
            self.fresh = parted and (char == ":" or (char in "-?" and self.fresh))
        return at + 1

    def _special(self, at: int, char: str) -> int:
        """A tag, an alias, an anchor or a merge key; the place after it."""
        if char == "!":
            raise self.refused("tags (!) are not read; write the value plainly", at)
        if char == "<" and self.text.startswith("<<", at):
            raise self.refused("merge keys (<<) are not read; write the keys out", at)
        name = _NAME.match(self.text, at + 1)
        if char == "*" and name is not None:
            self.aliases += 1
            if self.aliases > ALIAS_LIMIT:
                raise self.refused(f"more than {ALIAS_LIMIT} aliases; write the values out", at)
        # An anchor stands before its node, which may still begin.
        self.fresh = char == "&"
        return name.end() if self.fresh and name is not None else at + 1

    def _quoted(self, at: int) -> int:
        """The end of a quoted text; a quote inside a plain text that goes on is an ordinary character."""
        self.fresh = False
        match = (_SINGLE if self.text[at] == "'" else _DOUBLE).match(self.text, at)
        if match is None:
            return at + 1
        opening = self.text.rfind("\n", 0, at) + 1
        least = at - opening - len(self.text[opening:at].lstrip(" "))
        rest = match.group().splitlines()[1:]
        inside = self.depth or all(
            not row.strip() or len(row) - len(row.lstrip(" ")) >= least for row in rest
        )
        return match.end() if inside else at + 1

    def _beginning(self, start: int, line: str, indent: int) -> None:
        """What only the start of a line can be: tabs, directives, document marks, indentation."""
        if line[indent : indent + 1] == "\t":
            raise self.refused("a tab indents this line; use spaces", start + indent)
        if line.startswith("%"):
            raise self.refused("directives (%) are not read; remove the line", start)
        if _MARK.match(line):
            before = (row.strip() for row in self.text[:start].splitlines())
            if line.startswith("...") or any(row and not row.startswith("#") for row in before):
                raise self.refused("one document only; remove this mark", start)
        while self.indents[-1] > indent:
            self.indents.pop()
        if indent > self.indents[-1]:
            self.indents.append(indent)
        compact = _COMPACT.match(line, indent)
        nested = len(compact.group().split()) if compact else 0
        if len(self.indents) + nested > DEPTH_LIMIT:
            raise self.refused(f"indentation nests deeper than {DEPTH_LIMIT} levels", start + indent)


def _unquoted(line: str) -> str:
    return _SINGLE.sub("''", _DOUBLE.sub('""', line))
