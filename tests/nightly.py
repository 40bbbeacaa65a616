"""Counts that a build proves, and ten times as much at night.

Tests marked ``nightly`` share out what they do among parts of equal size. ``CALLBOARD_NIGHTLY=1``, or
``make nightly``, has ten times the parts; each part draws from seeds of its own.
"""

from __future__ import annotations

import os

NIGHTLY = os.environ.get("CALLBOARD_NIGHTLY") == "1"


def parts(usual: int) -> range:
    """The parts of a test that has so many in a build."""
    return range(usual * (10 if NIGHTLY else 1))


def seeds(part: int, size: int) -> range:
    """The seeds of one part; those below 1,000 are for quick tests."""
    return range(1_000 + part * size, 1_000 + (part + 1) * size)
