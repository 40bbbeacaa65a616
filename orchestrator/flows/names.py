"""Suggestions for a name that does not exist, worded once for every message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

__all__ = ["suggestion"]

_LISTED = 8


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` or ``; there is: a, b``; bounded, however many names are known."""
    names = list(islice(known, 2_000))
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return "; there is none yet"
    more = ", ..." if len(names) > _LISTED else ""
    return f"; there is: {', '.join(names[:_LISTED])}{more}"
