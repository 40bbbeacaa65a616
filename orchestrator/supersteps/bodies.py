"""What runs for a task: its node's function over the snapshot, its error handler, its conditional edges."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
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
from orchestrator.runtime.bodies import Bodies
from orchestrator.runtime.outcomes import failure_of
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.values import encode, settle
from orchestrator.supersteps.blueprint import NodeSpec
from orchestrator.supersteps.errors import InvalidUpdateError
from orchestrator.supersteps.folding import folded, writes_of
from orchestrator.supersteps.looking import question_text
from orchestrator.supersteps.routing import Routing, chosen, routes_of
from orchestrator.supersteps.view import StateView
from orchestrator.supersteps.words import ASKING, Command
from roles import NodeError, NotApplicable, Role

if TYPE_CHECKING:
    from orchestrator.supersteps.engine import StepEngine

__all__ = ["Gives", "StepBodies", "TaskError", "finished"]


@dataclass(frozen=True, slots=True)
class TaskError(NodeError):
    """What an error handler gets: the failure, the node that failed, and the exception itself."""

    node: str = ""
    exception: BaseException | None = None


class Gives(msgspec.Struct):
    """What a task comes to: its writes, and where it leads."""

    writes: bytes
    routing: Routing
    replaces: bool = False
    handled: Failure | None = None


def finished(engine: Any, node: NodeState, turn: RoleTurn, value: Any) -> tuple[Finish, list[bytes]]:
    """The command for a task that has finished."""
    given: Gives = value
    routes = tuple(
        route if route.value is None else Route(route.to, route.value + 1, route.key, route.send)
        for route in given.routing.routes
    )
    command = Finish(
        node.op.name,
        turn.attempt,
        value=0,
        routes=routes,
        replaces=given.replaces,
        handled=given.handled,
    )
    return command, [given.writes, *given.routing.values]


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

    def on_thread(self, node: NodeState) -> bool:
        """False: nodes are coroutines."""
        return False

    def role_of(self, node: NodeState) -> Role | None:
        """None: a plain function has no role."""
        return None

    async def _run(self, node: NodeState, turn: RoleTurn) -> Gives:
        engine = self._steps
        task = engine.steps.active[node.op.name]
        spec = engine.blueprint.nodes[task.node]
        snapshot = engine.snapshot
        ASKING.set(_Asker(turn))
        handled = None
        try:
            given = await self._called(spec, task, turn, snapshot)
            return await self._given(spec, task, snapshot, given)
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

    async def _called(
        self, spec: NodeSpec, task: Activation, turn: RoleTurn, snapshot: Mapping[str, bytes]
    ) -> Any:
        state = self._input(task, snapshot)
        call = spec.fn(state, turn) if spec.takes_turn else spec.fn(state)
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

    async def _given(
        self, spec: NodeSpec, task: Activation, snapshot: Mapping[str, bytes], given: Any
    ) -> Gives:
        """Check what a node gave, and find out where it leads."""
        engine = self._steps
        channels, nodes = engine.blueprint.channels, engine.blueprint.nodes
        if given is None and not spec.branches:
            return Gives(b"{}", Routing([], [], set()))
        commands = [
            _command(one, spec.name) for one in (given if isinstance(given, list | tuple) else [given])
        ]
        writes: list[Written] = []
        for command in commands:
            writes += writes_of(channels, command.update, spec.name)
        raw = encode_writes(writes)
        routing = Routing([], [], set())
        goto = [target for command in commands for target in _several(command.goto)]
        if not goto:
            await self._branch(spec, routing, folded(channels, snapshot, [(task.name, raw)]))
        for command in commands:
            routes_of(routing, command.also, nodes, f"{spec.name}.also")
        routes_of(routing, goto, nodes, f"{spec.name}.goto")
        kept = [one for one in writes if channels[one.key].tracked]
        if len(kept) < len(writes):
            engine.keep_untracked(task.name, [one for one in writes if not channels[one.key].tracked])
            raw = encode_writes(kept)
        return Gives(raw, routing, bool(goto))

    async def _branch(self, spec: NodeSpec, routing: Routing, seen: Mapping[str, bytes]) -> None:
        blueprint = self._steps.blueprint
        for branch in spec.branches:
            where = f"the conditional edge of {spec.name}"
            targets = await chosen(branch, StateView(blueprint.channels, seen), where)
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
    if given.graph is not None:
        raise InvalidUpdateError(f"{name} returned Command(graph=PARENT); no graph called this one")
    return given
