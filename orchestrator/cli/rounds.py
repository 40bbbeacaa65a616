"""The rounds of a run's refusal loops, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.cli.edge import clean
from orchestrator.runtime.results import RoundRecord, RunResult

__all__ = ["round_lines"]

_HEAD: Final = (
    *("gate", "round", "verdict", "judgement", "moved"),
    *("nodes", "seconds", "tokens", "cost", "branches"),
)
_WHY: Final = 200


def round_lines(result: RunResult) -> Iterator[str]:
    """One line for each round, then why each was refused."""
    if not result.rounds:
        yield "no gate of this run sends work back"
        return
    rows = [_HEAD, *map(_row, result.rounds)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for one in result.rounds:
        if one.rationale and one.judgement in ("refused", "rejected"):
            yield f"\n{clean(one.node)} {one.judgement}: {clean(one.rationale)[:_WHY]}"


def _row(one: RoundRecord) -> Sequence[str]:
    moved = "" if one.moved is None or not one.judgement else "yes" if one.moved else "no"
    told = (("continued", one.continued), ("fresh", one.fresh))
    branches = "; ".join(f"{word} {', '.join(map(clean, names))}" for word, names in told if names)
    return (
        clean(one.gate),
        f"{one.round:,}",
        clean(one.verdict or "-"),
        one.judgement or "open",
        moved,
        f"{one.nodes:,}",
        f"{one.seconds:.2f}",
        f"{one.tokens:,}",
        "-" if one.cost_usd is None else f"${one.cost_usd:.4f}",
        branches,
    )
