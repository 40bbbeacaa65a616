"""What a run came to: for people as a few lines, for programs as one line of JSON."""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from orchestrator.cli.edge import clean
from orchestrator.cli.exits import exit_code
from orchestrator.cli.journals import Place
from orchestrator.core.status import RunReason, Status
from orchestrator.runtime.projections import display_state
from orchestrator.runtime.results import NodeResult, RunResult

__all__ = ["Told", "decision", "details", "headline", "next_step", "result_json", "summary"]

#: Lines of one kind before the rest is only counted.
_SHOWN: Final = 8
_TEXT_LIMIT: Final = 400
_WORD: Final = 9

#: What to do before the command that goes on.
_ADVICE: Final[Mapping[RunReason, str]] = {
    RunReason.FAILED: "mend what failed, then",
    RunReason.GATE_REJECTED: "settle what the gate objects to and run again, or overrule it",
    RunReason.REFUSALS_EXHAUSTED: "settle what the gate objects to and run again, or overrule it",
    RunReason.GATE_UNDECIDED: "see why the gate gave no verdict, then",
    RunReason.STUCK: "see what each node waits for, then",
    RunReason.QUOTA: "wait for the quota, then",
}
#: What goes on with a thread of a graph that was made in Python, by its id.
_INPUT: Final = "give a new input, from Python: await graph.invoke(INPUT, thread_id='{0}')"
_FROM_PYTHON: Final[Mapping[RunReason, str]] = {
    RunReason.GATE_REJECTED: f"settle what the gate objects to and {_INPUT}",
    RunReason.REFUSALS_EXHAUSTED: f"settle what the gate objects to and {_INPUT}",
    RunReason.STUCK: "give what a join waits for, from Python: await graph.update_state('{0}', UPDATE, "
    "as_node=NODE), then await graph.invoke(None, thread_id='{0}')",
}
#: The same of a document: another run of it.
_ANEW: Final[Mapping[RunReason, str]] = {
    RunReason.GATE_REJECTED: "settle what the gate objects to and begin again, with its arguments",
    RunReason.REFUSALS_EXHAUSTED: "settle what the gate objects to and begin again, with its arguments",
    RunReason.STUCK: "mend the edges on which nodes wait for each other and begin again, with its arguments",
}
#: What else has to be done without a journal: there is nothing to go on from.
_AGAIN: Final = "run again"
#: Reasons for which the command alone does not go on: what it asks for waits for a resume.
_TWO_STEPS: Final = frozenset({RunReason.AWAITING_ANSWER, RunReason.GATE_UNDECIDED, RunReason.STUCK})


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """How a result is told.

    Attributes:
        seconds: how long the run was driven. place: its journal; None if it was kept in memory.
        command: what started it, to be typed again. live: a process drives it now.
    """

    seconds: float
    place: Place | None = None
    command: str = ""
    live: bool = False


def headline(result: RunResult, seconds: float) -> str:
    """The one line that says what came of a run."""
    total = len(result.nodes)
    counts = ", ".join(f"{count:,} {state}" for state, count in _counts(result).items())
    spent = f", {_spent(result)}" if _spent(result) else ""
    line = f"{clean(result.name)} {result.reason}: {total:,} {'node' if total == 1 else 'nodes'}: {counts}"
    return f"{line}{spent}, {seconds:.1f} s, exit {exit_code(result.reason)}"


def _counts(result: RunResult) -> Mapping[str, int]:
    return Counter(
        display_state(node.status, opened=node.instances is not None) for node in result.nodes.values()
    )


def _spent(result: RunResult) -> str:
    usage = result.usage
    if not usage.requests:
        return ""
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    return f"{usage.input_tokens + usage.output_tokens:,} tokens{cost}"


def summary(result: RunResult, told: Told) -> list[str]:
    """The headline, and under it everything that somebody has to know to go on."""
    return [headline(result, told.seconds), *details(result, told)]


def details(result: RunResult, told: Told) -> list[str]:
    """What stands under the headline."""
    lines: list[str] = []
    if result.detail and result.reason not in (RunReason.COMPLETED, RunReason.GATE_REJECTED):
        lines.append(_row("because", result.detail))
    for name, value in result.outputs.items():
        lines += _output(name, value)
    lines += _some("artifact", _artifacts(result))
    lines += _refused(result)
    for word, wanted, tell in _TELLING:
        lines += _some(word, (f"{node.name}{tell(node)}" for node in result.nodes.values() if wanted(node)))
    lines += _some("waiting", (f"{name}: for {what}" for name, what in result.waiters.items()))
    if told.place is not None and not told.live:
        lines.append(_row("run", f"{result.run} in {told.place.shown}"))
    return [*lines, *(_row(word, text) for word, text in _steps(result, told))]


def _steps(result: RunResult, told: Told) -> Iterator[tuple[str, str]]:
    """What to do now, as lines; none if the run completed or is live."""
    if result.reason is RunReason.COMPLETED or told.live:
        return
    advice = _ADVICE.get(result.reason, "")
    if told.place is None:
        before = f"{advice.partition(' and ')[0].removesuffix(', then')}, then {_AGAIN}" if advice else _AGAIN
        yield "next", f"{before}: {told.command}" if told.command else before
        return
    if not result.next:
        # a thread of a graph made in Python: no command has its functions
        yield "next", _FROM_PYTHON.get(result.reason, _INPUT).format(result.run)
        return
    step = told.place.typed(result.next)
    if step.startswith("callboard run "):
        yield "next", f"{_ANEW.get(result.reason, 'begin again, with its arguments')}: {step}"
        return
    failed = next((node.name for node in result.nodes.values() if node.status is Status.FAILED), None)
    if result.reason is RunReason.FAILED and failed is not None:
        story = told.place.typed(f"callboard story {result.run} {shlex.quote(failed)}")
        yield "see", f"how {failed} failed, with its traceback: {story}"
    yield "next", f"{advice}: {step}" if advice else step
    if result.reason in _TWO_STEPS:
        yield "then", told.place.typed(f"callboard resume {result.run}")


def next_step(result: RunResult, told: Told) -> str:
    """The command that goes on, for programs; empty if there is none."""
    if result.reason is RunReason.COMPLETED or told.live:
        return ""
    if told.place is None:
        return told.command
    return told.place.typed(result.next) if result.next else ""


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


def _artifacts(result: RunResult) -> Iterator[str]:
    """The files that the run leaves; where it declares none, those of its nodes."""
    if result.artifacts:
        yield from (f"{name} = {one.place} ({one.size:,} bytes)" for name, one in result.artifacts.items())
        return
    for node in result.nodes.values():
        yield from (f"{node.name}.{one.name} = {one.place} ({one.size:,} bytes)" for one in node.artifacts)


def _because(node: NodeResult) -> str:
    return f": {node.reason}" if node.reason else ""


def decision(node: NodeResult) -> str:
    """Who judged a gate and why, if a person did: that counts, and not what the gate itself had said."""
    why = f": {node.because}" if node.because else ""
    return f" by {node.decided_by}{why}" if node.decided_by else why


def _rationale(node: NodeResult) -> str:
    if node.decided_by:
        return decision(node)
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


def result_json(result: RunResult, told: Told) -> bytes:
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
        "seconds": round(told.seconds, 3),
        "live": told.live,
        "journal": None if told.place is None else str(told.place.path),
        "next": next_step(result, told),
        "nodes": {name: _node(node) for name, node in result.nodes.items()},
    }
    return msgspec.json.encode(shown)


def _node(node: NodeResult) -> dict[str, Any]:
    fields = {
        field.name: getattr(node, field.name) for field in dataclasses.fields(node) if field.name != "raw"
    }
    return {**fields, "value": None if node.raw is None else msgspec.Raw(node.raw)}
