"""The block in which an operator's notes reach a node (the operation-graph seed's own form, D4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["first_context", "rendered", "returned_plan"]

_HEAD = (
    "[OPERATOR STEER]\n"
    "A human operator sent these live corrections while this flow is running.\n"
    "Attend to them before continuing. Most recent last."
)


def rendered(notes: Iterable[tuple[str, str]], instruction: str) -> str:
    """``notes`` as (UTC time, text) before the instruction."""
    lines = [f"- {time}: {text}" for time, text in notes]
    block = "\n".join((_HEAD, *lines, "[/OPERATOR STEER]"))
    return f"{block}\n\n{instruction}".rstrip()


def returned_plan(faults: Iterable[str], instruction: str) -> str:
    """What was wrong with a plan, before the instruction to make it."""
    lines = [f"- {fault}" for fault in faults]
    head = "[PLAN REFUSED]\nYour plan cannot be carried out. Give a whole new one. What is wrong:"
    block = "\n".join((head, *lines, "[/PLAN REFUSED]"))
    return f"{block}\n\n{instruction}".rstrip()


def _time_of(given: object) -> str:
    """The seed's ``ts``: seconds since 1970 become UTC text, anything else stays as it reads."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return datetime.fromtimestamp(given, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        except (OverflowError, OSError, ValueError):
            return str(given)
    return "" if given is None else str(given)


def first_context(context: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """The first context; the seed's ``operator_messages`` in it are steers and stay out of sight."""
    first = dict(context)
    messages = first.pop("operator_messages", ())
    return first, tuple(
        (str(entry["text"]), _time_of(entry.get("ts")))
        for entry in messages
        if isinstance(entry, Mapping) and "text" in entry and not entry.get("rendered_into_op")
    )
