"""Fenced blocks of a text that are tagged with an emission's kind, and the JSON values inside them.

A line that begins with three or more backticks or tildes is a fence. Inside JSON no line can begin so (a
string holds no raw line break), hence a block's text is what stands between two fence lines, and only the
decoder says where a value ends. Fences with a foreign tag follow CommonMark: they run to the first bare fence
that is as long.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

from emissions.json_text import Fault, NotJsonError, decode_at, skip_blanks
from emissions.receipts import RefusalReason
from emissions.registry import nearest_kind

_LINE: Final = re.compile(r"^[ \t\ufeff]*(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_VALUE_BEGINS: Final = re.compile(r"[{\[]")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")

# Tags of blocks that may well hold JSON objects and are not meant for us.
_FOREIGN: Final = frozenset(
    """
    avro bash bson config console copy css csv data diff dockerfile dotenv elixir example geojson go
    graphql har haskell hcl hjson html http ini input ipynb java javascript js json json5 jsonc
    jsonl jsonld jsonnet jsx julia kotlin linenums lines log lua markdown md mermaid ndjson nocopy
    none output php plain plaintext proto py pycon python r raw request response result rs ruby rust
    scala schema sh shell showlinenumbers sql swift template terraform test text title toml tool
    tool_call tool_result tools ts tsx txt typescript xml yaml yml zsh
    """.split()  # noqa: SIM905 - a list of bare words reads better as one text
)


@dataclass(frozen=True, slots=True)
class Block:
    """One tagged block.

    Attributes:
        kind: its tag, as written.
        items: the complete values in it with their text, in order; the items of a list each on its own.
        fault: why reading stopped before the block's end, or None.
        raw: the text that could not be read, or the whole block.
    """

    kind: str
    items: tuple[tuple[object, str], ...]
    fault: Fault | None
    raw: str


@dataclass(frozen=True, slots=True)
class _Fence:
    """One fence line."""

    mark: str
    info: str
    info_at: int
    begins: int
    ends: int

    @property
    def is_bare(self) -> bool:
        return not self.info.strip()

    @property
    def is_inline(self) -> bool:
        """Backticks after backticks on one line are a code span of prose, not a fence."""
        return self.mark[0] == "`" and "`" in self.info

    def is_closed_by(self, other: "_Fence") -> bool:
        return other.is_bare and other.mark.startswith(self.mark)


@dataclass(frozen=True, slots=True)
class _Tag:
    kind: str
    is_known: bool
    is_meant: bool
    """It can only have been meant as a kind, whatever the block holds."""


def find_blocks(text: str, names: Container[str]) -> Iterator[Block]:
    """Yield the blocks tagged with one of `names`, or with what can only be a wrong name, in order."""
    fences = [_Fence(m[1], m[2], m.start(2), m.start(), m.end()) for m in _LINE.finditer(text)]
    index = 0
    while index < len(fences):
        opener = fences[index]
        follower = fences[index + 1] if index + 1 < len(fences) else None
        closed = follower is not None and opener.is_closed_by(follower)
        tag = _read_tag(opener, names)
        if tag is not None:
            reader = _Reader(text[_body_at(opener) : follower.begins if follower else len(text)], opener.mark)
            reader.read(closed=closed)
            if tag.is_known or tag.is_meant or reader.holds_objects:
                yield reader.block(tag.kind)
                index += 2 if closed and not reader.closed_itself else 1
                continue
        index = _after_foreign(fences, index)


def _read_tag(fence: _Fence, names: Container[str]) -> _Tag | None:
    begin = _VALUE_BEGINS.search(fence.info)
    if fence.is_inline and begin is None:
        return None
    words = fence.info[: begin.start() if begin else None].split()
    is_json = bool(words) and words[0].lower() == "json"
    words = words[1:] if is_json else words
    if not words:
        return None
    word = words[0]
    if word in names:
        return _Tag(word, is_known=True, is_meant=True)
    if len(words) > 1 or not _NAME.fullmatch(word) or word.lower() in _FOREIGN:
        return None
    return _Tag(word, is_known=False, is_meant=is_json or nearest_kind(word) is not None)


def _body_at(fence: _Fence) -> int:
    """Return where the block's text begins: on the next line, or with a value on the fence's own."""
    begin = _VALUE_BEGINS.search(fence.info)
    return fence.info_at + begin.start() if begin else fence.ends


def _after_foreign(fences: list[_Fence], index: int) -> int:
    if fences[index].is_inline:
        return index + 1
    for later in range(index + 1, len(fences)):
        if fences[index].is_closed_by(fences[later]):
            return later + 1
    return len(fences)


class _Reader:
    """Reads the values of one block, as far as they go."""

    def __init__(self, body: str, mark: str) -> None:
        self._body = body
        self._mark = mark
        self._items: list[tuple[object, str]] = []
        self._fault: Fault | None = None
        self._rest = body
        self.closed_itself = False
        """The closing fence stands behind the last value, on its line."""

    @property
    def holds_objects(self) -> bool:
        return self._fault is None and all(isinstance(value, dict) for value, _ in self._items)

    def block(self, kind: str) -> Block:
        return Block(kind, tuple(self._items), self._fault, self._rest.strip())

    def read(self, *, closed: bool) -> None:
        """Read value after value; of a block that was never closed only the first, for prose follows it."""
        at = skip_blanks(self._body, 0)
        if at == len(self._body):
            self._fault = Fault(RefusalReason.MALFORMED, "the block is empty")
            return
        try:
            at = self._value(at)
            while closed and self._body[at : at + 1] in ("{", "["):
                at = self._value(at)
        except NotJsonError as error:
            self._fault = error.fault
            return
        self.closed_itself = self._body.startswith(self._mark, at)
        if closed and not self.closed_itself and at < len(self._body):
            self._fault = Fault(RefusalReason.MALFORMED, "there is text after the value")
            self._rest = self._body[at:]

    def _value(self, at: int) -> int:
        end = self._list(skip_blanks(self._body, at + 1)) if self._body[at] == "[" else self._item(at)
        return skip_blanks(self._body, end)

    def _item(self, at: int) -> int:
        value, end = decode_at(self._body, at)
        self._items.append((value, self._body[at:end]))
        return end

    def _list(self, at: int) -> int:
        """Read a list item by item, so that what stands before a broken item is kept."""
        if self._body[at : at + 1] == "]":
            return at + 1
        while True:
            at = skip_blanks(self._body, self._item(at))
            mark = self._body[at : at + 1]
            if mark == "]":
                return at + 1
            if mark != ",":
                what = "expected ',' or ']' after a list's item" if mark else "the list is cut off"
                raise NotJsonError(Fault(RefusalReason.MALFORMED, what), at=at, cut_off=not mark)
            at = skip_blanks(self._body, at + 1)
