"""``callboard roles --effect``: what each role did in all runs of a journal. Recorded, and never acted on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from orchestrator.cli.edge import clean, say
from orchestrator.cli.journals import reading
from orchestrator.core.state import RunState
from orchestrator.runtime.recorded import read_run

__all__ = ["effect"]


@dataclass(slots=True)
class _Done:
    """What a role did.

    Attributes:
        runs: in which it worked. nodes: of it that started. emissions: accepted, by kind.
        verdicts: given at gates. turned: those that the next round of their gate turned.
        tokens, cost_usd: of its model calls; cost None while no price is known.
    """

    runs: int = 0
    nodes: int = 0
    emissions: Counter[str] = field(default_factory=Counter)
    verdicts: int = 0
    turned: int = 0
    tokens: int = 0
    cost_usd: float | None = None


def effect(journal: str | None, name: str | None = None) -> int:
    """Print one line for each role of the recorded runs.

    Args:
        journal: the file, as for every command that reads runs. name: only this role.

    Raises:
        UsageError: there is no journal. JournalError: it cannot be read.
    """
    done: dict[str, _Done] = {}
    with reading(journal) as (reader, _):
        for info in reader.runs():
            _take(read_run(reader, info.run).state, done)
    shown = {role: one for role, one in sorted(done.items()) if name in (None, role)}
    say("\n".join(_lines(shown)) if shown else "no role has worked in these runs")
    return 0


def _take(state: RunState, done: dict[str, _Done]) -> None:
    """Add what the roles of one run did."""
    worked = [node for node in state.nodes.values() if node.op.role is not None and node.attempt]
    for role in dict.fromkeys(str(node.op.role) for node in worked):
        done.setdefault(role, _Done()).runs += 1
    for node in worked:
        one = done[str(node.op.role)]
        one.nodes += 1
        one.emissions.update(entry.kind for entry in node.ledger)
        one.verdicts += node.op.gate is not None and bool(node.verdicts) and not node.decided_by
        one.tokens += node.input_tokens + node.output_tokens
        if node.cost_usd is not None:
            one.cost_usd = (one.cost_usd or 0.0) + node.cost_usd
    for record in state.rounds:
        judge = state.nodes[record.node].op.role
        if record.moved and judge in done:
            done[judge].turned += 1


def _lines(done: dict[str, _Done]) -> Iterator[str]:
    head = ("role", "runs", "nodes", "verdicts", "turned", "tokens", "cost", "emissions")
    rows = [head, *((clean(role), *_cells(one)) for role, one in done.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(one: _Done) -> tuple[str, ...]:
    return (
        f"{one.runs:,}",
        f"{one.nodes:,}",
        f"{one.verdicts:,}",
        f"{one.turned:,}",
        f"{one.tokens:,}",
        "-" if one.cost_usd is None else f"${one.cost_usd:.4f}",
        ", ".join(f"{count:,} {clean(kind)}" for kind, count in sorted(one.emissions.items())) or "-",
    )
