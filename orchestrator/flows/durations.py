"""Durations as people write them: ``90s``, ``30m``, ``2h``, ``1.5h``, ``500ms``, ``1d``."""

from __future__ import annotations

import math
import re

__all__ = ["DURATION_FORM", "seconds"]

DURATION_FORM = "a duration such as 90s, 30m or 2h"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: Above it an int may be too large for a float.
_HUGE = 2**63
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")


def seconds(value: object) -> float:
    """Seconds of a duration: a positive number is seconds, a text carries its unit.

    Raises:
        ValueError: it is neither, or not positive and finite.
    """
    found: float | None = None
    if type(value) is float or (type(value) is int and value < _HUGE):
        found = float(value)
    elif type(value) is str:
        match = _DURATION.fullmatch(value.strip())
        found = float(match[1]) * _UNITS[match[2]] if match else None
    if found is None or not math.isfinite(found) or found <= 0:
        raise ValueError(f"{value!r} is not {DURATION_FORM}")
    return found
