"""Carrying out effects: what the core asked of the world, once its facts are durable. Runs no user code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from orchestrator.core import effects as e
from orchestrator.core.records import Record
from orchestrator.core.state import NodeState
from orchestrator.core.status import TERMINAL, Status

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["Effects", "limit"]

_SECOND = 1e9


def limit(engine: Engine, node: NodeState) -> None:
    """Set the timer of a node's deadline by what is left of it; while it asks no clock runs."""
    left = node.remaining(engine.state.at)
    if left is not None and node.status is not Status.ASKING and node.status not in TERMINAL:
        engine.set_timer(max(0, left) / _SECOND, "deadline", node.op.name, node.asks)


class Effects:
    """One run's effects."""

    __slots__ = ("_engine", "_perform")

    def __init__(self, engine: Engine) -> None:
        """``engine`` is the run whose effects they are."""
        self._engine = engine
        self._perform: Mapping[type[e.Effect], Callable[[Any], None]] = {
            e.StartAttempt: self._start_attempt,
            e.StopAttempt: self._stop_attempt,
            e.SetBackoff: self._set_backoff,
            e.AnswerAttempt: self._answer_attempt,
            e.DeliverSteer: self._deliver_steer,
            e.TellChildren: self._tell_children,
            e.CloseRun: self._close,
        }

    def release(self, record: Record) -> None:
        """Carry out a durable record's effects, then publish it."""
        engine = self._engine
        seq = record.first
        for fact in record.facts:
            make = e.REACT.get(type(fact))
            if make is not None:
                effect = make(fact, seq)
                self._perform[type(effect)](effect)
            seq += 1
        engine.published += len(record.facts)
        engine.bus.publish(engine, record)
        if engine.watchers:
            engine.wake_watchers()
        if engine.workers.starts and not engine.own:
            engine.workers.summon()

    def _start_attempt(self, effect: e.StartAttempt) -> None:
        engine = self._engine
        node = engine.state.nodes[effect.node]
        active = engine.workers.active.get(effect.node)
        if active is not None and active[0].attempt == effect.attempt and active[0].answered is not None:
            active[0].answered.set()
            return
        limit(engine, node)
        engine.workers.starts.append((node, effect.attempt))

    def _stop_attempt(self, effect: e.StopAttempt) -> None:
        active = self._engine.workers.active.get(effect.node)
        if active is not None and (effect.attempt is None or active[0].attempt == effect.attempt):
            active[1].cancel()

    def _set_backoff(self, effect: e.SetBackoff) -> None:
        engine = self._engine
        if effect.delay:
            engine.set_timer(effect.delay / _SECOND, "backoff", effect.node, effect.attempt)
        node = engine.state.nodes[effect.node]
        if node.asks:
            limit(engine, node)

    def _answer_attempt(self, effect: e.AnswerAttempt) -> None:
        """The answer alone starts nothing: the node is ready and waits for its slot, against its deadline."""
        limit(self._engine, self._engine.state.nodes[effect.node])

    def _deliver_steer(self, effect: e.DeliverSteer) -> None:
        engine = self._engine
        active = engine.workers.active.get(effect.node)
        if active is not None and active[0].attempt == effect.attempt:
            active[0].tell(engine.state.steers[effect.id - 1].text)

    def _tell_children(self, effect: e.TellChildren) -> None:
        if effect.what:
            for child in self._engine.family.children.values():
                getattr(child, effect.what)()

    def _close(self, _effect: e.CloseRun) -> None:
        self._engine.close()
