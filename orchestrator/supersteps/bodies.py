"""What runs for a task: its node's function over the snapshot, its error handler, its conditional edges."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from anyio import CancelScope

from orchestrator.core.commands import Finish
from orchestrator.core.facts import Failure
from orchestrator.core.outcomes import would_retry
from orchestrator.core.state import NodeState
from orchestrator.core.supersteps.facts import Route
from orchestrator.core.supersteps.state import Activation
from orchestrator.core.supersteps.writes import Written, encode_writes
from orchestrator.runtime.bodies import Bodies, emitted_by
from orchestrator.runtime.outcomes import failure_of
from orchestrator.runtime.preparing import said_by
from orchestrator.runtime.slots import Slots
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.values import encode, settle
from orchestrator.runtime.wiring import HELD
from orchestrator.supersteps.blueprint import NodeSpec
from orchestrator.supersteps.caching import memoised
from orchestrator.supersteps.errors import InvalidUpdateError
from orchestrator.supersteps.folding import previewed, writes_of
from orchestrator.supersteps.leaving import leave_for_parent
from orchestrator.supersteps.looking import question_text
from orchestrator.supersteps.performing import Performed, performed
from orchestrator.supersteps.routing import Routing, chosen, routes_of
from orchestrator.supersteps.turns import StepTurn
from orchestrator.supersteps.view import StateView
from orchestrator.supersteps.words import ASKING, PARENT, Command
from roles import Emitted, Handed, NodeError, NotApplicable

if TYPE_CHECKING:
    from orchestrator.supersteps.engine import StepEngine

__all__ = ["Gives", "StepBodies", "TaskError", "finished"]


@dataclass(frozen=True, slots=True)
class TaskError(NodeError):
    """What an error handler gets: the failure, the node that failed, and the exception itself."""

    node: str = ""
    exception: BaseException | None = None


class Gives(msgspec.Struct):
    """What a task comes to: its writes, and where it leads; ``cached``: the key under which it was found."""

    writes: bytes
    routing: Routing
    replaces: bool = False
    handled: Failure | None = None
    performed: Performed | None = None
    cached: str = ""


def finished(engine: Any, node: NodeState, turn: RoleTurn, value: Any) -> tuple[Finish, list[bytes]]:
    """The command for a task that has finished."""
    given: Gives = value
    said = given.performed
    values = [given.writes, *(() if said is None else said.payloads)]
    before = len(values)
    routes = tuple(
        route if route.value is None else Route(route.to, route.value + before, route.key, route.send)
        for route in given.routing.routes
    )
    values += given.routing.values
    name, attempt, handled = node.op.name, turn.attempt, given.handled
    if said is None and turn.branch is None and turn.usage is None:
        command = Finish(
            name,
            attempt,
            value=0,
            routes=routes,
            replaces=given.replaces,
            handled=handled,
            cached=given.cached,
        )
        return command, values
    said = said or Performed([], [])
    command = Finish(
        name,
        attempt,
        value=0,
        emissions=said.emissions,
        proposals=said.proposals,
        gate_verdict=said.gate_verdict,
        only_escalation=said.only_escalation,
        usage=turn.usage,
        said=said_by(turn, values, failed=handled is not None),
        artifacts=turn.left,
        routes=routes,
        replaces=given.replaces,
        handled=handled,
    )
    return command, values


class _Asker:
    """Asks for one attempt of one task: the n-th question without a key is the n-th."""

    __slots__ = ("_count", "_turn")

    def __init__(self, turn: RoleTurn) -> None:
        self._turn = turn
        self._count = 0

    async def __call__(self, value: Any, key: str | None) -> Any:
        if key is None:
            key = f"#{self._count}"
            self._count += 1
        plain = settle(value, "interrupt")[2]
        return await self._turn.ask(question_text(plain, encode(plain, "interrupt")), key=key)


class StepBodies(Bodies):
    """The functions of a stepped run."""

    __slots__ = ("_steps",)

    def __init__(self, engine: StepEngine) -> None:
        super().__init__(engine, engine.prepared)
        self._steps = engine

    def of(self, node: NodeState) -> Callable[[RoleTurn], Coroutine[Any, Any, Any]]:
        """What runs for a task."""

        def body(turn: RoleTurn) -> Coroutine[Any, Any, Any]:
            return self._run(node, turn)

        return body

    def handed(self, node: NodeState, turn: RoleTurn) -> Iterator[Handed]:
        """The state keys that a model is shown; nothing where its task was sent something else."""
        assert isinstance(turn, StepTurn)
        yield from turn.handed()

    def heard(self, node: NodeState) -> Iterator[Emitted[Any]]:
        """What tasks of earlier steps emitted since the input."""
        for said in self._steps.steps.agents.ledger:
            if node.op.inputs is None or said.node in node.op.inputs:
                yield from emitted_by(said.task, said.role, said.entries)

    def assignees(self) -> Mapping[str, str]:
        """The nodes: a request to grow sends one of them a task."""
        nodes, allowed = self._steps.blueprint.nodes, self._steps.state.budget.assignees
        return {
            name: "" if spec.role is None else spec.role.description
            for name, spec in nodes.items()
            if allowed is None or (spec.role is not None and spec.role.name in allowed)
        }

    async def _run(self, node: NodeState, turn: RoleTurn) -> Any:
        engine = self._steps
        task = engine.steps.active[node.op.name]
        spec = engine.blueprint.nodes[task.node]
        snapshot = engine.snapshot
        assert isinstance(turn, StepTurn)
        turn.task, turn.snapshot = task, snapshot
        ASKING.set(_Asker(turn))
        handled = None
        try:
            if spec.cache is not None:
                read, check = partial(self._input, task, snapshot), partial(self._given, spec, task, snapshot)
                return await memoised(
                    engine, node, turn, read, partial(self._called, node, spec, turn), check
                )
            given = await self._called(node, spec, turn)
            if given is HELD:
                return given
            if not spec.performed:
                return await self._given(spec, task, snapshot, given)
            said = performed(engine, node, turn, spec, given)
            gives = await self._given(spec, task, snapshot, said.given, said)
            gives.performed = said
            return gives  # noqa: TRY300 (what is raised above is what a handler may answer for)
        except NotApplicable:
            raise
        except Exception as error:
            failure = failure_of(error, turn.attempt)
            if spec.handler is None or would_retry(engine.state, node, failure):
                raise
            told = TaskError(failure.type, failure.message, turn.attempt, spec.name, error)
            handled = failure
            given = await spec.handler(self._input(task, snapshot), told)
        gives = await self._given(spec, task, snapshot, given)
        gives.handled = handled
        return gives

    def _input(self, task: Activation, snapshot: Mapping[str, bytes]) -> Any:
        if task.send:
            return msgspec.json.decode(task.arg or b"null")
        return StateView(self._steps.blueprint.channels, snapshot)

    async def _called(self, node: NodeState, spec: NodeSpec, turn: StepTurn) -> Any:
        if spec.performed:
            call = super().of(node)(turn)
        elif spec.child is not None:
            call = self._steps.call(self._steps, node, turn)
        else:
            state = self._input(turn.task, turn.snapshot)
            call = spec.fn(state, turn) if spec.takes_turn else spec.fn(state)
            if self._steps.family.slots is not None:
                call = self._slotted(call, turn, self._steps.family.slots)
        seconds, what = self._steps.seconds_left(spec)
        if seconds is None:
            return await call
        turn.deadline = self._steps.now() + seconds
        with CancelScope(deadline=turn.deadline) as scope:
            turn.scope = scope
            given = await call
            turn.scope = None
            return given
        message = f"{what} took longer than {seconds:.3g} s"
        raise TimeoutError(message)

    async def _slotted(self, call: Coroutine[Any, Any, Any], turn: StepTurn, slots: Slots) -> Any:
        """A node's function, when the tree of runs has a slot for it; no clock runs until then."""
        try:
            await turn.unclocked(slots.take)
        except BaseException:
            call.close()
            raise
        turn.slotted = True
        try:
            return await call
        finally:
            if turn.slotted:
                turn.slotted = False
                slots.give()

    async def _given(
        self,
        spec: NodeSpec,
        task: Activation,
        snapshot: Mapping[str, bytes],
        given: Any,
        said: Performed | None = None,
    ) -> Gives:
        """Check what a node gave, and find out where it leads, unless its gate rejects."""
        engine = self._steps
        channels, nodes = engine.blueprint.channels, engine.blueprint.nodes
        if given is None and not spec.branches:
            return Gives(b"{}", Routing([], [], set()))
        every = [_command(one, spec.name) for one in (given if isinstance(given, list | tuple) else [given])]
        upward = [one for one in every if one.graph is not None]
        commands = [one for one in every if one.graph is None] if upward else every
        writes: list[Written] = []
        for command in commands:
            writes += writes_of(channels, command.update, spec.name)
        raw = encode_writes(writes)
        routing = Routing([], [], set())
        goto = [target for command in commands for target in _several(command.goto)]
        if said is not None and said.rejects:
            return Gives(self._kept(task, writes), routing)
        for command in upward:
            self._leave(routing, command, spec.name)
        if not goto and not upward:
            seen = previewed(channels, snapshot, task.name, writes)
            await self._branch(spec, routing, seen, None if said is None else said.plain)
        for command in commands:
            routes_of(routing, command.also, nodes, f"{spec.name}.also")
        routes_of(routing, goto, nodes, f"{spec.name}.goto")
        return Gives(self._kept(task, writes, raw), routing, bool(goto or upward))

    def _leave(self, routing: Routing, command: Command, name: str) -> None:
        if command.graph != PARENT:
            raise InvalidUpdateError(
                f"{name} returned Command(graph={command.graph!r}); there is PARENT only"
            )
        if self._steps.above is None:
            raise InvalidUpdateError(f"{name} returned Command(graph=PARENT); no graph called this one")
        leave_for_parent(routing, command, name)

    def _kept(self, task: Activation, writes: list[Written], raw: bytes | None = None) -> bytes:
        """What is recorded of a task's writes; the rest lives in this process only."""
        channels = self._steps.blueprint.channels
        kept = [one for one in writes if channels[one.key].tracked]
        if len(kept) < len(writes):
            self._steps.keep_untracked(task.name, [one for one in writes if not channels[one.key].tracked])
        elif raw is not None:
            return raw
        return encode_writes(kept)

    async def _branch(
        self, spec: NodeSpec, routing: Routing, seen: Mapping[str, bytes], result: object
    ) -> None:
        blueprint = self._steps.blueprint
        for branch in spec.branches:
            where = f"the conditional edge of {spec.name}"
            targets = await chosen(branch, StateView(blueprint.channels, seen), where, result)
            routes_of(routing, targets, blueprint.nodes, where)


def _several(targets: Any) -> Iterable[Any]:
    return (targets,) if isinstance(targets, str) or not isinstance(targets, list | tuple) else targets


def _command(given: Any, name: str) -> Command:
    """What a node gave, as a Command.

    Raises:
        InvalidUpdateError: it says something that only a caller can say.
    """
    if not isinstance(given, Command):
        return Command(update=given)
    if given.resume is not None:
        raise InvalidUpdateError(f"{name} returned Command(resume=...); only who invokes a thread answers it")
    return given
