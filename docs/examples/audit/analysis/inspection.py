"""Ask every check about one module, respect what its author silenced, and bound what comes back."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from . import concurrency, dangers, exceptions, names, reading, shape, text, values
from .model import Check, Hit, Issue, rank
from .module import Module, holds_tests, lies_with_tests

CHECKS: tuple[Check, ...] = (
    *reading.CHECKS,
    *dangers.CHECKS,
    *exceptions.CHECKS,
    *concurrency.CHECKS,
    *values.CHECKS,
    *names.CHECKS,
    *shape.CHECKS,
    *text.CHECKS,
)
BY_ID = {check.id: check for check in CHECKS}
MOST_PER_CHECK = 40
"""Of one check in one module; what is above it is told as a number."""

_NOQA = re.compile(r"#\s*noqa(?::\s*(?P<ids>[\w\-, ]+))?", re.IGNORECASE)
_IGNORE = re.compile(r"#\s*audit:\s*ignore(?:\[(?P<ids>[\w\-, ]+)\])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What one module is: its lines (0 if it could not be read), and what was found, by line."""

    path: str
    lines: int
    issues: tuple[Issue, ...]


def inspect_file(root: Path, path: str) -> Inspection:
    """Inspect the module at `path`, relative to `root`; what cannot be read is an issue, never an error."""
    try:
        data = reading.read(root / path)
    except reading.UnreadableError as problem:
        return Inspection(path, 0, (problem.issue,))
    return inspect_bytes(path, data)


def inspect_bytes(path: str, data: bytes) -> Inspection:
    """Inspect the bytes of a module that calls itself `path`."""
    try:
        module, warned = reading.parse(path, data)
    except reading.UnreadableError as problem:
        return Inspection(path, 0, (_as_sample(path, problem.issue),))
    found = [issue for check in CHECKS for issue in _ask(check, module)]
    ordered = sorted([*warned, *found], key=lambda i: (i.line, i.check, i.text))
    return Inspection(path, len(module.lines), tuple(_bounded(ordered)))


def _as_sample(path: str, issue: Issue) -> Issue:
    """A broken file among tests that is no test itself is a sample, broken on purpose."""
    return replace(issue, severity="low") if lies_with_tests(path) and not holds_tests(path) else issue


def _ask(check: Check, module: Module) -> Iterator[Issue]:
    if module.is_test and check.in_tests == "skip":
        return
    for hit in check.find(module):
        if not (module.comments and _is_silenced(check, hit, module)):
            severity = hit.severity or check.severity
            if module.is_test and check.in_tests == "soften" and rank(severity) > rank("low"):
                severity = "low"
            confidence = check.confidence if hit.confidence is None else hit.confidence
            yield Issue(check.id, hit.line, severity, confidence, hit.text[:300])


def _is_silenced(check: Check, hit: Hit, module: Module) -> bool:
    return any(
        _silences(module.comments[line], check) for line in _lines_of(hit, module) if line in module.comments
    )


def _lines_of(hit: Hit, module: Module) -> set[int]:
    """The lines whose comments speak about a hit: its own, and the ends of a simple statement around it."""
    lines = {hit.line}
    if isinstance(hit.at, ast.AST):
        lines.add(getattr(hit.at, "end_lineno", None) or hit.line)
        holder = next((a for a in [hit.at, *module.up(hit.at)] if isinstance(a, ast.stmt)), None)
        if holder is not None and not hasattr(holder, "body"):
            lines |= {holder.lineno, holder.end_lineno or holder.lineno}
        elif holder is not None:
            lines = {hit.line, holder.lineno} if hit.line == holder.lineno else {hit.line}
    return lines


def _silences(comment: str, check: Check) -> bool:
    for pattern in (_NOQA, _IGNORE):
        if found := pattern.search(comment):
            listed = {
                part.strip().upper() for part in re.split(r"[,\s]+", found["ids"] or "") if part.strip()
            }
            known = {check.id.upper(), *check.codes}
            if not listed or any(code == own or _is_family(code, own) for code in listed for own in known):
                return True
    return False


def _is_family(code: str, own: str) -> bool:
    """Whether a code names a family of codes, as `S` or `PLR` do."""
    return code.isalpha() and len(code) <= 3 and own.startswith(code) and own[len(code) :].isdigit()  # noqa: PLR2004


def _bounded(issues: Iterable[Issue]) -> Iterator[Issue]:
    counts: Counter[str] = Counter()
    first_dropped: dict[str, Issue] = {}
    for issue in issues:
        counts[issue.check] += 1
        if counts[issue.check] <= MOST_PER_CHECK:
            yield issue
        else:
            first_dropped.setdefault(issue.check, issue)
    for check, issue in sorted(first_dropped.items()):
        yield replace(
            issue,
            severity="info",
            text=f"and {counts[check] - MOST_PER_CHECK} more `{check}` from here on",
        )
