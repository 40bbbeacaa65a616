"""From a file to plain data with positions: strict YAML, read by our own rules for scalars.

Only ``true`` and ``false`` are bools, ``null`` or nothing is null, numbers are written plainly. What
other YAML readers take for something else (``no``, ``12:30:45``, ``010``, dates) has to be quoted.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from orchestrator.errors import FlowError
from orchestrator.flows.problems import Problem, Severity
from orchestrator.flows.scan import SIZE_LIMIT, Refused, refuse_hostile

__all__ = ["Place", "Source", "read_source", "source_of"]

#: Keys and positions from the top of the document.
Place = tuple[str | int, ...]

_VALUE_LIMIT: Final = 20_000
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,18})\.[0-9]{1,18}")
_SURPRISE = re.compile(
    r"""(?:yes|no|on|off|~|null|true|false)      # words that readers take for bools or null
    |[-+]?\.(?:inf|nan)|[-+]?[0-9][0-9_,]*(?:[.:][0-9_:.]*)?(?:e[-+]?[0-9]+)?|\+[0-9].*
    |0[xob][0-9a-f_]+|[-+]?\.[0-9].*|=
    |[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?  # dates
    """,
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(slots=True)
class Source:
    """A document as plain data.

    Attributes:
        file: the document as the caller named it.
        data: mappings, lists, texts, numbers, bools, null.
        text: what was read.
        values: where each value stands. keys: where each key stands. Lines and columns count from 1.
        problems: what was wrong while reading; the data is as complete as it can be.
    """

    file: str
    text: str = ""
    data: Any = None
    values: dict[Place, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Place, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def position(self, place: Place, *, key: bool = False) -> tuple[int, int]:
        """Line and column of a value (or of its key), or of the nearest thing around it that has one."""
        for length in range(len(place), -1, -1):
            part = place[:length]
            found = (key and self.keys.get(part)) or self.values.get(part)
            if found:
                return found
        return 1, 1

    def close_up(self, around: Place, removed: int) -> None:
        """Move the places of a list's later entries up, after entry ``removed`` was taken out."""
        depth = len(around)
        for places in (self.values, self.keys):
            for place in [one for one in places if one[:depth] == around and len(one) > depth]:
                number = place[depth]
                if isinstance(number, int) and number > removed:
                    places[*around, number - 1, *place[depth + 1 :]] = places.pop(place)

    def problem(
        self,
        place: Place,
        message: str,
        severity: Severity = Severity.ERROR,
        *,
        key: bool = False,
        code: str = "",
    ) -> Problem:
        """A problem at a place."""
        line, column = self.position(place, key=key)
        return Problem(self.file, line, column, message, severity, code)


def read_source(path: str | Path) -> Source:
    """Read a document from disk.

    Raises:
        FlowError: the file cannot be read, or is not one YAML document of the kind described above.
    """
    file = str(path)
    if Path(path).suffix == ".py":
        what = "is Python; a flow document is YAML, and names this file in its cast:"
        raise FlowError(what, file=str(path))
    try:
        # a named pipe blocks whoever opens it until somebody writes
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise FlowError("cannot be read: it is no regular file; give the path of a document", file=file)
        with Path(path).open("rb") as stream:
            raw = stream.read(SIZE_LIMIT * 4 + 1)
    except OSError as error:
        raise FlowError(f"cannot be read: {error.strerror or error}", file=file) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FlowError("is not UTF-8; save it as UTF-8", file=file, line=line, column=1) from error
    return source_of(text, file)


def source_of(text: str, file: str = "<text>") -> Source:
    """Read a document from text; see ``read_source``."""
    try:
        refuse_hostile(text)
    except Refused as error:
        raise FlowError(error.message, file=file, line=error.line, column=error.column) from None
    reader = YAML(typ="rt", pure=True)
    try:
        node = reader.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        reason = " ".join(str(error.problem or error.context or "this is not YAML").split())
        message = f"{reason}; quote texts that hold : # or start with a sign"
        raise FlowError(message, file=file, line=line, column=column) from None
    except (YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else "this is not YAML"
        raise FlowError(reason, file=file, line=1, column=1) from None
    source = Source(file, text)
    if node is None:
        raise FlowError("the document is empty; start with version: 1", file=file, line=1, column=1)
    source.data = _Reader(source).value(node, ())
    return source


class _Reader:
    """Turns composed nodes into plain data and notes every place on the way."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.open: list[Node] = []
        self.count = 0

    def value(self, node: Node, place: Place) -> Any:
        self.count += 1
        if self.count > _VALUE_LIMIT:
            raise self.failed(node, f"the document holds more than {_VALUE_LIMIT:,} values (aliases counted)")
        self.source.values[place] = _where(node)
        if isinstance(node, ScalarNode):
            return self.scalar(node, place)
        if any(node is one for one in self.open):
            raise self.failed(node, "an alias refers to something that it stands in")
        self.open.append(node)
        try:
            if isinstance(node, SequenceNode):
                return [self.value(item, (*place, number)) for number, item in enumerate(node.value)]
            return dict(self.items(node, place)) if isinstance(node, MappingNode) else None
        finally:
            self.open.pop()

    def items(self, node: MappingNode, place: Place) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line, column = _where(key_node)
            key = self.key(key_node)
            if key is None:
                continue
            if key in seen:
                message = f"the key {key!r} stands twice, on lines {seen[key]} and {line}; remove one"
                self.tell(line, column, message)
                continue
            seen[key] = line
            self.source.keys[*place, key] = (line, column)
            yield key, self.value(value_node, (*place, key))

    def key(self, node: Node) -> str | None:
        line, column = _where(node)
        if not isinstance(node, ScalarNode):
            self.tell(line, column, "a key is a text")
            return None
        text = str(node.value)
        if node.style is None and text != "on" and (_SURPRISE.fullmatch(text) or not text):
            self.tell(
                line, column, f"the key {text} is not a text to every reader; write '{text}' or another name"
            )
            return None
        return text

    def scalar(self, node: ScalarNode, place: Place) -> object:
        text = str(node.value)
        if node.style is not None:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text) and text != "-0":
            return int(text)
        if _DECIMAL.fullmatch(text):
            return float(text)
        if _SURPRISE.fullmatch(text):
            line, column = _where(node)
            message = (
                f"{text} is read differently by different readers; quote it ('{text}'), "
                "or write true, false, null or a plain number"
            )
            self.tell(line, column, message)
        return text

    def tell(self, line: int, column: int, message: str) -> None:
        self.source.problems.append(Problem(self.source.file, line, column, message))

    def failed(self, node: Node, message: str) -> FlowError:
        line, column = _where(node)
        return FlowError(message, file=self.source.file, line=line, column=column)


_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None, "": None}


def _where(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
