"""Texts with ``${expression}`` in them.

``$${`` stands for a literal ``${``. A placeholder ends at the first ``}`` that is not inside a
quoted text. Strings are rendered as they are, everything else as compact JSON; a text that is
exactly one placeholder can keep the value's type. A missing value is an error, never an empty text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from orchestrator.core.expression_operators import Scope
from orchestrator.core.expression_values import ExpressionError, as_text
from orchestrator.core.expressions import Expression, compile_expression

__all__ = ["Placeholder", "Template", "compile_template", "needs_rendering", "render_json", "walk_texts"]

#: Characters that a rendered text may hold.
RENDER_LIMIT: Final = 4_000_000
_DEPTH_LIMIT: Final = 100


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One ``${...}``: its expression and the column of the ``$``, counted from 1."""

    expression: Expression
    column: int


class Template:
    """A compiled text.

    Attributes:
        text: as it was written.
        placeholders: in order of appearance.
    """

    __slots__ = ("_parts", "placeholders", "text")

    def __init__(
        self, text: str, parts: tuple[str | Expression, ...], found: tuple[Placeholder, ...]
    ) -> None:
        """Made by ``compile_template`` only."""
        self.text, self._parts, self.placeholders = text, parts, found

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of the placeholders, in order."""
        return tuple(one.expression for one in self.placeholders)

    @property
    def single(self) -> bool:
        """The text is exactly one placeholder."""
        return len(self._parts) == 1 and isinstance(self._parts[0], Expression)

    def render(self, scope: Scope) -> str:
        """The text with every placeholder replaced.

        Raises:
            ExpressionError: a placeholder cannot be evaluated, or the text becomes too long.
        """
        pieces, length = [], 0
        for part in self._parts:
            piece = part if isinstance(part, str) else as_text(part.evaluate(scope))
            length += len(piece)
            if length > RENDER_LIMIT:
                raise ExpressionError(f"the rendered text is longer than {RENDER_LIMIT:,} characters")
            pieces.append(piece)
        return "".join(pieces)

    def value(self, scope: Scope) -> object:
        """The value of a single placeholder with its type; the rendered text otherwise."""
        only = self._parts[0] if len(self._parts) == 1 else None
        return only.evaluate(scope) if isinstance(only, Expression) else self.render(scope)


@lru_cache(maxsize=4096)
def compile_template(text: str) -> Template:
    """Compile ``text``.

    Raises:
        ExpressionError: a placeholder is not closed or its expression is wrong; the column counts
            from the start of ``text``.
    """
    parts: list[str | Expression] = []
    found: list[Placeholder] = []
    position = 0
    while (start := text.find("${", position)) >= 0:
        if start > position and text[start - 1] == "$":
            parts.append(f"{text[position : start - 1]}${{")
            position = start + 2
            continue
        end = _closing(text, start)
        expression = _compile(text, start, end)
        parts += [text[position:start], expression]
        found.append(Placeholder(expression, start + 1))
        position = end + 1
    parts.append(text[position:])
    return Template(text, tuple(part for part in parts if part != "") or ("",), tuple(found))


def _closing(text: str, start: int) -> int:
    quote = ""
    position = start + 2
    while position < len(text):
        char = text[position]
        if char == "\\" and quote:
            position += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "}":
            return position
        position += 1
    message = "this ${ is not closed; write } after the expression, or $${ for the characters themselves"
    raise ExpressionError(message, text=text, column=start + 1)


def _compile(text: str, start: int, end: int) -> Expression:
    inner = text[start + 2 : end]
    lead = len(inner) - len(inner.lstrip())
    try:
        return compile_expression(inner)
    except ExpressionError as error:
        column = start + 2 + lead + (error.column or 1)
        raise ExpressionError(error.message, text=text, column=column) from None


def needs_rendering(value: object) -> bool:
    """True if a text inside ``value`` holds ``${``, the escaped form included."""
    return any("${" in text for _, text in walk_texts(value))


def walk_texts(
    value: object, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text in JSON data with the path to it; keys are not texts in this sense."""
    if isinstance(value, str):
        yield path, value
    elif len(path) >= _DEPTH_LIMIT:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from walk_texts(item, (*path, key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from walk_texts(item, (*path, number))


def render_json(value: object, scope: Scope, depth: int = 0) -> object:
    """JSON data with every text rendered; a text that is one placeholder keeps the value's type.

    Raises:
        ExpressionError: a placeholder cannot be evaluated.
    """
    if isinstance(value, str):
        return compile_template(value).value(scope) if "${" in value else value
    if depth >= _DEPTH_LIMIT:
        raise ExpressionError(f"the data is nested deeper than {_DEPTH_LIMIT} levels")
    if isinstance(value, Mapping):
        return {key: render_json(item, scope, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [render_json(item, scope, depth + 1) for item in value]
    return value
