"""Going on with a run that another process, or an earlier call, began."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw

from orchestrator.core.commands import Answer, ControlIn, Known, Resume
from orchestrator.core.resuming import reopened_by
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import TERMINAL, Status
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.effects import limit
from orchestrator.runtime.requests import Row, requests_from
from orchestrator.runtime.values import encode

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["GoingOn", "Recovery", "outlook", "requests_of", "set_timers"]

_SECOND = 1e9
#: Requests that hold for the process that drives the run, not for the run.
_OF_A_PROCESS = frozenset({"pause", "resume", "drain"})


class GoingOn(Protocol):
    """How a run begins behind what is on record of it."""

    def go_on(self, engine: Engine) -> None:
        """Submit the first commands and set the timers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """How a run goes on; its state has been folded from its records before.

    Attributes:
        epoch: which process drives it now. budget: named limits that are raised first.
        answers: node -> answer to its open question, or verdict for an undecided gate.
        settled: outcomes that a fork gives, which refer to ``values`` by position.
        rows: requests that came while nobody drove it. reopen: nodes that run again (``*``: all that failed).
    """

    epoch: int
    budget: Mapping[str, float]
    rows: Sequence[Row] = ()
    settled: tuple[Known, ...] = ()
    values: tuple[bytes, ...] = ()
    answers: Mapping[str, Any] = field(default_factory=dict)
    reopen: tuple[str, ...] = ()

    def go_on(self, engine: Engine) -> None:
        """Submit the command and set the timers from what was left of them."""
        state = engine.state
        values: list[bytes] = list(self.values)
        command = Resume(
            utc_now(),
            self.epoch,
            dict(self.budget),
            requests_of(self, state, values),
            self.reopen,
            self.settled,
            engine.waits_for_answers,
        )
        engine.branches.adopt(state)
        engine.tell(command, values)
        if not engine.closed:
            set_timers(engine)


def requests_of(going: Recovery, state: RunState, values: list[bytes]) -> tuple[ControlIn, ...]:
    """What came while nobody drove the run, and what its caller answers; their values are added."""
    rows = [row for row in going.rows if row.id not in state.controls]
    return (*_requests(rows, values), *_answers(state, going.answers, values))


def _requests(rows: Sequence[Row], values: list[bytes]) -> tuple[ControlIn, ...]:
    """What came while nobody drove the run; what was said to the process that is gone means nothing now."""
    return tuple(
        ControlIn(row.id, fault=f"{row.kind}: the process that it was meant for is gone")
        if row.kind in _OF_A_PROCESS
        else requests_from((row,), values)[0]
        for row in rows
    )


def _answers(state: RunState, answers: Mapping[str, Any], values: list[bytes]) -> tuple[ControlIn, ...]:
    """The caller's own answers, as requests without a row."""
    made = []
    for name, value in answers.items():
        node = _meant(state, name)
        questions = {} if node is None else node.questions or {}
        key = next((question.key for question in questions.values() if question.answer is None), None)
        values.append(encode(value, f"the answer for {name}"))
        meant = name if node is None else node.op.name
        made.append(ControlIn(0, Raw(msgspec.json.encode(Answer(meant, key, len(values) - 1)))))
    return tuple(made)


def _meant(state: RunState, name: str) -> NodeState | None:
    """The node of a name; in a stepped run the task of the present step that a node's name means."""
    node = state.resolve(name)
    if node is None and state.steps is not None:
        tasks = [task for task, one in state.steps.active.items() if one.node == name]
        node = state.nodes[tasks[0]] if len(tasks) == 1 else None
    return node


def set_timers(engine: Engine) -> None:
    """Set every timer that a run has from what was left of it."""
    state = engine.state
    for node in state.nodes.values():
        if node.status in TERMINAL:
            continue
        if node.status is Status.BACKING_OFF:
            left = max(0, node.backoff_until - state.at) / _SECOND
            engine.set_timer(left, "backoff", node.op.name, node.attempt)
        if node.attempt and node.status is not Status.WAITING:
            limit(engine, node)
        for question in (node.questions or {}).values():
            if question.answer is None and question.expires_at:
                left = max(0, question.expires_at - state.at) / _SECOND
                engine.set_timer(left, "question", node.op.name, node.attempt, question.key)
    if state.budget.wall_clock is not None:
        engine.set_timer(max(0.0, state.budget.wall_clock - state.at / _SECOND), "wall_clock", None, 0)


def outlook(state: RunState, reopen: Iterable[str] = (), given: Collection[str] = ()) -> str:
    """One line before a run goes on: ``reuses 9, will run 3``.

    Args:
        reopen: nodes that run again, as ``Recovery.reopen``; what failed ones have grown goes.
        given: nodes that a fork gives their outcome; they do not run.
    """
    reopened = {node.op.name for node in reopened_by(state, reopen)}
    repeated = {name for name in reopened if state.nodes[name].status is Status.FAILED}
    grown: set[str] = set()
    for name, node in state.nodes.items():
        if node.parent in repeated | grown and node.rungs == 0:
            grown.add(name)
    kept = [node for name, node in state.nodes.items() if name not in grown]
    settled = sum(node.status in TERMINAL for node in kept if node.op.name not in reopened)
    told = sum(node.op.name in given and node.status not in TERMINAL for node in kept)
    word = f"given {told:,}, " if told else ""
    return f"reuses {settled:,}, {word}will run {len(kept) - settled - told:,}"
