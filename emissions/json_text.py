"""Strict JSON from text written by strangers.

The decoder is the standard library's; what JSON cannot carry exactly does not raise in the middle of a
document but leaves an `Unfit` mark in its place, so that one bad item is found, named by its path and refused
alone.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from emissions.receipts import RefusalReason

MAX_DEPTH: Final = 32
"""How many containers may stand inside each other, the outermost included."""

MAX_TEXT: Final = 4 * 1024 * 1024
"""Longest text that is read, in characters."""

_INT_DIGITS: Final = 20
_INT_LIMIT: Final = 2**63
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Unfit:
    """Stands where the text held something that is not exact JSON."""

    what: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a value is refused; `path` leads to the place inside it."""

    reason: RefusalReason
    what: str
    path: str = ""

    def __str__(self) -> str:
        """Put the place before what is wrong there."""
        return f"{self.path}: {self.what}" if self.path else self.what


class NotJsonError(ValueError):
    """There is no complete JSON value at this place of the text."""

    def __init__(self, fault: Fault, *, at: int, cut_off: bool = False) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.at = at
        self.cut_off = cut_off
        """The text ended before the value did."""


def _object(pairs: list[tuple[str, object]]) -> object:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return Unfit(f"the key {key[:60]!r} stands twice in one object")
        seen.add(key)
    return made


def _int(digits: str) -> int | Unfit:
    if len(digits) > _INT_DIGITS:
        return Unfit(f"an integer of {len(digits)} digits; integers go to 2**63")
    number = int(digits)
    return number if -_INT_LIMIT <= number < _INT_LIMIT else Unfit(f"{digits} is beyond 2**63")


def _float(digits: str) -> float | Unfit:
    number = float(digits)
    return number if abs(number) != float("inf") else Unfit(f"{digits[:40]} is too large for a number")


def _constant(name: str) -> Unfit:
    return Unfit(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_constant
)


def skip_blanks(text: str, at: int) -> int:
    """Return the first place from `at` on that holds no JSON white space."""
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def decode_at(text: str, at: int) -> tuple[object, int]:
    """Decode the one value that begins exactly at `at`; return it with the place where it ends.

    Raises:
        NotJsonError: there is none, it is cut off, or it is nested too deep to be read.
    """
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        cut_off = error.msg.startswith("Unterminated") or skip_blanks(text, error.pos) >= len(text)
        fault = Fault(RefusalReason.MALFORMED, f"{error.msg} (line {error.lineno}, column {error.colno})")
        raise NotJsonError(fault, at=error.pos, cut_off=cut_off) from None
    except RecursionError:
        raise NotJsonError(Fault(RefusalReason.TOO_DEEP, f"nested deeper than {MAX_DEPTH}"), at=at) from None


def find_fault(value: object, path: str = "", depth: int = 1) -> Fault | None:
    """Return the first thing in a decoded value that is not exact JSON, or None.

    Values of other types than JSON's are passed over: the type that is built from them judges those.
    """
    if isinstance(value, Unfit):
        return Fault(RefusalReason.MALFORMED, value.what, path)
    if isinstance(value, str):
        return None if _is_text(value) else Fault(RefusalReason.MALFORMED, "half of a surrogate pair", path)
    if not isinstance(value, (Mapping, list, tuple)):
        return None
    if depth > MAX_DEPTH:
        return Fault(RefusalReason.TOO_DEEP, f"nested deeper than {MAX_DEPTH}", path)
    if isinstance(value, Mapping):
        return _fault_in_mapping(value, path, depth)
    for index, item in enumerate(value):
        if fault := find_fault(item, f"{path}[{index}]", depth + 1):
            return fault
    return None


def _fault_in_mapping(value: Mapping[object, object], path: str, depth: int) -> Fault | None:
    for key, item in value.items():
        if not isinstance(key, str):
            return Fault(RefusalReason.MALFORMED, f"a key is a {type(key).__name__}, not text", path)
        if not _is_text(key):
            return Fault(RefusalReason.MALFORMED, "a key holds half of a surrogate pair", path)
        if fault := find_fault(item, f"{path}.{key[:60]}" if path else key[:60], depth + 1):
            return fault
    return None


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
