"""The turn of a task: its inputs are the state, its parameters what it was sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from emissions import Emission
from orchestrator.core.scopes import Lazy
from orchestrator.core.supersteps.state import Activation
from orchestrator.errors import ExecutionError
from orchestrator.runtime.turns import RoleTurn
from orchestrator.supersteps.view import StateView, plain_state
from roles import Emitted, Handed, NodeError

if TYPE_CHECKING:
    from orchestrator.supersteps.engine import StepEngine

__all__ = ["StateInputs", "StepTurn"]

E = TypeVar("E", bound=Emission)
_decode = msgspec.json.decode
#: Where an argument stands that is no mapping.
ARG = "arg"


class StateInputs(StateView):
    """The state as ``turn.inputs``."""

    __slots__ = ()

    def of(self, *, role: str) -> Mapping[str, Any]:
        """Refused: a state key is nobody's.

        Raises:
            ExecutionError: always.
        """
        raise ExecutionError(
            f"inputs.of(role={role!r}): the inputs of a step are state keys; read them by name"
        )


class StepTurn(RoleTurn):
    """One attempt of one task.

    What a role reads of a graph it reads here of the state: ``inputs`` and ``context`` are the state of the
    last boundary, or what a Send carries; ``write`` writes a state key; ``emissions`` are those of earlier
    steps.
    """

    #: set by whoever runs the task's body, before that begins
    task: Activation = Activation("", "")
    snapshot: Mapping[str, bytes] = {}
    _view: Mapping[str, Any] | None = None
    #: called before it waits for an answer
    asks: Callable[[], None] | None = None

    @property
    def _thread(self) -> StepEngine:
        return cast("StepEngine", self._engine)

    @property
    def argument(self) -> dict[str, Any]:
        """What the task was sent, as a mapping; empty for a task that reads the state."""
        if not self.task.send:
            return {}
        given = _decode(self.task.arg or b"null")
        return given if isinstance(given, dict) else {ARG: given}

    @property
    def inputs(self) -> Any:
        """The state of the last boundary, this turn's own copy; what was sent in its place, for a Send."""
        if self._view is None:
            if self.task.send:
                self._view = self.argument
            else:
                self._view = StateInputs(self._thread.blueprint.channels, self.snapshot)
        return self._view

    @property
    def parameters(self) -> dict[str, Any]:
        """What the node was given, and what the task was sent over it."""
        if self._parameters is None:
            self._parameters = {**super().parameters, **self.argument}
        return self._parameters

    @property
    def instruction(self) -> str:
        """What to do; what the one who asked for the task says comes after what the node says."""
        return "\n\n".join(part for part in (super().instruction, self.task.instruction) if part)

    @property
    def context(self) -> Mapping[str, Any]:
        """The state of the last boundary."""
        return StateView(self._thread.blueprint.channels, self.snapshot)

    @property
    def failed(self) -> Mapping[str, NodeError]:
        """Nothing: a failed task ends its step."""
        return {}

    def emissions(self, type_: type[E], /, of: str | Sequence[str] | None = None) -> list[Emitted[E]]:
        """What tasks of earlier steps emitted since the input; ``of``: names of nodes or tasks."""
        wanted = None if of is None else {of} if isinstance(of, str) else set(of)
        return [
            Emitted(type_.model_validate_json(entry.payload), said.task, said.role, entry.attempt)
            for said in self._thread.steps.agents.ledger
            if wanted is None or said.node in wanted or said.task in wanted
            for entry in said.entries
            if entry.kind == type_.emission_kind
        ]

    def handed(self) -> list[Handed]:
        """The state keys that a model is shown."""
        if self.task.send:
            return []
        wanted = self.operation.inputs
        state = plain_state(self._thread.blueprint.channels, self.snapshot)
        return [Handed(key, value, None) for key, value in state.items() if wanted is None or key in wanted]

    async def _ask(self, *question: Any) -> None:
        if self.asks is not None:
            self.asks()
        await super()._ask(*question)

    def _scope(self) -> Mapping[str, object]:
        engine = self._thread
        plan = engine.state.plan

        def make(name: str) -> object:
            if name == "args":
                return _decode(plan.args)
            if name == "context":
                return plain_state(engine.blueprint.channels, self.snapshot)
            return {} if name == "nodes" else dict(_by_kind(engine.steps.agents.ledger))

        return Lazy(dict.fromkeys(("args", "context", "nodes", "emissions")), make)


def _by_kind(ledger: Sequence[Any]) -> dict[str, list[Any]]:
    """Kind -> payloads, in the order in which they were taken."""
    found: dict[str, list[Any]] = {}
    for said in ledger:
        for entry in said.entries:
            found.setdefault(entry.kind, []).append(_decode(entry.payload))
    return found
