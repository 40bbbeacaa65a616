"""The live view of a terminal: the graph, what runs, what it said last, and what was spent."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from anyio import create_task_group, current_time, sleep
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from orchestrator.cli.edge import clean
from orchestrator.core.state import NodeState
from orchestrator.runtime.envelopes import Envelope
from orchestrator.runtime.projections import node_result
from orchestrator.runtime.run import Run

__all__ = ["LiveView"]

_STYLES: Final[Mapping[str, str]] = {
    "running": "bold cyan",
    "asking": "bold magenta",
    "retrying": "yellow",
    "succeeded": "green",
    "failed": "bold red",
    "vetoed": "red",
    "cancelled": "red",
    "escalated": "yellow",
    "held": "magenta",
    "paused": "magenta",
    "skipped": "dim",
    "queued": "dim",
}
_BUSY: Final = ("running", "asking", "retrying")
#: Seconds between two drawings; never more than a tenth of the time goes into them.
_PAUSE: Final = 0.125
_SHARE: Final = 10
_TEXT_LIMIT: Final = 200


class LiveView:
    """Draws a run again and again in one place; it vanishes when the run is over."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._said: dict[str, str] = {}
        self._asides = 0

    async def follow(self, run: Run) -> None:
        """Draw until the run is over."""
        with self._live:
            async with create_task_group() as group:
                group.start_soon(self._draw, run)
                await run.over()
                group.cancel_scope.cancel()

    async def _draw(self, run: Run) -> None:
        began = current_time()
        while True:
            before = current_time()
            if not self._asides:
                self._live.update(self._picture(run, before - began), refresh=True)
            await sleep(max(_PAUSE, (current_time() - before) * _SHARE))

    async def said(self, envelope: Envelope) -> None:
        """Keep what a node said last."""
        if envelope.node is not None:
            self._said[envelope.node] = clean(envelope.data.get("text", ""))[:_TEXT_LIMIT]

    def tell(self, line: str) -> None:
        """One line above the drawing."""
        self._console.print(Text(clean(line)))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the drawing away while a question is asked."""
        self._asides += 1
        self._live.stop()
        try:
            yield
        finally:
            self._asides -= 1
            self._live.start()

    # --- the drawing ---------------------------------------------------------------------------

    def _picture(self, run: Run, elapsed: float) -> Group:
        states = run.states()
        room = max(self._console.height - 3, 4)
        rows = list(self._rows(run, states))
        shown = rows[:room] if len(rows) <= room else rows[: room - 1]
        if len(shown) < len(rows):
            shown.append(Text(f"  ... {len(rows) - len(shown):,} more", style="dim"))
        return Group(self._head(run, states, elapsed), *shown)

    def _head(self, run: Run, states: Mapping[str, str], elapsed: float) -> Text:
        counts = Counter(states.values())
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(clean(run.engine.state.name), style="bold")
        head.append(f"  {elapsed:.0f} s")
        for state in _STYLES:
            if counts[state]:
                head.append("  ")
                head.append(f"{counts[state]:,} {state}", style=_STYLES[state])
        return head.append(_spend(run))

    def _rows(self, run: Run, states: Mapping[str, str]) -> Iterator[Text]:
        """Planned nodes in their order; under each what it grew: counts, and what of it runs now."""
        nodes = run.engine.state.nodes
        grown: dict[str, list[str]] = {}
        for name, node in nodes.items():
            if name not in run.engine.planned and node.copies is None:
                grown.setdefault(_root(run, node), []).append(name)
        for name in [one for one, node in nodes.items() if one in run.engine.planned or node.copies]:
            yield self._row(nodes[name], states[name], "  ")
            yield from self._grown(run, grown.get(name, []), states)
        yield from self._grown(run, grown.get("", []), states)

    def _grown(self, run: Run, names: list[str], states: Mapping[str, str]) -> Iterator[Text]:
        if not names:
            return
        counts = Counter(states[name] for name in names)
        told = ", ".join(f"{count:,} {state}" for state, count in counts.items())
        nodes = run.engine.state.nodes
        word = "instances" if all(nodes[name].op.instance for name in names) else "grown"
        yield Text(f"    + {len(names):,} {word}: {told}", style="dim", no_wrap=True, overflow="ellipsis")
        for name in names:
            if states[name] in _BUSY:
                yield self._row(run.engine.state.nodes[name], states[name], "      ")

    def _row(self, node: NodeState, state: str, indent: str) -> Text:
        row = Text(indent, no_wrap=True, overflow="ellipsis")
        row.append(f"{state:<10}", style=_STYLES.get(state, ""))
        row.append(clean(node.op.name))
        if node.op.gate is not None:
            row.append(" gate", style="dim")
        if node.settled_at:
            row.append(f"  {node_result(node).duration:.1f} s", style="dim")
        if node.error is not None and state in ("failed", "retrying"):
            row.append(f"  {clean(node.error.type)}: {clean(node.error.message)[:_TEXT_LIMIT]}", style="red")
        elif state in _BUSY and node.op.name in self._said:
            row.append(f"  {self._said[node.op.name]}", style="italic")
        return row


def _root(run: Run, node: NodeState) -> str:
    """The planned node, or its copy in a later round, that one descends from; empty if from outside."""
    root = run.engine.state.nodes[node.origin]
    return node.origin if root.copies is not None or node.origin in run.engine.planned else ""


def _spend(run: Run) -> str:
    state = run.engine.state
    tokens = sum(node.input_tokens + node.output_tokens for node in state.nodes.values())
    if not tokens:
        return ""
    costs = [node.cost_usd for node in state.nodes.values() if node.cost_usd is not None]
    return f"  {tokens:,} tokens{f'  ${sum(costs):.4f}' if costs else ''}"
