"""The words of the analysis: what a check is, what it reports, and how serious a report is."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from .module import Module

SEVERITIES: tuple[str, ...] = ("info", "low", "medium", "high", "critical")
"""From the least to the most serious."""

InTests = Literal["same", "soften", "skip"]
"""What a check does in test code: the same, at most a `low`, or nothing."""


def rank(severity: str) -> int:
    """Place of a severity in `SEVERITIES`; higher is more serious.

    Raises:
        ValueError: the word is not a severity.

    """
    if severity not in SEVERITIES:
        msg = f"{severity!r} is not a severity; choose one of {', '.join(SEVERITIES)}"
        raise ValueError(msg)
    return SEVERITIES.index(severity)


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that a check points at; severity and confidence default to the check's own."""

    at: ast.AST | int
    text: str
    severity: str | None = None
    confidence: float | None = None

    @property
    def line(self) -> int:
        """The 1-based line."""
        return self.at if isinstance(self.at, int) else getattr(self.at, "lineno", 1)


@dataclass(frozen=True, slots=True)
class Check:
    """A named question asked of every module.

    `codes` are the names under which other linters know the question, so that an existing
    `# noqa: CODE` is respected.
    """

    id: str
    severity: str
    confidence: float
    why: str
    find: Callable[[Module], Iterable[Hit]]
    codes: tuple[str, ...] = ()
    in_tests: InTests = "same"


@dataclass(frozen=True, slots=True)
class Issue:
    """A defect found in one module: check id, 1-based line, severity, confidence 0-1, description."""

    check: str
    line: int
    severity: str
    confidence: float
    text: str
