"""The audit as a Markdown page: the verdict, the counts, the worst places, then every module."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from .audit import WEIGHTS, Audit, Judgement, Place, Unseen, by_severity, counted, weigh, worst_first
from .inspection import BY_ID
from .model import rank

WORST_PLACES = 20
WORST_MODULES = 15
MOST_NEW = 50

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Page:
    """Where the report will stand, where the code is, and what to say about earlier and later audits.

    `fresh` are the places that the last approved audit did not have; None if there is none, and `note`
    then says why. `rerun` is the command that repeats the audit.
    """

    file: Path
    root: Path
    rerun: str
    fresh: tuple[Place, ...] | None = None
    note: str = ""

    def address(self, path: str) -> str:
        """The address of a module, relative to the report."""
        return quote(Path(os.path.relpath(self.root / path, self.file.parent)).as_posix())

    def link(self, path: str, line: int | None = None) -> str:
        """A Markdown link to a module, or to a line of it."""
        shown, anchor = (path, "") if line is None else (f"{path}:{line}", f"#L{line}")
        return f"[{_code(shown)}]({self.address(path)}{anchor})"


def summary(audit: Audit, judgement: Judgement, page: Page) -> str:
    """The head of the report; complete as it stands."""
    lines = [
        f"**{judgement.verdict}**: {_text(judgement.rationale)}.",
        "",
        f"- {len(audit.lines):,} of {audit.modules:,} modules looked at, {sum(audit.lines.values()):,} lines",
        f"- {len(audit.places):,} findings" + (f": {counted(audit.places)}" if audit.places else ""),
    ]
    if page.fresh is not None:
        lines.append(f"- {len(page.fresh):,} of them new since the last approved audit")
    else:
        lines.append(f"- what is new cannot be said: {_text(page.note)}")
    if audit.unseen:
        lines.append(f"- **{len(audit.unseen):,} modules were not looked at**; they are named below")
    return "\n".join(lines)


def render(audit: Audit, judgement: Judgement, page: Page) -> str:
    """The whole report. The same audit gives the same text."""
    parts = [f"# Audit of {_code(audit.target)}", summary(audit, judgement, page)]
    if audit.places:
        parts += [_severities(audit), _checks(audit), _worst_places(audit, page), _worst_modules(audit, page)]
    if page.fresh:
        parts.append(_fresh(page.fresh, page))
    if audit.places:
        parts.append(_modules(audit, page))
    if audit.unseen:
        parts.append(_unseen("Not looked at", audit.unseen, "These modules may hold anything."))
    if audit.skipped:
        parts.append(
            _unseen("Left out on purpose", audit.skipped, "The scout does not hand these to an inspector.")
        )
    parts.append(f"## Again\n\n```sh\n{page.rerun}\n```")
    return "\n\n".join(parts) + "\n"


def _severities(audit: Audit) -> str:
    fails = rank(audit.threshold)
    rows = [
        f"| {severity} | {count:,} | {'rejects' if rank(severity) >= fails else ''} |"
        for severity, count in by_severity(audit.places).items()
    ]
    return "\n".join(["## By severity", "", "| severity | findings | |", "|---|--:|---|", *rows])


def _checks(audit: Audit) -> str:
    groups: dict[str, list[Place]] = defaultdict(list)
    for place in audit.places:
        groups[place.check].append(place)
    ordered = sorted(groups.items(), key=lambda g: (-weigh(g[1]), -len(g[1]), g[0]))
    rows = [
        f"| {_code(check)} | {len(found):,} | {counted(found)} | {_why(check)} |" for check, found in ordered
    ]
    return "\n".join(
        ["## By check", "", "| check | findings | | why it matters |", "|---|--:|---|---|", *rows]
    )


def _worst_places(audit: Audit, page: Page) -> str:
    worst = [p for p in worst_first(audit.places) if rank(p.severity) >= rank("medium")]
    if not worst:
        return "## The worst places\n\nNothing above low."
    rest = len(worst) - WORST_PLACES
    rows = [_line(place, page) for place in worst[:WORST_PLACES]]
    more = ["", f"and {rest:,} more of medium or above, by module below."] if rest > 0 else []
    return "\n".join(["## The worst places", "", *rows, *more])


def _worst_modules(audit: Audit, page: Page) -> str:
    rows = [
        f"| {_cell(page.link(path))} | {weigh(found):,} | {counted(found)} | {audit.lines.get(path, 0):,} |"
        for path, found in _by_module(audit.places)[:WORST_MODULES]
    ]
    weights = ", ".join(f"{weight} for each {severity}" for severity, weight in WEIGHTS.items() if weight)
    return "\n".join(
        [
            "## The worst modules",
            "",
            f"A module weighs {weights} finding.",
            "",
            "| module | weight | findings | lines |",
            "|---|--:|---|--:|",
            *rows,
        ]
    )


def _fresh(fresh: tuple[Place, ...], page: Page) -> str:
    rest = len(fresh) - MOST_NEW
    rows = [_line(place, page) for place in worst_first(fresh)[:MOST_NEW]]
    more = ["", f"and {rest:,} more."] if rest > 0 else []
    return "\n".join(["## New since the last approved audit", "", *rows, *more])


def _modules(audit: Audit, page: Page) -> str:
    parts = ["## Every module with findings", ""]
    for path, found in _by_module(audit.places):
        parts.append(f"### {page.link(path)}\n")
        parts.extend(_module(path, found, page))
        parts.append("")
    return "\n".join(parts).rstrip("\n")


def _module(path: str, found: list[Place], page: Page) -> Iterator[str]:
    """Medium and above one by one; what is below, by check with its lines."""
    serious = [p for p in found if rank(p.severity) >= rank("medium")]
    yield from (_line(place, page) for place in worst_first(serious))
    minor: dict[str, list[Place]] = defaultdict(list)
    for place in found:
        if rank(place.severity) < rank("medium"):
            minor[place.check].append(place)
    for check, places in sorted(minor.items(), key=lambda g: (-weigh(g[1]), g[0])):
        if len(places) == 1:
            yield _line(places[0], page)
        else:
            there = page.address(path)
            lines = ", ".join(f"[{p.line}]({there}#L{p.line})" for p in sorted(places, key=lambda p: p.line))
            yield f"- {counted(places)} {_code(check)}: lines {lines}"


def _unseen(title: str, entries: Iterable[Unseen], note: str) -> str:
    reasons: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        reasons[entry.why].append(entry.path)
    rows = [f"## {title}", "", note]
    for why, paths in sorted(reasons.items(), key=lambda g: (-len(g[1]), g[0])):
        rows += ["", f"{len(paths):,}: {_text(why)}", "", *(f"- {_code(path)}" for path in paths)]
    return "\n".join(rows)


def _by_module(places: Iterable[Place]) -> list[tuple[str, list[Place]]]:
    groups: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        groups[place.path].append(place)
    return sorted(groups.items(), key=lambda g: (-weigh(g[1]), -len(g[1]), g[0]))


def _line(place: Place, page: Page) -> str:
    sure = "" if place.confidence >= 0.75 else f" ({place.confidence:.0%} sure)"  # noqa: PLR2004 - sure enough to omit
    link = page.link(place.path, place.line)
    return f"- **{place.severity}** {link} {_text(place.text)} {_code(place.check)}{sure}"


def _why(check: str) -> str:
    return _cell(_text(BY_ID[check].why)) if check in BY_ID else ""


def _text(text: str) -> str:
    """Foreign text as text: no markup, no control characters, one line."""
    return _plain(text).replace("<", "&lt;").replace("[", "\\[").replace("|", "\\|")


def _code(text: str) -> str:
    """Foreign text as code, whatever it holds."""
    plain = _plain(text)
    fence = "``" if "`" in plain else "`"
    gap = " " if fence == "``" else ""
    return f"{fence}{gap}{plain}{gap}{fence}"


def _cell(markdown: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", markdown)


def _plain(text: str) -> str:
    return _CONTROL.sub(lambda m: ascii(m[0])[1:-1], text)
