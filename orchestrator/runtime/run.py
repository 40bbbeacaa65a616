"""The live handle of a run: what a person or a program may do with it while it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from anyio import Event

from emissions import Receipt, Refused
from orchestrator.core.commands import (
    Answer,
    AttemptStopped,
    Cancel,
    Drain,
    Inject,
    Pause,
    RaiseBudget,
    Steer,
    Unpause,
)
from orchestrator.core.status import Status
from orchestrator.errors import InternalError, OrchestratorError
from orchestrator.runtime import changes
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.outputs import render_outputs
from orchestrator.runtime.projections import display_state, run_result
from orchestrator.runtime.results import RunResult
from orchestrator.runtime.streams import EventStream
from orchestrator.runtime.texts import said
from orchestrator.runtime.threads import call_on_loop
from orchestrator.runtime.values import settle
from roles import Role

__all__ = ["Run"]


class Run:
    """A run of a session. Every method but ``wait`` and ``events`` may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        """Made by ``Session.start`` and ``Session.flow``."""
        self._engine = engine
        self._over = Event()
        self._result: RunResult | None = None

    def __repr__(self) -> str:
        """Id and where it stands."""
        return f"<Run {self.id} {self._engine.reason or 'live'}>"

    @property
    def id(self) -> str:
        """The run's id."""
        return self._engine.run_id

    @property
    def engine(self) -> Engine:
        """The machinery; for tests and tools."""
        return self._engine

    @property
    def result(self) -> RunResult | None:
        """What the run came to, or None while it is live."""
        return self._result

    async def wait(self) -> RunResult:
        """Wait until the run has ended or is suspended.

        Raises:
            InternalError: a decision failed, which is a bug of ours; it carries the story.
        """
        await self._over.wait()
        if self._result is None:
            message = f"run {self.id} was closed without a result"
            raise InternalError(message)
        fault = self._engine.kernel.fault
        if isinstance(fault, InternalError):
            raise fault
        return self._result

    async def over(self) -> None:
        """Wait until the run is over, whatever it came to."""
        await self._over.wait()

    async def drive(self) -> None:
        """Run to the end; for the session, which owns the task."""
        engine = self._engine
        try:
            await engine.run()
        finally:
            self._result = self.decided()
            self._over.set()

    def decided(self) -> RunResult | None:
        """What the run came to as soon as that is decided, or None.

        A role that ignores its end can hold a run that is closed; ``result`` is there when all have left.
        """
        if self._result is not None:
            return self._result
        engine = self._engine
        if not engine.reason:
            return None
        outputs = render_outputs(engine.state.definition.outputs, engine)
        return run_result(engine.state, fault=engine.kernel.fault, reducers=engine.reducers, outputs=outputs)

    def events(self, after: int = 0, kinds: Iterable[str] | None = None) -> EventStream:
        """Every fact as an Envelope, from the beginning or after a seq. Leaving it detaches."""
        return EventStream(self._engine, after, None if kinds is None else frozenset(kinds))

    def states(self) -> dict[str, str]:
        """Where every node stands, in the words that people see."""
        state = self._engine.state
        return {
            name: display_state(node.status, paused=state.paused, held=self._held(name), opened=node.opened)
            for name, node in state.nodes.items()
        }

    def _held(self, name: str) -> bool:
        state = self._engine.state
        return any(state.nodes[edge.source].judgement == "undecided" for edge in state.nodes[name].ins)

    # --- control -------------------------------------------------------------------------------

    def pause(self) -> Receipt:
        """Start nothing new; what runs goes on. Pausing twice is pausing once."""
        return self._ask(Pause())

    def resume(self) -> Receipt:
        """Let go what a pause holds."""
        return self._ask(Unpause())

    def drain(self) -> Receipt:
        """Finish what runs, start nothing, suspend the run."""
        return self._ask(Drain())

    def cancel(self, node: str | None = None, *, reason: str = "") -> Receipt:
        """Stop a node or the whole run.

        Returns:
            Refused ``unknown_node`` or ``too_late`` if there is nothing to stop.
        """
        return self._ask(Cancel(node, reason))

    def interrupt(self) -> Receipt:
        """Stop what runs so that it can be attempted again: the run is suspended as ``interrupted``."""
        return self._ask(Cancel(suspend="interrupted", reason="interrupted"))

    def abandon(self) -> None:
        """Leave attempts behind that were told to stop and go on all the same, so that the run can close."""
        detail = "it went on after it was told to stop"
        for node in list(self._engine.state.nodes.values()):
            if node.status is Status.STOPPING:
                self._ask(AttemptStopped(node.op.name, node.attempt, "ignored", detail))

    def steer(self, text: str, node: str | None = None) -> Receipt:
        """Say something to a node, or to the next one that starts."""
        return self._ask(Steer(text, utc_now(), node))

    def answer(
        self, node: str, value: Any, *, key: str | None = None, by: str = "", because: str = ""
    ) -> Receipt:
        """Answer a node's question, or decide an undecided gate by a verdict (``key`` None).

        Args:
            node: the node that asks, or the gate. value: the answer, or one of the four verdicts.
            key: the question's key; may be omitted where the node has one open question.
        """
        open_key = key or self._open_question(node)
        return self._ask(Answer(node, open_key, 0, by, because), (settle(value, "answer")[0],))

    def _open_question(self, node: object) -> str | None:
        state = self._engine.state.resolve(node) if isinstance(node, str) else None
        questions = {} if state is None else state.questions or {}
        unanswered = [question.key for question in questions.values() if question.answer is None]
        return unanswered[0] if len(unanswered) == 1 else None

    def raise_budget(self, name: str, limit: float) -> Receipt:
        """Raise a named budget; a lower or equal limit is refused."""
        return self._ask(RaiseBudget(name, limit))

    def inject(
        self,
        what: Role | str,
        *,
        node_id: str | None = None,
        instruction: str = "",
        parameters: Mapping[str, Any] | None = None,
        after: Sequence[str] = (),
        before: Sequence[str] = (),
        independent: bool = False,
        key: str | None = None,
    ) -> Receipt:
        """Add a node to the run, from any thread.

        Args:
            what: a role that the run knows, its name, or a verb of the session.
            node_id: its name; derived if omitted.
            instruction, parameters: what it is to do. after: nodes that it waits for.
            before: waiting nodes that are to wait for it. independent: kept for symmetry with SpawnRequest.
            key: the same key again is the same node.

        Returns:
            Accepted with the node's name, or Refused with the reason; nothing is raised.
        """
        change = changes.Inject(what, node_id, instruction, parameters, after, before, independent, key)
        try:
            proposal = change.proposal(self._engine.free_verbs)
        except (OrchestratorError, TypeError, ValueError) as error:
            return Refused("invalid", said(error, 500))
        return self._ask(Inject(proposal))

    def _ask(self, command: Any, values: Sequence[bytes] = ()) -> Receipt:
        try:
            # as a record gives it back: what none can hold would halt the run when it is decided or written
            command = msgspec.json.decode(msgspec.json.encode(command), type=type(command))
        except (TypeError, ValueError) as error:
            return Refused("invalid", said(error, 500))
        return self._call(self._engine.ask, command, values)

    def _call(self, fn: Any, *args: Any) -> Receipt:
        if self._over.is_set() or self._engine.finished is None:
            return Refused("not_running", f"run {self.id} is {self._engine.reason or 'not started'}")
        receipt: Receipt = call_on_loop(self._engine.token, fn, *args)
        return receipt
