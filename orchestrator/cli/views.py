"""What is seen of a run where there is no terminal: lines, JSON, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from orchestrator.cli.edge import clean, clean_json, note
from orchestrator.cli.outlet import Outlet
from orchestrator.runtime.envelopes import Envelope
from orchestrator.runtime.results import node_result
from orchestrator.runtime.run import Run

__all__ = ["JsonView", "PlainView", "QuietView", "View", "line_of", "plain_line"]

_WIDTH: Final = 10
_TEXT_LIMIT: Final = 300


class View(Protocol):
    """What shows a run."""

    async def follow(self, run: Run) -> None:
        """Show the run until it is over."""

    async def said(self, envelope: Envelope) -> None:
        """Show what a node reports; called by a tap."""

    def tell(self, line: str) -> None:
        """Show a line to the person who typed the command."""

    def aside(self) -> AbstractContextManager[None]:
        """Keep the terminal free while a question is asked."""


class QuietView:
    """Shows nothing but what the command itself has to tell."""

    async def follow(self, run: Run) -> None:
        """Wait until the run is over."""
        await run.over()

    async def said(self, envelope: Envelope) -> None:
        """Pass over it."""

    def tell(self, line: str) -> None:
        """One line on stderr."""
        note(line)

    def aside(self) -> AbstractContextManager[None]:
        """Nothing is in the way."""
        return nullcontext()


class JsonView(QuietView):
    """Every fact as an envelope, one to a line."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    async def follow(self, run: Run) -> None:
        """Write every fact in order."""
        async with run.events() as events:
            async for envelope in events:
                await self._outlet.put(clean_json(envelope.json()))


class PlainView(QuietView):
    """A line for every settlement and every event that matters, in a format that stays."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    async def follow(self, run: Run) -> None:
        """Write lines as the run goes on."""
        async with run.events(kinds=_LINES.keys()) as events:
            async for envelope in events:
                line = line_of(envelope, run)
                if line is not None:
                    await self._outlet.put(line)

    async def said(self, envelope: Envelope) -> None:
        """Write what a node reports."""
        await self._outlet.put(plain_line("said", envelope.node, _cut(envelope.data.get("text", ""))))


def line_of(envelope: Envelope, run: Run) -> str | None:
    """An event as one line, ``WORD NODE: DETAIL``; None for one that needs no line."""
    return _LINES[envelope.kind](envelope, run)


def plain_line(word: str, node: object, detail: object = "") -> str:
    """One line of the plain format: what happened, to whom, and more about it."""
    return f"{word:<{_WIDTH}} {clean(node)}{f': {clean(detail)}' if detail else ''}"


def _cut(text: object) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= _TEXT_LIMIT else f"{words[: _TEXT_LIMIT - 3]}..."


def _seconds(run: Run, node: str | None) -> str:
    state = run.engine.state.nodes.get(node or "")
    return f" ({node_result(state).duration:.2f} s)" if state is not None else ""


def _error(data: Mapping[str, Any]) -> str:
    error = data.get("error") or {}
    message = error.get("message", "")
    return _cut(f"{error.get('type', 'Error')}: {message}" if message else error.get("type", "Error"))


def _started(envelope: Envelope, run: Run) -> str | None:
    """Only of nodes that were planned: the others are told when they settle."""
    again = f"attempt {envelope.attempt}" if (envelope.attempt or 1) > 1 else ""
    return plain_line("started", envelope.node, again) if envelope.node in run.engine.planned else None


def _succeeded(envelope: Envelope, run: Run) -> str:
    if envelope.data.get("restored"):
        return plain_line("succeeded", envelope.node, "it was given and did not run")
    state = run.engine.state.nodes.get(envelope.node or "")
    parent = f", spawned by {clean(state.parent)}" if state is not None and state.parent else ""
    return plain_line("succeeded", f"{clean(envelope.node)}{_seconds(run, envelope.node)}{parent}")


def _failed(envelope: Envelope, run: Run) -> str:
    return plain_line(
        "failed", f"{clean(envelope.node)}{_seconds(run, envelope.node)}", _error(envelope.data)
    )


def _retrying(envelope: Envelope, run: Run) -> str:
    after = envelope.data.get("delay", 0) / 1e9
    return plain_line("retrying", envelope.node, f"in {after:g} s, after {_error(envelope.data)}")


def _with(word: str, field: str) -> Callable[[Envelope, Run], str]:
    return lambda envelope, run: plain_line(word, envelope.node, _cut(envelope.data.get(field) or ""))


def _run_line(word: str, field: str | None = None) -> Callable[[Envelope, Run], str]:
    return lambda envelope, run: plain_line(
        word, run.id, _cut(envelope.data.get(field) or "") if field else ""
    )


def _draining(envelope: Envelope, run: Run) -> str:
    reason = envelope.data.get("reason", "")
    return plain_line("draining" if reason == "drained" else "stopping", run.id, _cut(reason))


def _vetoed(envelope: Envelope, run: Run) -> str:
    return plain_line("vetoed", envelope.node, f"by {', '.join(envelope.data.get('gates') or ())}")


def _escalated(envelope: Envelope, run: Run) -> str:
    return plain_line(
        "escalated", envelope.node, f"to {envelope.data.get('child')}: {_cut(envelope.data.get('reason'))}"
    )


def _refused(envelope: Envelope, run: Run) -> str:
    data = envelope.data
    what = data.get("emission")
    if what is None:
        key = f" ({data['key']})" if data.get("key") else ""
        what = f"spawn of {data.get('assignee') or 'a node'}{key}"
    return plain_line(
        "refused",
        envelope.node or "from outside",
        _cut(f"{what}: {data['reason']}: {data.get('detail', '')}"),
    )


def _refusals(envelope: Envelope, run: Run) -> str:
    counts = ", ".join(f"{count:,} times {reason}" for reason, count in envelope.data["counts"].items())
    return plain_line("refused", envelope.node, f"further requests, {counts}")


def _asked(envelope: Envelope, run: Run) -> str:
    choices = ", ".join(envelope.data.get("choices") or ())
    offered = f" [{choices}]" if choices else ""
    return plain_line("asked", envelope.node, _cut(f"{envelope.data['question']}{offered}"))


def _rejected(envelope: Envelope, run: Run) -> str:
    data = envelope.data
    return plain_line("rejected", envelope.node, _cut(data.get("rationale") or data.get("cause")))


_LINES: Final[Mapping[str, Callable[[Envelope, Run], str | None]]] = {
    "RunStarted": _run_line("run", "name"),
    "RunPaused": _run_line("paused"),
    "RunUnpaused": _run_line("resumed"),
    "DrainRequested": _draining,
    "CancelRequested": _run_line("stopping", "detail"),
    "NodeStarted": _started,
    "NodeRetryScheduled": _retrying,
    "NodeCompleted": _succeeded,
    "NodeFailed": _failed,
    "NodeSkipped": _with("skipped", "reason"),
    "NodeVetoed": _vetoed,
    "NodeCancelled": _with("cancelled", "reason"),
    "NodeEscalated": _escalated,
    "NodeReopened": _with("reopened", "reason"),
    "CancelIgnored": _with("abandoned", "detail"),
    "EmissionRefused": _refused,
    "SpawnRefused": _refused,
    "Refusals": _refusals,
    "GateApproved": _with("approved", "verdict"),
    "GateRejected": _rejected,
    "GateUndecided": _with("undecided", "why"),
    "QuestionAsked": _asked,
    "QuestionAnswered": _with("answered", "value"),
    "SteerUndelivered": _run_line("unheard", "text"),
}
