"""The block in which an operator's notes reach a node (the operation-graph seed's own form, D4)."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["rendered"]

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
