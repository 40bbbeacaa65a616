"""The findings of the last audit that was approved, so that the next report can say what is new."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .audit import Place

VERSION = 1
_NUMBER = re.compile(r"\d[\d,]*")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What was known, counted by module and by what was said; `note` says why there is none."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    note: str = ""


def load(file: Path, root: Path) -> Baseline:
    """Read a baseline of this target; one that is missing, foreign or damaged is none, and `note` says so."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Baseline(note=f"there is no approved audit at {file.name} yet")
    except (OSError, ValueError) as error:
        return Baseline(note=f"{file.name} cannot be read ({error})")
    if not isinstance(record, dict) or record.get("version") != VERSION:
        return Baseline(note=f"{file.name} is not a baseline of version {VERSION}")
    if record.get("target") != _relative(root, file):
        return Baseline(note=f"{file.name} is of another target")
    findings = record.get("findings")
    if not isinstance(findings, dict) or not all(isinstance(said, dict) for said in findings.values()):
        return Baseline(note=f"{file.name} is not a baseline of version {VERSION}")
    counts = {
        (path, text): int(n)
        for path, said in findings.items()
        for text, n in said.items()
        if str(n).isdigit()
    }
    return Baseline(Counter(counts))


def new_places(places: Iterable[Place], known: Baseline) -> list[Place]:
    """The places that the baseline does not account for; which of several equal ones, the last."""
    left = known.counts.copy()
    fresh: list[Place] = []
    for place in sorted(places, key=lambda p: (p.path, p.line, p.check, p.text)):
        key = _key(place)
        left[key] -= 1
        if left[key] < 0:
            fresh.append(place)
    return fresh


def save(file: Path, root: Path, places: Iterable[Place], unseen: Iterable[str] = ()) -> None:
    """Write the baseline of a target, sorted so that a diff of two of them can be read.

    What was known of modules that were not looked at this time stays known.
    """
    kept = set(unseen)
    counts = Counter(_key(place) for place in places)
    counts.update({key: count for key, count in load(file, root).counts.items() if key[0] in kept})
    findings: dict[str, dict[str, int]] = {}
    for (path, text), count in sorted(counts.items()):
        findings.setdefault(path, {})[text] = count
    record = {"version": VERSION, "target": _relative(root, file), "findings": findings}
    write(file, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def write(file: Path, text: str) -> None:
    """Write a file whole or not at all, its folder included."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)


def _key(place: Place) -> tuple[str, str]:
    """What stays the same when lines move: numbers are left out."""
    return place.path, f"{place.check}: {_NUMBER.sub('N', place.text)}"


def _relative(root: Path, file: Path) -> str:
    return Path(os.path.relpath(root.resolve(), file.resolve().parent)).as_posix()
