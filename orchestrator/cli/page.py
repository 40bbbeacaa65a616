"""A run as one page that needs nothing else: no script, no network, every name shown as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator.cli.edge import clean
from orchestrator.cli.page_graph import graph
from orchestrator.cli.page_messages import said, told
from orchestrator.core import facts as f
from orchestrator.core.records import Record
from orchestrator.core.state import NodeState
from orchestrator.runtime.projections import display_state, node_result
from orchestrator.runtime.recorded import LIVE, RecordedRun
from orchestrator.runtime.results import RunResult

__all__ = ["page"]

#: Characters of all values and reasons together: a page stays below a megabyte.
_ROOM: Final = 250_000
_LEAST: Final = 40
_MOST: Final = 400
#: Percent of the whole from which a wait is seen.
_VISIBLE: Final = 0.1
#: Rows of one table.
_ROWS: Final = 2_000

#: Nothing is loaded from anywhere, nothing runs.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = Path(__file__).with_name("templates") / "page.css"


def page(run: RecordedRun, records: Iterable[Record], *, messages: bool = False) -> str:
    """The page.

    Args:
        run: folded from all of its records. records: the same records again, for what was decided when.
        messages: with what nodes were told and what was said on branches, whole.
    """
    result = run.result()
    facts = _Facts(records)
    live = run.standing == LIVE
    room = max(_LEAST, min(_MOST, _ROOM // max(1, len(run.state.nodes))))
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{_text(result.name)} {_text(run.standing)}</title>",
        f"<style>{_STYLE.read_text(encoding='utf-8')}</style></head><body>",
        *_head(run, result, live=live),
        f'<h2>Graph</h2><div class="scroll">{graph(run.state)}</div>',
        "<p>Thick: a gate. Dashed: grown. Dashed arrows lead to who was spawned, dotted ones join.</p>",
        *_verdicts(facts, run),
        *_growth(run),
        *_refusals(result),
        *_people(facts),
        *_nodes(run, room),
        *_data("Outputs", result.outputs),
        *_data("Context", result.final_context),
        *(_messages(run) if messages else ()),
        "</body></html>\n",
    ]
    return "".join(parts)


_OF_PEOPLE: Final = (f.QuestionAsked, f.QuestionAnswered, f.SteerReceived, f.BudgetRaised)


class _Facts:
    """What the tables need of the records: judgements and what people said, with the time of each."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.judged: list[tuple[int, int, Any]] = []
        self.people: list[tuple[int, int, Any, Any]] = []
        for record in records:
            for seq, fact in enumerate(record.facts, record.first):
                if isinstance(fact, f.GateApproved | f.GateRejected | f.GateUndecided):
                    self.judged.append((seq, record.at, fact))
                elif isinstance(fact, _OF_PEOPLE):
                    value = record.values[fact.value] if isinstance(fact, f.QuestionAnswered) else None
                    self.people.append((seq, record.at, fact, value))


def _head(run: RecordedRun, result: RunResult, *, live: bool) -> Iterator[str]:
    states = Counter(display_state(node.status, opened=node.opened) for node in run.state.nodes.values())
    counts = ", ".join(f"{count:,} {state}" for state, count in states.items())
    usage = result.usage
    yield f"<h1>{_text(result.name)}: {_text(run.standing)}</h1>"
    rows = [
        ("run", run.run_id),
        ("nodes", f"{len(run.state.nodes):,}: {counts}"),
        ("driven for", f"{run.seconds:,.2f} s, by {max(run.state.epoch, 1)} process(es)"),
        ("last event", datetime.fromtimestamp(run.wall / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")),
    ]
    if result.detail:
        rows.append(("because", result.detail))
    if usage.requests:
        cost = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        rows.append(("models", f"{usage.requests:,} calls, {tokens}, cost {cost}"))
    budget = run.state.budget
    rows.append(("growth", f"{run.state.spawns:,} of {budget.spawns:,} spawns, depth up to {budget.depth}"))
    if run.state.origin:
        rows.append(("forked from", run.state.origin))
    for name, what in result.waiters.items():
        rows.append((f"{name} waits for", what))
    if result.next and not live:
        rows.append(("next", result.next))
    yield from _table((), rows[:_ROWS])


def _verdicts(facts: _Facts, run: RecordedRun) -> Iterator[str]:
    if not facts.judged:
        return
    yield "<h2>Verdicts</h2>"
    rows = []
    for seq, at, fact in facts.judged:
        node = run.state.nodes.get(fact.node)
        said = getattr(fact, "rationale", "") or getattr(fact, "because", "") or getattr(fact, "why", "")
        if not said and node is not None:
            said = _rationale(node)
        word = type(fact).__name__.removeprefix("Gate").lower()
        vetoed = [name for name, one in run.state.nodes.items() if fact.node in one.vetoed_by]
        verdict = getattr(fact, "verdict", None) or ""
        rows.append((f"#{seq}", _at(at), fact.node, word, verdict, said, getattr(fact, "by", None) or "",
                     _few(vetoed)))  # fmt: skip
    yield from _table(("", "at", "gate", "", "verdict", "rationale", "by", "vetoed"), rows)


def _rationale(node: NodeState) -> str:
    value = None if node.value is None else msgspec.json.decode(node.value)
    said = value.get("rationale") if isinstance(value, dict) else None
    return str(said or node.rationale or "")


def _growth(run: RecordedRun) -> Iterator[str]:
    children: dict[str, list[str]] = {}
    for name, node in run.state.nodes.items():
        if name not in run.planned and node.copies is None:
            children.setdefault(node.parent or "from outside", []).append(name)
    if not children:
        return
    yield "<h2>Who spawned whom</h2>"
    rows = [(parent, f"{len(names):,}", _few(names, 200)) for parent, names in children.items()]
    yield from _table(("who", "", "whom"), rows)


def _refusals(result: RunResult) -> Iterator[str]:
    if not result.dropped_spawns:
        return
    yield "<h2>Refused</h2>"
    rows = []
    for one in result.dropped_spawns:
        who = one.emitter_id or "from outside"
        rows.append((who, one.assignee or "", one.key or "", one.reason, one.detail, f"{one.count:,}"))
    yield from _table(("who asked", "for", "key", "reason", "detail", "times"), rows)


def _people(facts: _Facts) -> Iterator[str]:
    if not facts.people:
        return
    yield "<h2>What people were asked and said</h2>"
    rows = []
    for seq, at, fact, value in facts.people:
        match fact:
            case f.QuestionAsked():
                row = (fact.node, "asked", fact.question)
            case f.QuestionAnswered():
                said = bytes(value).decode()
                because = f", because {fact.because}" if fact.because else ""
                row = (fact.node, f"answered by {fact.by or 'somebody'}", f"{fact.key}: {said}{because}")
            case f.SteerReceived():
                row = (fact.target or "the next node", "steered", fact.text)
            case _:
                row = ("the run", "budget raised", f"{fact.name} to {fact.limit:g}")
        rows.append((f"#{seq}", _at(at), *row))
    yield from _table(("", "at", "node", "", ""), rows)


def _nodes(run: RecordedRun, room: int) -> Iterator[str]:
    """Every node with its bar: pale while it waited for a slot, full while it ran."""
    total = max(run.state.at, 1)
    yield "<h2>Nodes and time</h2><table><tr>"
    for word in ("", "node", "role", "tries", "seconds", "", "cost", "what came of it"):
        yield f"<th>{word}</th>"
    yield "</tr>"
    for name, node in run.state.nodes.items():
        result = node_result(node)
        state = display_state(node.status, opened=node.opened)
        colour = node.judgement if node.judgement in {"rejected", "undecided"} else state
        cost = "" if node.cost_usd is None else f"${node.cost_usd:.4f}"
        cells = (
            ("", state),
            ("k", name),
            ("", node.op.role or node.op.verb),
            ("n", f"{node.attempt}"),
            ("n", f"{result.duration:.2f}"),
        )
        yield f'<tr class="{colour}">{"".join(_cell(kind, text) for kind, text in cells)}'
        yield f"<td>{_bar(node, total)}</td>{_cell('n', cost)}{_cell('w', _came(node)[:room])}</tr>"
    yield "</table>"


def _cell(kind: str, text: str) -> str:
    return f'<td class="{kind}">{_text(text)}</td>' if kind else f"<td>{_text(text)}</td>"


def _bar(node: NodeState, total: int) -> str:
    if not node.ready_at and not node.started_at:
        return ""
    start = node.started_at or node.settled_at or total
    end = node.settled_at or total
    ready = node.ready_at or start
    waited, ran = 100 * max(0, start - ready) / total, 100 * max(0, end - start) / total
    at = 100 * ready / total
    pale = f'<b style="left:{at:.1f}%;width:{waited:.1f}%"></b>' if waited >= _VISIBLE else ""
    return f'<div class="bar">{pale}<i style="left:{100 * start / total:.1f}%;width:{ran:.1f}%"></i></div>'


def _came(node: NodeState) -> str:
    if node.error is not None and node.status == "failed":
        return f"{node.error.type}: {node.error.message}"
    if node.vetoed_by:
        return f"vetoed by {', '.join(node.vetoed_by)}"
    if node.superseded_by:
        return f"to {node.superseded_by}: {node.reason}"
    if node.reason:
        return node.reason
    return "" if node.value is None or node.value == b"null" else node.value.decode()


def _data(title: str, values: Any) -> Iterator[str]:
    if values:
        yield f"<h2>{title}</h2>"
        rows = [(name, _json(value)[:_MOST]) for name, value in values.items()]
        yield from _table((), rows)


def _messages(run: RecordedRun) -> Iterator[str]:
    if texts := list(told(run)):
        yield "<h2>What nodes were told</h2>"
        yield from _table(("node", "text"), texts)
    if messages := list(said(run)):
        yield "<h2>What was said</h2>"
        yield from _table(("branch", "who", "in the turn of", "text"), messages)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield "<table>"
    if head:
        yield f"<tr>{''.join(f'<th>{word}</th>' for word in head)}</tr>"
    for row in rows[:_ROWS]:
        yield f"<tr>{''.join(_cell('w', cell) for cell in row)}</tr>"
    yield "</table>"
    if len(rows) > _ROWS:
        yield f"<p>and {len(rows) - _ROWS:,} more</p>"


def _few(names: list[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _at(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.2f} s"


def _text(value: object) -> str:
    return escape(clean(value))
