"""Checks that read the text itself: comments, encodings, characters that deceive."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .model import Check, Hit
from .module import Module, constant, keyword

MARKER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_ENCODING = 3  # its place among the arguments of `open`
_READS = {"read_text": 0, "write_text": 1}


def no_encoding(module: Module) -> Iterator[Hit]:
    """A text file opened in whatever encoding the machine prefers."""
    for name, call in module.called("builtins.open", "io.open"):
        if _is_text_mode(call) and not _names_encoding(call):
            yield Hit(call, f"`{name.removeprefix('builtins.')}` without `encoding` depends on the machine")
    for call in module.all(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _READS:
            bare = len(call.args) == _READS[call.func.attr] and not call.keywords
            if bare and not isinstance(call.func.value, ast.Constant):
                yield Hit(
                    call, f"`{call.func.attr}` without `encoding` depends on the machine", confidence=0.6
                )


def todo(module: Module) -> Iterator[Hit]:
    """A comment that says that work is left."""
    for line, comment in module.comments.items():
        if found := MARKER.search(comment):
            rest = comment[found.end() :].strip(" :-")
            yield Hit(line, f"{found[1]}: {rest[:120]}" if rest else found[1])


def deceptive_text(module: Module) -> Iterator[Hit]:
    """Characters that make an editor show other code than Python runs."""
    if _BIDI.search(module.text):
        for number, line in enumerate(module.lines, start=1):
            if found := _BIDI.search(line):
                yield Hit(number, f"the invisible character U+{ord(found[0]):04X} reorders what is shown")


def _is_text_mode(call: ast.Call) -> bool:
    mode = call.args[1] if len(call.args) > 1 else keyword(call, "mode")
    return mode is None or (isinstance(constant(mode), str) and "b" not in str(constant(mode)))


def _names_encoding(call: ast.Call) -> bool:
    """Whether an encoding is given, or may be hidden in starred arguments."""
    hidden = any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)
    return hidden or len(call.args) > _ENCODING or keyword(call, "encoding") is not None


CHECKS: tuple[Check, ...] = (
    Check(
        "no-encoding",
        "low",
        0.8,
        "The same file reads differently elsewhere.",
        no_encoding,
        ("PLW1514",),
        "skip",
    ),
    Check(
        "todo", "info", 1.0, "Work that its author knew to be missing.", todo, ("FIX001", "FIX002", "TD002")
    ),
    Check(
        "deceptive-text",
        "high",
        0.9,
        "A reviewer approves what is not there (CVE-2021-42574).",
        deceptive_text,
        ("PLE2502",),
    ),
)
