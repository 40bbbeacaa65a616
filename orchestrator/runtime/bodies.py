"""What runs for a node: the function of its role, or of its verb, as something that gives a coroutine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from emissions import EMISSIONS
from orchestrator.core.commands import Finish
from orchestrator.core.state import Emitted as Entry
from orchestrator.core.state import NodeState
from orchestrator.core.verbs import ACT
from orchestrator.errors import ExecutionError
from orchestrator.runtime.acting import act
from orchestrator.runtime.artifacts import declared, keeping
from orchestrator.runtime.casting import lent
from orchestrator.runtime.drive import Raised, Returned
from orchestrator.runtime.inquiries import ask_person
from orchestrator.runtime.planning import Body, Prepared
from orchestrator.runtime.slots import Slots
from orchestrator.runtime.speaking import speak
from orchestrator.runtime.threads import run_in_thread
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.views import sources_of, speakers_above
from roles import Emitted, Handed, Role

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["Bodies", "emitted_by", "hooked"]

Run = Callable[[RoleTurn], Coroutine[Any, Any, Any]]


def hooked(prepared: Prepared) -> bool:
    """True if the plan asks for a look at what its nodes give."""
    return bool(
        prepared.predicates
        or prepared.returns
        or any(one.writes or one.returns or one.artifacts for one in prepared.plan.operations)
        or any(body.role.artifacts for body in prepared.bodies.values() if body.role is not None)
        or bool(prepared.speakers)
    )


def emitted_by(node: str, role: str | None, ledger: Iterable[Entry]) -> Iterator[Emitted[Any]]:
    """What one node emitted, of the house's types; requests that made a node are that node."""
    for entry in ledger:
        kind = EMISSIONS.get(entry.kind)
        if kind is not None and entry.child is None:
            yield Emitted(kind.model_validate_json(entry.payload), node, role, entry.attempt)


class Bodies:
    """The functions of one run."""

    __slots__ = ("_engine", "_leaving", "_prepared")

    def __init__(self, engine: Engine, prepared: Prepared) -> None:
        """``engine`` is told what a function gives after it was left behind."""
        self._engine = engine
        self._prepared = prepared
        #: roles whose nodes leave files
        self._leaving = frozenset(
            name
            for name, role in (
                *((name, body.role) for name, body in prepared.bodies.items()),
                *prepared.speakers.items(),
            )
            if role is not None and role.artifacts
        )

    def of(self, node: NodeState) -> Run:
        """What runs for a node."""
        operation = node.op
        if operation.inquiry is not None:
            return ask_person
        if operation.flow is not None:
            return self._included
        if operation.role is not None:
            body = self._prepared.bodies.get(operation.role) or self._speaker(node)
        else:
            body = self._prepared.verbs.get(operation.verb) or self._alone(node)
        run = body.fn if body.is_async else self._threaded(body)
        if self._engine.family.slots is not None:
            run = self._counted(run, self._engine.family.slots)
        if operation.artifacts or operation.role in self._leaving:
            return keeping(run, self._engine, node, declared(node, body.role))
        return run

    def on_thread(self, node: NodeState) -> bool:
        """True if the node's body is a plain function, which cannot be stopped."""
        role = node.op.role
        body = None if role is None else self._prepared.bodies.get(role)
        return body is not None and not body.is_async

    def role_of(self, node: NodeState) -> Role | None:
        """A node's role."""
        if node.op.role is None:
            return None
        body = self._prepared.bodies.get(node.op.role)
        return self._prepared.speakers.get(node.op.role) if body is None else body.role

    def handed(self, node: NodeState, _turn: RoleTurn) -> Iterator[Handed]:
        """What a model is shown of its node's predecessors."""
        wanted = node.op.inputs
        for name, source in sources_of(self._engine.state, node):
            if source.value is None or source.status != "completed":
                continue
            if wanted is None or name in wanted:
                yield Handed(name, msgspec.json.decode(source.value), source.op.role)

    def heard(self, node: NodeState) -> Iterator[Emitted[Any]]:
        """What ancestors emitted, in graph order; of the house's types, which anybody can read."""
        for source in speakers_above(self._engine.state, node, node.op.inputs):
            yield from emitted_by(source.op.name, source.op.role, source.ledger)

    def assignees(self) -> Mapping[str, str]:
        """Who may be asked for, each with what it does."""
        allowed = self._engine.state.budget.assignees
        roles = {
            **{name: body.role for name, body in self._prepared.bodies.items()},
            **self._prepared.speakers,
        }
        return {
            name: role.description
            for name, role in roles.items()
            if role is not None and (allowed is None or name in allowed)
        }

    def _speaker(self, node: NodeState) -> Body:
        """A role that a program or a model performs."""
        role = self._prepared.speakers[node.op.role or ""]
        perform = act if node.op.verb == ACT else speak
        return Body(partial(perform, self._engine, node, role), role=role)

    def _alone(self, node: NodeState) -> Body:
        """A verb without a role: a call of a tool, or the session's default model."""
        if node.op.verb == ACT:
            return Body(partial(act, self._engine, node, None))
        agent = lent(node.op.tools or (), self._prepared.roles)
        return Body(partial(speak, self._engine, node, agent))

    async def _included(self, turn: RoleTurn) -> Any:
        include = self._engine.family.include
        if include is None:
            raise ExecutionError("this run cannot include a flow: run it in a session")
        return await include(self._engine, turn)

    def _counted(self, run: Run, slots: Slots) -> Run:
        """A body that runs when its family of runs has a slot; no clock runs while it waits for one."""

        async def call(turn: RoleTurn) -> Any:
            await turn.unclocked(slots.take)
            turn.slotted = True
            try:
                return await run(turn)
            finally:
                if turn.slotted:
                    turn.slotted = False
                    slots.give()

        return call

    def _threaded(self, body: Body) -> Run:
        """A plain function as a coroutine: it runs on a thread of ours and is left behind when cancelled."""

        async def call(turn: RoleTurn) -> Any:
            def late(outcome: Returned | Raised) -> None:
                word = "completed" if isinstance(outcome, Returned) else "failed"
                self._engine.tell(Finish(turn.node, turn.attempt, word))

            return await run_in_thread(lambda: body.fn(turn), copy_context(), late=late)

        return call
