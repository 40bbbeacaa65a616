"""What an audit knows when every inspector is done, and how it is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .model import SEVERITIES, rank

WEIGHTS = {"info": 0, "low": 1, "medium": 5, "high": 25, "critical": 100}
"""What a finding adds to the weight of its module: one high finding outweighs many low ones."""


@dataclass(frozen=True, slots=True)
class Place:
    """A finding and where it is: module path relative to the target, 1-based line."""

    path: str
    line: int
    check: str
    severity: str
    confidence: float
    text: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """A module or folder that no inspector looked at, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything that judge and report need.

    `lines` maps each module that was inspected to its number of lines, `unseen` holds the modules that
    should have been inspected and were not, `skipped` what the scout left out on purpose.
    """

    target: str
    threshold: str
    lines: Mapping[str, int]
    places: tuple[Place, ...]
    unseen: tuple[Unseen, ...] = ()
    skipped: tuple[Unseen, ...] = ()

    @property
    def modules(self) -> int:
        """How many modules there are, inspected or not."""
        return len(self.lines) + len(self.unseen)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One of the four verdicts, why, where the reasons are, and what would change it."""

    verdict: str
    rationale: str
    worst: tuple[Place, ...]
    reversible_by: str | None = None


def worst_first(places: Iterable[Place]) -> list[Place]:
    """Order places by severity, then by confidence, then by where they are."""
    return sorted(places, key=lambda p: (-rank(p.severity), -p.confidence, p.path, p.line, p.check, p.text))


def by_severity(places: Iterable[Place]) -> dict[str, int]:
    """Count places by severity, the most serious first, zeros included."""
    counts = Counter(place.severity for place in places)
    return {severity: counts[severity] for severity in reversed(SEVERITIES)}


def weigh(places: Iterable[Place]) -> int:
    """The weight of a module's findings."""
    return sum(WEIGHTS[place.severity] for place in places)


def judge(audit: Audit) -> Judgement:
    """Judge an audit by its threshold.

    An audit that has seen nothing of a folder with modules in it is rejected: no news is not good news.

    Raises:
        ValueError: the threshold is not a severity.

    """
    limit = rank(audit.threshold)
    serious = worst_first(p for p in audit.places if rank(p.severity) >= limit)
    minor = [p for p in audit.places if rank("info") < rank(p.severity) < limit]
    unseen = f"; {_modules(len(audit.unseen))} not looked at" if audit.unseen else ""
    if audit.unseen and not audit.lines:
        return Judgement(
            "REJECT",
            f"none of {_modules(audit.modules)} was looked at: {audit.unseen[0].why}",
            (),
            "inspecting the modules",
        )
    if serious:
        named = ", ".join(f"{p.path}:{p.line} ({p.check})" for p in serious[:3])
        number = f"{_findings(len(serious))} at or above {audit.threshold} ({counted(serious)})"
        rationale = f"{number}, first {named}{unseen}"
        return Judgement(
            "REJECT", rationale, tuple(serious[:10]), "mending or silencing, with a reason, what is listed"
        )
    if minor or audit.unseen:
        rationale = f"nothing at or above {audit.threshold}; below it: {counted(minor) or 'nothing'}{unseen}"
        return Judgement("APPROVE-WITH-FIXES", rationale, tuple(worst_first(minor)[:10]))
    if not audit.lines:
        return Judgement("APPROVE", "there is no Python module to judge", ())
    return Judgement("APPROVE", f"{_modules(len(audit.lines))} looked at, and nothing above info found", ())


def counted(places: Iterable[Place]) -> str:
    """Counts in words, zeros left out: `2 high, 7 low`."""
    return ", ".join(f"{count:,} {severity}" for severity, count in by_severity(places).items() if count)


def _findings(number: int) -> str:
    return f"{number:,} finding" + ("" if number == 1 else "s")


def _modules(number: int) -> str:
    return f"{number:,} module" + ("" if number == 1 else "s")
