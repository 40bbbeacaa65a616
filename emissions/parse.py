"""The one boundary at which words become emissions.

Tool calls come as mappings (`parse_mapping`), programs print fenced JSON (`parse_text`). Nothing here raises
on what it reads, and nothing rewrites it: what cannot be taken comes back as `Malformed`, with the reason
that the emitter is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from emissions.base import Emission
from emissions.fences import Block, find_blocks
from emissions.json_text import MAX_TEXT, Fault, find_fault
from emissions.receipts import RefusalReason
from emissions.registry import EMISSIONS, names_of, nearest_kind

Types = Mapping[str, type[Emission]]

MAX_DETAIL: Final = 500
MAX_RAW: Final = 2_000

_STAMPED: Final = frozenset({"run", "node", "role", "attempt", "seq", "emitter", "emitter_id", "time"})


@dataclass(frozen=True, slots=True)
class Malformed:
    """Something that was meant as an emission and is none.

    Attributes:
        kind: the name it came under, as written.
        reason: `unknown_kind`, `malformed`, `too_deep`, `forged` or `invalid`.
        detail: what is wrong and where, at most 500 characters.
        raw: what was read; text is cut at 2,000 characters.
    """

    kind: str
    reason: RefusalReason
    detail: str
    raw: object = None

    def __post_init__(self) -> None:
        """Keep detail and raw text within their bounds, and free of half surrogates."""
        object.__setattr__(self, "kind", _cut(self.kind, 100))
        object.__setattr__(self, "detail", _cut(self.detail, MAX_DETAIL))
        if isinstance(self.raw, str):
            object.__setattr__(self, "raw", _cut(self.raw, MAX_RAW))


def _cut(text: str, limit: int) -> str:
    kept = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return kept if kept.isascii() else kept.encode(errors="replace").decode()


def parse_mapping(kind: str, mapping: object, types: Types = EMISSIONS) -> Emission | Malformed:
    """Make the emission of this kind (class name or tag) from a mapping, such as a tool call's arguments.

    Args:
        kind: which type is meant.
        mapping: its fields; anything but a mapping is malformed.
        types: the types that may be made, by kind; the 23 of the house unless told otherwise.
    """
    type_ = names_of(types).get(kind)
    if type_ is None:
        return _unknown(kind, types, mapping)
    return _build(type_, kind, mapping, mapping)


def parse_text(text: str, types: Types = EMISSIONS) -> list[Emission | Malformed]:
    """Read the emissions that a text holds in fenced blocks tagged with their kind, in order.

    A block's tag is a kind (```verdict, ```Verdict) or `json` and a kind (```json verdict); it holds one
    object, a list of objects, or objects one after another. Each item is judged alone. A fence with another
    tag, or none, is data, and so is whatever stands inside it. A block that was never closed yields its first
    complete value.
    """
    if len(text) > MAX_TEXT:
        detail = f"the text has {len(text)} characters; {MAX_TEXT} are read at most"
        return [Malformed("", RefusalReason.MALFORMED, detail, text)]
    names = names_of(types)
    found: list[Emission | Malformed] = []
    for block in find_blocks(text, names):
        type_ = names.get(block.kind)
        if type_ is not None:
            found.extend(_items(block, type_))
        else:
            found.append(_unknown(block.kind, types, block.raw))
    return found


def _items(block: Block, type_: type[Emission]) -> list[Emission | Malformed]:
    found = [_build(type_, block.kind, value, raw) for value, raw in block.items]
    if block.fault is not None:
        found.append(Malformed(block.kind, block.fault.reason, str(block.fault), block.raw))
    return found


def _unknown(kind: str, types: Types, raw: object) -> Malformed:
    near = nearest_kind(kind, types)
    hint = f"did you mean {near}?" if near else "`callboard emissions` lists them"
    return Malformed(kind, RefusalReason.UNKNOWN_KIND, f"no emission is called {kind[:100]!r}; {hint}", raw)


def _build(type_: type[Emission], kind: str, value: object, raw: object) -> Emission | Malformed:
    if not isinstance(value, Mapping):
        fault = find_fault(value) or Fault(
            RefusalReason.MALFORMED, f"expected an object, got {type(value).__name__}"
        )
        return Malformed(kind, fault.reason, str(fault), raw)
    if fault_inside := find_fault(value):
        return Malformed(kind, fault_inside.reason, str(fault_inside), raw)
    forged = sorted(_STAMPED.intersection(value).difference(type_.model_fields))
    if forged:
        detail = f"{', '.join(forged)}: the house stamps who emits, where and when; leave it out"
        return Malformed(kind, RefusalReason.FORGED, detail, raw)
    try:
        return type_.model_validate(dict(value))
    except ValidationError as error:
        return Malformed(kind, RefusalReason.INVALID, explain(error), raw)


def explain(error: ValidationError) -> str:
    """Say in one line which fields do not hold what they should, without repeating what was in them."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{'.'.join(str(part)[:60] for part in problem['loc'][:12]) or 'value'}: {problem['msg'][:200]}"
        for problem in problems[:8]
    ]
    more = len(problems) - len(lines)
    return "; ".join([*lines, f"and {more} more"] if more else lines)
