"""Writes the pages that are made from the code: `make docs`. A test compares them with what is committed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from orchestrator.core.facts import FACTS, Fact

HERE = Path(__file__).resolve().parent

#: heading -> what the names of its facts look like; the first match wins
GROUPS = {
    "The run": r"Run|GraphPlanned|DrainRequested|CancelRequested|BudgetRaised",
    "Gates": r"Gate|Round",
    "Emissions": r"Emission|SpawnRefused|Refusals",
    "People": r"Question|Steer",
    "Nodes": r"Node|Attempt|CancelIgnored|ResultStale",
    "Things": r"",
}

EVENTS = """\
# Events

<!-- Made by docs/generate.py from orchestrator/core/facts.py. Do not edit. -->

Every decision is a fact, and every fact is published once it is durable: to taps, to `callboard run --json`,
and to streams of events. All of them carry the same envelope:

| field | meaning |
|---|---|
| `v` | version of the envelope: 1. Fields are added, never changed |
| `run` | the run's id |
| `seq` | the fact's number in its run; null for progress, which is not journaled |
| `kind` | one of the names below |
| `node`, `attempt`, `role` | whom it is about, as stamped by the engine |
| `cause` | the `seq` of what led to it |
| `at` | wall time, to be shown and never to be computed with |
| `data` | the fields of the kind |
"""


def first_sentences(cls: type) -> str:
    """The first paragraph of a docstring, as one line of a table."""
    paragraph = (cls.__doc__ or "").strip().partition("\n\n")[0]
    return re.sub(r"\s+", " ", paragraph).replace("``", "`").replace("|", r"\|")


def group(kind: str) -> str:
    """The heading that a kind of fact stands under."""
    return next(heading for heading, pattern in GROUPS.items() if re.match(pattern, kind))


def row(fact: type[Fact]) -> str:
    """One line of a table: the kind, what it means, its fields."""
    fields = ", ".join(f"`{field.name}`" for field in msgspec.structs.fields(fact))
    return f"| `{fact.__name__}` | {first_sentences(fact)} | {fields} |"


def events() -> str:
    """The page of all kinds of facts."""
    parts = [EVENTS]
    for heading in ("The run", "Nodes", "Emissions", "Gates", "People", "Things"):
        rows = [row(fact) for fact in FACTS if group(fact.__name__) == heading]
        parts += [f"\n## {heading}\n", "| kind | meaning | data |\n|---|---|---|", *rows]
    return "\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {"events.md": events}


def main() -> None:
    """Write every page that is not what it should be."""
    for name, page in PAGES.items():
        path, text = HERE / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"docs/{name}: written")


if __name__ == "__main__":
    main()
