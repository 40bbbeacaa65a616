"""Random JSON values from a JSON Schema: each is one that the schema accepts, drawn by a seeded random.

What a schema says about form is kept: types, ``enum``, ``const``, ``required``, ``items``, bounds, ``$ref``,
``anyOf``. A ``pattern`` is not inverted: who needs one checks what is drawn and draws again.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Drawer", "Literals", "literals_in"]

Schema = Mapping[str, Any]

#: Texts that break what takes a value for text of its own: empty, several lines, quotes, a placeholder.
_TEXTS: Final = (
    *("", "ok", "none", "a longer text, of several words", "line\nline"),
    *('it has "quotes"', "${x}", "é✓"),
)

_NUMBERS: Final = (0, 1, -1, 2, 3, 10, 100, 1_000_000)
_DEPTH: Final = 6
#: How often a value comes from what the flow's own conditions compare with.
_FROM_LITERALS: Final = 0.6
_OPTIONAL: Final = 0.6


@dataclass(frozen=True, slots=True)
class Literals:
    """What a flow's conditions compare with: values near them decide which way a run goes.

    Attributes:
        texts, numbers: in order of appearance, each once.
    """

    texts: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()


_NONE: Final = Literals()


def literals_in(expressions: Iterable[str]) -> Literals:
    """The constants of some expressions; a number brings its neighbours, for ``<`` and ``<=``."""
    texts: dict[str, None] = {}
    numbers: dict[int | float, None] = {}
    for expression in expressions:
        for node in ast.walk(ast.parse(expression.strip(), mode="eval")):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str):
                texts[value] = None
            elif isinstance(value, int | float) and not isinstance(value, bool):
                numbers.update(dict.fromkeys((value - 1, value, value + 1)))
    return Literals(tuple(texts), tuple(numbers))


class Drawer:
    """Draws values.

    Args:
        draw: its luck. literals: what is drawn more often than anything else.
        longest: elements that a list has beyond those that it has to have.
    """

    def __init__(self, draw: random.Random, literals: Literals = _NONE, *, longest: int = 4) -> None:
        self.draw, self._literals, self._longest = draw, literals, longest

    def value(self, schema: Schema) -> Any:
        """One value that the schema accepts; anything at all for an empty schema."""
        definitions = {**(schema.get("definitions") or {}), **(schema.get("$defs") or {})}
        return self._of(schema, definitions, 0)

    def text(self) -> str:
        """A text."""
        return str(self._one(self._literals.texts, _TEXTS))

    def chance(self, share: float) -> bool:
        """True in this share of all cases."""
        return self.draw.random() < share

    def _one(self, likely: tuple[Any, ...], others: tuple[Any, ...]) -> Any:
        return self.draw.choice(likely if likely and self.chance(_FROM_LITERALS) else others)

    def _of(self, schema: Any, definitions: Mapping[str, Any], depth: int) -> Any:
        if not isinstance(schema, Mapping):  # true: anything
            return self._anything(depth)
        if "$ref" in schema:
            return self._of(definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), definitions, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.draw.choice(schema["enum"])
        ways = schema.get("anyOf") or schema.get("oneOf")
        if ways:
            return self._of(self._way(ways, depth), definitions, depth)
        if schema.get("allOf"):
            return self._of(_joined(schema, definitions), definitions, depth)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.draw.choice(kind)
        if kind is None and "properties" in schema:
            kind = "object"
        return self._typed(kind, schema, definitions, depth)

    def _way(self, ways: list[Any], depth: int) -> Any:
        """One of several; below a depth one that ends, if there is one."""
        ends = [way for way in ways if isinstance(way, Mapping) and way.get("type") in _ENDS]
        return self.draw.choice(ends if ends and depth > _DEPTH else ways)

    def _typed(self, kind: Any, schema: Schema, definitions: Mapping[str, Any], depth: int) -> Any:
        if kind == "object":
            return self._mapping(schema, definitions, depth + 1)
        if kind == "array":
            return self._list(schema, definitions, depth + 1)
        if kind == "string":
            return self._string(schema)
        if kind in {"integer", "number"}:
            return self._number(schema, whole=kind == "integer")
        if kind == "boolean":
            return self.chance(0.5)
        return None if kind == "null" else self._anything(depth)

    def _anything(self, depth: int) -> Any:
        kinds = ("string", "integer", "boolean", "null", "object", "array")
        return self._typed(self.draw.choice(kinds if depth <= _DEPTH else kinds[:4]), {}, {}, depth + 1)

    def _mapping(self, schema: Schema, definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required") or ()
        fields = schema.get("properties") or {}
        wanted = [name for name in fields if name in required or (depth <= _DEPTH and self.chance(_OPTIONAL))]
        found = {name: self._of(fields[name], definitions, depth) for name in wanted}
        found.update({name: self._anything(depth) for name in required if name not in fields})
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping) and depth <= _DEPTH:
            names = [f"key{n}" for n in range(self.draw.randint(0, 2))]
            found.update({name: self._of(more, definitions, depth) for name in names})
        return found

    def _list(self, schema: Schema, definitions: Mapping[str, Any], depth: int) -> list[Any]:
        first = schema.get("prefixItems") or []
        least = max(schema.get("minItems", 0), len(first))
        most = min(schema.get("maxItems", least + self._longest), least + self._longest)
        size = least if depth > _DEPTH else self.draw.randint(least, max(least, most))
        items = schema.get("items", {})
        return [self._of(first[at] if at < len(first) else items, definitions, depth) for at in range(size)]

    def _string(self, schema: Schema) -> str:
        least: int = schema.get("minLength", 0)
        most: int | None = schema.get("maxLength")
        return self.text().ljust(least, "x")[:most]

    def _number(self, schema: Schema, *, whole: bool) -> int | float:
        low, high = _bounds(schema, whole=whole)
        found: int | float = self._one(self._literals.numbers, _NUMBERS)
        if not whole and self.chance(0.5):
            found = round(self.draw.random(), 3)
        if low <= found <= high and (not whole or found == int(found)):
            return int(found) if whole else found
        floor = low if low > -math.inf else high - 100 if high < math.inf else 0
        ceiling = high if high < math.inf else floor + 100
        if whole:
            return self.draw.randint(math.ceil(floor), max(math.ceil(floor), math.floor(ceiling)))
        return self.draw.uniform(floor, ceiling)


def _bounds(schema: Schema, *, whole: bool) -> tuple[float, float]:
    """The lowest and the highest number that a schema takes, both included."""
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if "exclusiveMinimum" in schema:
        beyond = schema["exclusiveMinimum"]
        low = max(low, beyond + 1 if whole else math.nextafter(beyond, math.inf))
    if "exclusiveMaximum" in schema:
        beyond = schema["exclusiveMaximum"]
        high = min(high, beyond - 1 if whole else math.nextafter(beyond, -math.inf))
    return low, high


_ENDS: Final = frozenset({"null", "string", "integer", "number", "boolean"})


def _joined(schema: Schema, definitions: Mapping[str, Any]) -> Schema:
    """The parts of an ``allOf`` as one schema."""
    whole: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        known = definitions.get(str(part.get("$ref", "")).rpartition("/")[2], part)
        fields = {**whole.get("properties", {}), **known.get("properties", {})}
        required = [*whole.get("required", ()), *known.get("required", ())]
        whole = {**whole, **known, "properties": fields, "required": required}
        if not fields:
            del whole["properties"], whole["required"]
    return whole
