"""The turn that a role is given: a snapshot to read, and a line to the house to speak on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from math import inf
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from anyio import CancelScope, Event, sleep_forever
from pydantic import TypeAdapter

from emissions import Emission, Receipt, Refused
from orchestrator.core.commands import Ask, Memoise, Usage
from orchestrator.core.context import view_of
from orchestrator.core.facts import LeftArtifact
from orchestrator.core.rework import with_notice
from orchestrator.core.scopes import context_mapping, node_scope
from orchestrator.core.spec import Operation
from orchestrator.core.state import NodeState
from orchestrator.core.status import Status
from orchestrator.core.templates import compile_template, render_json
from orchestrator.runtime import writes
from orchestrator.runtime.artifacts import made, places, where
from orchestrator.runtime.kernel import Halted
from orchestrator.runtime.steering import rendered, returned_plan
from orchestrator.runtime.threads import call_on_loop
from orchestrator.runtime.values import encode, settle
from orchestrator.runtime.views import Inputs, emissions_of, failures_of, inputs_of, rework_of
from roles import Emitted, NodeError, Rework

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["RoleTurn"]

E = TypeVar("E", bound=Emission)
T = TypeVar("T")
_decode = msgspec.json.decode
#: seconds in which nanoseconds still fit into a record's number
_LONGEST = 9e9


class RoleTurn:
    """One attempt of one node (implements ``roles.Turn``)."""

    #: what most turns never need stands here and costs nothing until it is set
    _inputs: Inputs | None = None
    _parameters: dict[str, Any] | None = None
    _pending: writes.Pending | None = None
    _unread: list[str] | None = None
    #: operator's notes rendered into the instruction, as (time, text)
    notes: Sequence[tuple[str, str]] = ()
    answered: Event | None = None
    #: questions that this turn waits for, and what was left of its timeout when it began to
    _asking: int = 0
    _left: float = inf
    #: it holds one of its family's slots
    slotted: bool = False
    branch: Any = None
    #: what the record calls the branch, how many of its parts were there, and how much of the tail stays
    spoken_as: str = ""
    chunks: int = 0
    kept: int = 0
    #: nothing that it says stays in the conversation
    traceless: bool = False
    #: where tagged blocks are looked for, if not in the value
    text: str | None = None
    #: what its model calls have cost so far
    usage: Usage | None = None
    deadline: float | None = None
    #: the files that it declared and left, when its body has returned
    left: tuple[LeftArtifact, ...] = ()
    #: the scope of this attempt's timeout
    scope: CancelScope | None = None

    def __init__(self, engine: Engine, state: NodeState, attempt: int) -> None:
        """Made by a worker when the attempt starts."""
        self._engine = engine
        self._state = state
        self.attempt = attempt

    @property
    def stopping(self) -> bool:
        """True if this attempt was told to stop."""
        return self._state.status is Status.STOPPING and self._state.attempt == self.attempt

    def __repr__(self) -> str:
        """Which node and attempt."""
        return f"<turn {self._state.name} attempt {self.attempt}>"

    # --- reading -------------------------------------------------------------------------------

    @property
    def node(self) -> str:
        """The node's name."""
        return self._state.op.name

    @property
    def run(self) -> str:
        """The run's id."""
        return self._engine.run_id

    @property
    def parameters(self) -> dict[str, Any]:
        """What the node was given; this turn's own copy."""
        if self._parameters is None:
            operation = self._state.op
            plain = _decode(operation.parameters)
            if operation.renders:
                plain = render_json(plain, self._scope())
            self._parameters = plain
        return self._parameters

    @property
    def instruction(self) -> str:
        """What to do, an operator's notes before it."""
        operation = self._state.op
        text = operation.instruction
        if operation.renders:
            text = self.render(text)
        if self._state.plan_faults:
            text = returned_plan(self._state.plan_faults, text)
        if self._state.round > 1:
            text = with_notice(self._engine.state, self._state, text)
        return rendered(self.notes, text) if self.notes else text

    def render(self, text: str) -> str:
        """A text of the node's with every ``${...}`` replaced."""
        return compile_template(text).render(self._scope()) if "${" in text else text

    @property
    def operation(self) -> Operation:
        """What the node was asked to do."""
        return self._state.op

    def answered_by(self, key: str) -> tuple[str, str]:
        """Who answered a question of this node, and why."""
        question = (self._state.questions or {}).get(key)
        return ("", "") if question is None else (question.by, question.because)

    @property
    def rework(self) -> Rework | None:
        """Why this node's work was sent back, and what it had given."""
        return rework_of(self._engine.state, self._state)

    def _scope(self) -> Mapping[str, object]:
        return node_scope(self._engine.state, self._state, self._engine.reducers)

    @property
    def inputs(self) -> Inputs:
        """Values of the predecessors that completed."""
        if self._inputs is None:
            self._inputs = inputs_of(self._engine.state, self._state)
        return self._inputs

    def input(self, name: str, model: type[T], /) -> T:
        """One predecessor's value, validated into a type."""
        return TypeAdapter(model).validate_python(self.inputs[name])

    @property
    def failed(self) -> Mapping[str, NodeError]:
        """Predecessors that failed."""
        return failures_of(self._engine.state, self._state)

    def emissions(self, type_: type[E], /, of: str | Sequence[str] | None = None) -> list[Emitted[E]]:
        """What ancestors emitted of a type."""
        return emissions_of(self._engine.state, self._state, type_, of)

    @property
    def context(self) -> Mapping[str, Any]:
        """The shared context as this node's ancestors wrote it."""
        state = self._engine.state
        return context_mapping(state, view_of(state, self._state), self._engine.reducers)

    @property
    def idempotency_key(self) -> str:
        """``run/node``."""
        return f"{self._engine.run_id}/{self._state.op.name}"

    @property
    def workdir(self) -> Path:
        """The folder that the node works in; made when it is asked for."""
        return made(where(self._engine, self._state))

    @property
    def artifacts(self) -> Mapping[str, Path]:
        """Where the files that this node is to leave belong."""
        return places(self._state, self._engine.bodies.role_of(self._state), self.workdir)

    # --- speaking ------------------------------------------------------------------------------

    async def emit(self, emission: Emission, /) -> Receipt:
        """Say something to the house."""
        engine = self._engine
        if get_ident() != engine.thread:
            raise _elsewhere("emit", "; use turn.emit_sync")
        kernel = engine.kernel
        try:
            receipt = engine.emit(self._state, self, emission)
            if kernel.acknowledged < kernel.submitted:
                await kernel.durable(kernel.submitted)
            elif engine.published >= engine.workers.busy_until:
                await engine.workers.breathe()
        except Halted:
            # the run has halted: there is no receipt, and this body is being cancelled
            await sleep_forever()
            raise
        return receipt

    def emit_sync(self, emission: Emission, /) -> Receipt:
        """``emit`` from a plain ``def`` role."""
        engine = self._engine
        return call_on_loop(engine.token, engine.emit_now, self._state, self, emission)

    def write(self, key: str, value: Any, *, replace: bool = False) -> None:
        """Write to the shared context when this node completes."""
        _, _, plain = settle(value, _word(key, "the key of a context write"))
        if self._pending is None:
            self._pending = []
        writes.add(self._pending, key, plain, replace=replace)

    @property
    def pending_writes(self) -> writes.Pending | None:
        """What was written so far."""
        return self._pending

    def report(self, text: str, /) -> None:
        """Say what is going on."""
        engine = self._engine
        call_on_loop(engine.token, engine.progress, self._state, self.attempt, str(text))

    def steers(self) -> Sequence[str]:
        """What an operator has said since the last call."""
        unread, self._unread = self._unread, None
        return unread or []

    def tell(self, text: str) -> None:
        """Put an operator's note into the mailbox."""
        self._unread = [*(self._unread or ()), text]

    async def step(self, key: str, fn: Callable[[], Awaitable[T] | T], /) -> T:
        """Do a part of the work once."""
        engine = self._engine
        if get_ident() != engine.thread:
            raise _elsewhere("step")
        known = (self._state.steps or {}).get(_word(key, "the key of a step"))
        if known is not None:
            await self._breathe()
            recorded: T = _decode(known)
            return recorded
        made = fn()
        value = await made if isawaitable(made) else made
        raw, _, _ = settle(value, f"step {key}")
        engine.kernel.submit(Memoise(self.node, self.attempt, key, 0), (raw,))
        await engine.kernel.durable(engine.kernel.submitted)
        await self._breathe()
        decoded: T = _decode(raw)
        return decoded

    async def _breathe(self) -> None:
        """Let the loop live, once in a while, where a body was answered without waiting."""
        engine = self._engine
        engine.published += 1
        if engine.published >= engine.workers.busy_until:
            await engine.workers.breathe()

    async def ask(
        self,
        question: str,
        *,
        key: str | None = None,
        choices: Sequence[str] = (),
        schema: Any = None,
        expires: float | None = None,
        default: Any = None,
    ) -> Any:
        """Ask a person and wait."""
        engine = self._engine
        if get_ident() != engine.thread:
            raise _elsewhere("ask")
        identity = _word(key or _word(question, "a question"), "the key of a question")
        known = (self._state.questions or {}).get(identity)
        if known is None or known.answer is None:
            await self._ask(identity, question, _choices(choices), schema, default, _expiry(expires))
            known = (self._state.questions or {}).get(identity)
        else:
            await self._breathe()
        answer = None if known is None else known.answer
        if answer is None:
            message = f"{engine.run_id} closed before {identity!r} was answered"
            raise RuntimeError(message)
        return _decode(answer)

    async def _ask(
        self,
        key: str,
        question: str,
        choices: tuple[str, ...],
        schema: Any,
        default: Any,
        expires: float | None,
    ) -> None:
        engine = self._engine
        values = () if default is None else (settle(default, "default")[0],)
        shape = None if schema is None else encode(_schema(schema), "schema").decode()
        if self.answered is None or self.answered.is_set():
            self.answered = Event()
        decision = engine.kernel.submit(
            Ask(
                self.node,
                self.attempt,
                key,
                question,
                choices,
                shape,
                0 if values else None,
                0 if expires is None else max(1, int(expires * 1e9)),
            ),
            values,
        )
        if isinstance(decision.receipts[-1], Refused):
            raise RuntimeError(decision.receipts[-1].detail)  # noqa: TRY004 (it is no fault of a type)
        if expires is not None:
            engine.set_timer(expires, "question", self.node, self.attempt, key)
        slots = engine.family.slots if self.slotted else None
        if slots is not None:
            # who waits for a person takes nobody's place
            self.slotted = False
            slots.give()
        await self.unclocked(self.answered.wait)
        if slots is not None:
            await self.unclocked(slots.take)
            self.slotted = True

    async def unclocked(self, wait: Callable[[], Awaitable[None]]) -> None:
        """Wait while no clock of this attempt runs; its timeout goes on from where it was."""
        scope, now = self.scope, self._engine.now
        if scope is None:
            await wait()
            return
        if not self._asking:
            self._left, scope.deadline = scope.deadline - now(), inf
        self._asking += 1
        try:
            await wait()
        finally:
            self._asking -= 1
            if not self._asking:
                self.deadline = scope.deadline = now() + self._left


def _elsewhere(name: str, instead: str = "") -> RuntimeError:
    return RuntimeError(f"turn.{name} was called in a thread that is not its run's{instead}")


def _word(text: object, what: str) -> str:
    """A text that names something on record."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is {type(text).__name__}; give a text")
    encode(text, what)
    return text


def _choices(choices: object) -> tuple[str, ...]:
    """What may be answered: texts, which a record can hold."""
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise TypeError(f"choices is {type(choices).__name__}; give a list of texts")
    return tuple(_word(choice, "a choice") for choice in choices)


def _expiry(seconds: object) -> float | None:
    """How long a question may stay open."""
    if seconds is None:
        return None
    if type(seconds) not in (int, float) or not 0 <= seconds <= _LONGEST:  # type: ignore[operator]
        raise ValueError(f"expires is {seconds!r}; give seconds, from 0 to {_LONGEST:.0f}")
    return float(seconds)  # type: ignore[arg-type]


def _schema(schema: Any) -> Any:
    return schema if isinstance(schema, Mapping) else TypeAdapter(schema).json_schema()
