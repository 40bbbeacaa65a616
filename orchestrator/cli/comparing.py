"""``callboard diff``: two runs beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import msgspec

from orchestrator.cli.edge import clean, say, say_json
from orchestrator.cli.journals import reading, recorded
from orchestrator.cli.options import DiffOptions
from orchestrator.runtime.diffing import Difference, NodeDiff, RunDiff, diff

__all__ = ["diff_runs"]

#: Exit code for runs that differ, as that of diff(1).
_DIFFER: Final = 1
_SHOWN: Final = 70


def diff_runs(options: DiffOptions) -> int:
    """Print what differs; returns 0 if the outcomes are equal, 1 if not.

    Raises:
        UsageError: no such run. JournalError: it cannot be read.
    """
    with reading(options.journal) as (reader, _):
        first, second = recorded(reader, options.first), recorded(reader, options.second)
    found = diff(first.state, second.state)
    if options.json:
        told = {"v": 1, "first": first.run_id, "second": second.run_id, "equal": found.equal}
        say_json(msgspec.json.encode({**told, **asdict(found)}))
    else:
        say(f"- {first.run_id}  {clean(first.state.name)} {first.standing}")
        say(f"+ {second.run_id}  {clean(second.state.name)} {second.standing}")
        say("\n".join(_lines(found)))
    return 0 if found.equal else _DIFFER


def _lines(found: RunDiff) -> Iterator[str]:
    for one in found.run:
        yield from _difference(one, "")
    for node in found.nodes:
        yield ""
        yield f"{clean(node.node)}{_mark(node, found)}"
        for one in node.inputs:
            yield from _difference(one, "given: ")
        for one in node.outcome:
            yield from _difference(one, "")
    yield ""
    spent = "; ".join(f"{one.what} {_short(one.first)} -> {_short(one.second)}" for one in found.spent)
    if spent:
        yield f"spent: {spent}"
    count = f"{found.same:,} {'node is' if found.same == 1 else 'nodes are'} the same"
    yield f"{count}, {len(found.nodes):,} differ; outcomes are {'equal' if found.equal else 'not equal'}"


def _mark(node: NodeDiff, found: RunDiff) -> str:
    if node.node != found.cause:
        return ""
    if node.inputs:
        return (
            f"  <- cause: it was given something else ({', '.join(clean(one.what) for one in node.inputs)})"
        )
    absent = any(one.what == "status" and None in (one.first, one.second) for one in node.outcome)
    return (
        "  <- cause: it is in one run only" if absent else "  <- cause: it gave something else for the same"
    )


def _difference(one: Difference, word: str) -> Iterator[str]:
    yield f"  {word}{clean(one.what)}"
    yield f"    - {_short(one.first)}"
    yield f"    + {_short(one.second)}"


def _short(value: Any) -> str:
    if value is None:
        return "(nothing)"
    text = clean(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
