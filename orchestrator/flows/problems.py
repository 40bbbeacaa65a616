"""What is wrong with a flow document, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["NO_MODEL", "Problem", "Severity", "ordered"]

#: The code of the warning that no model performs a node: one named at the run answers it.
NO_MODEL = "no_model"


class Severity(StrEnum):
    """How much a problem matters."""

    ERROR = "error"  #: the document cannot run
    WARNING = "warning"  #: it can run, and would probably not do what was meant
    NOTE = "note"  #: to know


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to tell about a document.

    Attributes:
        file: the document as the caller named it.
        line: counted from 1. column: counted from 1.
        message: what is wrong, and what to write instead.
        severity: error, warning or note.
        code: for a program that has to tell this kind apart; empty for most.
    """

    file: str
    line: int
    column: int
    message: str
    severity: Severity = Severity.ERROR
    code: str = ""

    def __str__(self) -> str:
        """``file:line:column: message``; warnings and notes say so."""
        word = "" if self.severity is Severity.ERROR else f"{self.severity}: "
        return f"{self.file}:{self.line}:{self.column}: {word}{self.message}"


def ordered(problems: Iterable[Problem]) -> list[Problem]:
    """By place, each told once."""
    return sorted(set(problems))
