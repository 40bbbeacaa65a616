"""What is seen of a run where there is no terminal: lines, JSON, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from orchestrator.cli.edge import clean, clean_json, note
from orchestrator.cli.outlet import Outlet
from orchestrator.core.state import NodeState, RunState
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.envelopes import Envelope
from orchestrator.runtime.projections import node_result
from orchestrator.runtime.reusing import content_key
from orchestrator.runtime.run import Run

__all__ = [
    "LINES",
    "JsonView",
    "PlainView",
    "QuietView",
    "Stage",
    "View",
    "forked_from",
    "line_of",
    "plain_line",
]

_WIDTH: Final = 10
_TEXT_LIMIT: Final = 300


class Stage(Protocol):
    """What lines are told of: a run that is driven here, or one that is read from its journal."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def state(self) -> RunState:
        """What is true now."""

    @property
    def planned(self) -> Collection[str]:
        """Names of nodes that did not grow."""


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
    """Every fact as an envelope, one to a line, from the fact ``after`` on."""

    def __init__(self, outlet: Outlet, after: int = 0) -> None:
        self._outlet, self._after = outlet, after

    async def follow(self, run: Run) -> None:
        """Write every fact in order."""
        async with run.events(self._after) as events:
            async for envelope in events:
                await self._outlet.put(clean_json(envelope.json()))


class PlainView(QuietView):
    """A line for every settlement and every event that matters, in a format that stays.

    ``head`` are lines to begin with; ``after`` is the seq of the last fact that is known already.
    """

    def __init__(self, outlet: Outlet, after: int = 0, head: Sequence[str] = ()) -> None:
        self._outlet, self._after, self._head = outlet, after, head

    async def follow(self, run: Run) -> None:
        """Write lines as the run goes on."""
        for first in self._head:
            await self._outlet.put(first)
        async with run.events(self._after, LINES.keys()) as events:
            async for envelope in events:
                line = None if _takes(envelope, run.engine) else line_of(envelope, run.engine)
                if line is not None:
                    await self._outlet.put(line)

    async def said(self, envelope: Envelope) -> None:
        """Write what a node reports."""
        await self._outlet.put(plain_line("said", envelope.node, _cut(envelope.data.get("text", ""))))


def _takes(envelope: Envelope, engine: Engine) -> bool:
    """True for the start of a node that takes the outcome of an earlier run instead: it is told as reused."""
    if envelope.kind != "NodeStarted" or not engine.reuse:
        return False
    node = engine.state.nodes.get(envelope.node or "")
    return node is not None and content_key(engine.state, node, engine.reducers) in engine.reuse


def line_of(envelope: Envelope, stage: Stage) -> str | None:
    """An event as one line, ``WORD NODE: DETAIL``; None for one that needs no line."""
    return LINES[envelope.kind](envelope, stage)


def plain_line(word: str, node: object, detail: object = "") -> str:
    """One line of the plain format: what happened, to whom, and more about it."""
    return f"{word:<{_WIDTH}} {clean(node)}{f': {clean(detail)}' if detail else ''}"


def _cut(text: object) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= _TEXT_LIMIT else f"{words[: _TEXT_LIMIT - 3]}..."


def _seconds(stage: Stage, node: str | None) -> str:
    state = stage.state.nodes.get(node or "")
    return f" ({node_result(state).duration:.2f} s)" if state is not None else ""


def _error(data: Mapping[str, Any]) -> str:
    error = data.get("error") or {}
    message = error.get("message", "")
    return _cut(f"{error.get('type', 'Error')}: {message}" if message else error.get("type", "Error"))


def _started(envelope: Envelope, stage: Stage) -> str | None:
    """Only of nodes that were planned: the others are told when they settle."""
    again = f"attempt {envelope.attempt}" if (envelope.attempt or 1) > 1 else ""
    state = stage.state.nodes.get(envelope.node or "")
    if state is not None and state.restored and state.attempt == envelope.attempt:
        return None
    planned = envelope.node in stage.planned or (state is not None and state.copies is not None)
    return plain_line("started", envelope.node, again) if planned else None


def _succeeded(envelope: Envelope, stage: Stage) -> str:
    if envelope.data.get("restored"):
        if envelope.attempt and not stage.state.origin:
            return plain_line("reused", envelope.node)
        return plain_line("succeeded", envelope.node, "it was given and did not run")
    state = stage.state.nodes.get(envelope.node or "")
    parent = f", spawned by {clean(state.parent)}" if state is not None and _spawned(state) else ""
    return plain_line("succeeded", f"{clean(envelope.node)}{_seconds(stage, envelope.node)}{parent}")


def _spawned(state: NodeState) -> bool:
    return state.parent is not None and state.op.instance is None


def _opened(envelope: Envelope, stage: Stage) -> str:
    count = envelope.data["count"]
    return plain_line("fanned out", envelope.node, f"{count:,} {'instance' if count == 1 else 'instances'}")


def _failed(envelope: Envelope, stage: Stage) -> str:
    return plain_line(
        "failed", f"{clean(envelope.node)}{_seconds(stage, envelope.node)}", _error(envelope.data)
    )


def _retrying(envelope: Envelope, stage: Stage) -> str:
    after = envelope.data.get("delay", 0) / 1e9
    return plain_line("retrying", envelope.node, f"in {after:g} s, after {_error(envelope.data)}")


def _with(word: str, field: str) -> Callable[[Envelope, Stage], str]:
    return lambda envelope, stage: plain_line(word, envelope.node, _cut(envelope.data.get(field) or ""))


def _run_line(word: str, field: str | None = None) -> Callable[[Envelope, Stage], str]:
    return lambda envelope, stage: plain_line(
        word, stage.run_id, _cut(envelope.data.get(field) or "") if field else ""
    )


def _resumed(envelope: Envelope, stage: Stage) -> str:
    """A fork has nothing that was interrupted: it says where it comes from."""
    state = stage.state
    if state.origin and envelope.seq == state.forked_at + 1:
        return plain_line("forked", stage.run_id, _cut(f"from {forked_from(state)}"))
    return plain_line("resumed", stage.run_id, _cut(envelope.data.get("previous") or ""))


def forked_from(state: RunState) -> str:
    """The run that a fork comes from, where they part, and what it changes."""
    return f"{state.origin} after #{state.forked_at}{f', {state.change}' if state.change else ''}"


def _draining(envelope: Envelope, stage: Stage) -> str:
    reason = envelope.data.get("reason", "")
    return plain_line("draining" if reason == "drained" else "stopping", stage.run_id, _cut(reason))


def _vetoed(envelope: Envelope, stage: Stage) -> str:
    return plain_line("vetoed", envelope.node, f"by {', '.join(envelope.data.get('gates') or ())}")


def _escalated(envelope: Envelope, stage: Stage) -> str:
    return plain_line(
        "escalated", envelope.node, f"to {envelope.data.get('child')}: {_cut(envelope.data.get('reason'))}"
    )


def _refused(envelope: Envelope, stage: Stage) -> str:
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


def _refusals(envelope: Envelope, stage: Stage) -> str:
    counts = ", ".join(f"{count:,} times {reason}" for reason, count in envelope.data["counts"].items())
    return plain_line("refused", envelope.node or "from outside", f"further requests, {counts}")


def _asked(envelope: Envelope, stage: Stage) -> str:
    choices = ", ".join(envelope.data.get("choices") or ())
    offered = f" [{choices}]" if choices else ""
    return plain_line("asked", envelope.node, _cut(f"{envelope.data['question']}{offered}"))


def _rejected(envelope: Envelope, stage: Stage) -> str:
    data = envelope.data
    why = data.get("rationale") or data.get("cause")
    state = stage.state.nodes.get(envelope.node or "")
    if data.get("cause") == "refusals_exhausted" and state is not None:
        why = f"gave up after {state.refused} refusal{'' if state.refused == 1 else 's'}: {why}"
    return plain_line("rejected", envelope.node, _cut(why))


def _sent_back(envelope: Envelope, stage: Stage) -> str:
    """``refused review: too thin -> round 2 of 3``: the round of this gate's own refusals."""
    data, state = envelope.data, stage.state.nodes.get(envelope.node or "")
    verdict = "" if state is None or not state.verdicts else state.verdicts[-1]
    why = "" if state is None else state.because or state.rationale
    said = ": ".join(part for part in (verdict, why) if part) or "no verdict"
    return plain_line(
        "refused", envelope.node, f"{_cut(said)} -> round {data['refusals'] + 1} of {data['allowed'] + 1}"
    )


def _raised(envelope: Envelope, stage: Stage) -> str:
    return plain_line("budget", envelope.data["name"], f"{envelope.data['limit']:g} from here on")


def _control(envelope: Envelope, stage: Stage) -> str | None:
    """Only of a request that was refused: what one led to has lines of its own."""
    data = envelope.data
    return (
        plain_line("refused", "a request", _cut(f"{data['refused']}: {data['detail']}"))
        if data["refused"]
        else None
    )


#: Kinds that have a line, and how it is made.
LINES: Final[Mapping[str, Callable[[Envelope, Stage], str | None]]] = {
    "RunStarted": _run_line("run", "name"),
    "RunResumed": _resumed,
    "BudgetRaised": _raised,
    "RunPaused": _run_line("paused"),
    "RunUnpaused": _run_line("unpaused"),
    "DrainRequested": _draining,
    "CancelRequested": _run_line("stopping", "detail"),
    "NodeStarted": _started,
    "InstancesAdded": _opened,
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
    "RoundStarted": _sent_back,
    "GateUndecided": _with("undecided", "why"),
    "QuestionAsked": _asked,
    "QuestionAnswered": _with("answered", "value"),
    "SteerReceived": _run_line("steered", "text"),
    "SteerUndelivered": _run_line("unheard", "text"),
    "ControlApplied": _control,
}
