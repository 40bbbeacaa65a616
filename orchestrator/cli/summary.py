"""What a run came to: for people as a few lines, for programs as one line of JSON."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from orchestrator.cli.edge import clean
from orchestrator.cli.exits import exit_code
from orchestrator.core.status import RunReason, Status
from orchestrator.runtime.results import NodeResult, RunResult, display_state

__all__ = ["headline", "result_json", "summary"]

#: Lines of one kind before the rest is only counted.
_SHOWN: Final = 8
_TEXT_LIMIT: Final = 400
_WORD: Final = 9

_ADVICE: Final[Mapping[RunReason, str]] = {
    RunReason.FAILED: "mend what failed, then run again",
    RunReason.GATE_REJECTED: "settle what the gate objects to, then run again",
    RunReason.REFUSALS_EXHAUSTED: "settle what the gate objects to, then run again",
    RunReason.GATE_UNDECIDED: "see why the gate gave no verdict, then run again",
    RunReason.AWAITING_ANSWER: "run again in a terminal, which asks you",
    RunReason.BUDGET_EXHAUSTED: "raise the budget in the document, then run again",
    RunReason.DEADLINE: "raise budget.wall_clock in the document, then run again",
    RunReason.QUOTA: "wait for the quota, then run again",
    RunReason.DRAINED: "run again",
    RunReason.INTERRUPTED: "run again",
    RunReason.CANCELLED: "run again",
    RunReason.STUCK: "see what each node waits for, then run again",
    RunReason.NEEDS_RECOVERY: "see why the journal failed, then run again",
}


def headline(result: RunResult, seconds: float) -> str:
    """The one line that says what came of a run."""
    total = len(result.nodes)
    counts = ", ".join(f"{count:,} {state}" for state, count in _counts(result).items())
    spent = f", {_spent(result)}" if _spent(result) else ""
    line = f"{clean(result.name)} {result.reason}: {total:,} {'node' if total == 1 else 'nodes'}: {counts}"
    return f"{line}{spent}, {seconds:.1f} s, exit {exit_code(result.reason)}"


def _counts(result: RunResult) -> Mapping[str, int]:
    return Counter(display_state(node.status) for node in result.nodes.values())


def _spent(result: RunResult) -> str:
    usage = result.usage
    if not usage.requests:
        return ""
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    return f"{usage.input_tokens + usage.output_tokens:,} tokens{cost}"


def summary(result: RunResult, seconds: float, command: str) -> list[str]:
    """The headline, and under it everything that somebody has to know to go on."""
    lines = [headline(result, seconds)]
    if result.detail and result.reason not in (RunReason.COMPLETED, RunReason.GATE_REJECTED):
        lines.append(_row("because", result.detail))
    for name, value in result.outputs.items():
        lines += _output(name, value)
    lines += _refused(result)
    for word, wanted, told in _TELLING:
        lines += _some(word, (f"{node.name}{told(node)}" for node in result.nodes.values() if wanted(node)))
    lines += _some("waiting", (f"{name}: for {what}" for name, what in result.waiters.items()))
    advice = _next_step(result, command)
    return [*lines, _row("next", advice)] if advice else lines


def _next_step(result: RunResult, command: str) -> str:
    """What to do now; empty if the run completed."""
    advice = _ADVICE.get(result.reason, "")
    return f"{advice}: {command}" if advice and command else advice


def _row(word: str, text: object) -> str:
    words = " ".join(clean(text).split())
    return f"  {word:<{_WORD}} {words if len(words) <= _TEXT_LIMIT else words[: _TEXT_LIMIT - 3] + '...'}"


def _some(word: str, texts: Iterable[str]) -> Iterator[str]:
    """The first lines of a kind, and how many more there are."""
    listed = list(texts)
    for text in listed[:_SHOWN]:
        yield _row(word, text)
    if len(listed) > _SHOWN:
        yield _row(word, f"and {len(listed) - _SHOWN:,} more")


def _refused(result: RunResult) -> Iterator[str]:
    """Refused requests to grow, counted by who asked and why."""
    counts: Counter[tuple[str, str]] = Counter()
    details: dict[tuple[str, str], str] = {}
    for dropped in result.dropped_spawns:
        key = (dropped.emitter_id or "from outside", dropped.reason)
        counts[key] += dropped.count
        if dropped.count == 1:
            details.setdefault(key, dropped.detail)
    texts = (
        f"{emitter}: {count:,} {'spawn' if count == 1 else 'spawns'}: {reason}"
        + (f" ({details[emitter, reason]})" if details.get((emitter, reason)) else "")
        for (emitter, reason), count in counts.items()
    )
    return _some("refused", texts)


def _output(name: str, value: Any) -> list[str]:
    """An output in full, the lines of a longer text below its name."""
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    lines = [clean(line) for line in shown.rstrip().splitlines()] or [""]
    head = f"  {'output':<{_WORD}} {clean(name)} ="
    return [f"{head} {lines[0]}"] if len(lines) == 1 else [head, *(f"    {line}" for line in lines)]


def _because(node: NodeResult) -> str:
    return f": {node.reason}" if node.reason else ""


def _rationale(node: NodeResult) -> str:
    value = node.value
    said = value.get("rationale") if isinstance(value, dict) else None
    return f": {said}" if said else _because(node)


def _attempts(node: NodeResult) -> str:
    return f" (attempt {node.attempts})" if node.attempts > 1 else ""


_TELLING: Final[tuple[tuple[str, Callable[[NodeResult], bool], Callable[[NodeResult], str]], ...]] = (
    ("rejected", lambda node: node.judgement == "rejected", _rationale),
    ("undecided", lambda node: node.judgement == "undecided", _rationale),
    (
        "failed",
        lambda node: node.status is Status.FAILED,
        lambda node: f"{_attempts(node)}: {node.error or node.reason}",
    ),
    (
        "vetoed",
        lambda node: node.status is Status.VETOED,
        lambda node: f": by {', '.join(node.vetoed_by)}" if node.vetoed_by else _because(node),
    ),
    ("skipped", lambda node: node.status is Status.SKIPPED, _because),
    ("cancelled", lambda node: node.status is Status.CANCELLED, _because),
    (
        "escalated",
        lambda node: node.status is Status.ESCALATED,
        lambda node: f": to {node.superseded_by}{_because(node)}",
    ),
)


# --- for programs ------------------------------------------------------------------------------


def result_json(result: RunResult, seconds: float, command: str) -> bytes:
    """The RunResult with all of its fields as one JSON object, marked ``"kind": "RunResult"``."""
    fields = {
        field.name: getattr(result, field.name)
        for field in dataclasses.fields(result)
        if field.name != "nodes"
    }
    shown = {
        "v": 1,
        "kind": "RunResult",
        **fields,
        "ended": result.ended,
        "ok": result.ok,
        "exit": exit_code(result.reason),
        "seconds": round(seconds, 3),
        "next": _next_step(result, command),
        "nodes": {name: _node(node) for name, node in result.nodes.items()},
    }
    return msgspec.json.encode(shown)


def _node(node: NodeResult) -> dict[str, Any]:
    fields = {
        field.name: getattr(node, field.name) for field in dataclasses.fields(node) if field.name != "raw"
    }
    return {**fields, "value": None if node.raw is None else msgspec.Raw(node.raw)}
