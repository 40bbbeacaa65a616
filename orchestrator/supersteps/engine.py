"""A stepped run: the engine of every run, with its own bodies, and a fold at the boundary."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Final

from anyio import CancelScope, Event

from orchestrator.core.births import Birth
from orchestrator.core.commands import Cancel, Command, Finish
from orchestrator.core.effects import FoldStep
from orchestrator.core.records import Record
from orchestrator.core.spec import Definition, Operation
from orchestrator.core.state import NodeState
from orchestrator.core.supersteps.commands import Boundary, BoundaryFailed
from orchestrator.core.supersteps.machine import SuperstepMachine
from orchestrator.core.supersteps.rules import steps_of
from orchestrator.core.supersteps.state import StepState
from orchestrator.core.supersteps.writes import Written, encode_writes
from orchestrator.journal.caching import Cache, MemoryCache
from orchestrator.runtime.effects import Effects
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.planning import Prepared
from orchestrator.runtime.slots import Slots
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.wiring import Wiring
from orchestrator.runtime.workers import Workers
from orchestrator.supersteps.blueprint import Blueprint, NodeSpec
from orchestrator.supersteps.bodies import StepBodies, finished
from orchestrator.supersteps.branching import StepBranches
from orchestrator.supersteps.caching import Flights
from orchestrator.supersteps.folding import fold
from orchestrator.supersteps.turns import StepTurn

__all__ = ["StepEngine"]

#: Stands in the deque of started attempts where a worker is to fold a step.
_BOUNDARY: Final = NodeState(Operation(name="boundary"), Birth(0), "boundary")


class _StepEffects(Effects):
    """The effects of every run, and the fold."""

    __slots__ = ()

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._perform = {**self._perform, FoldStep: self._fold_step}

    def release(self, record: Record) -> None:
        """Whoever reads the whole tree is told of what happens here."""
        super().release(record)
        engine = self._engine
        if isinstance(engine, StepEngine) and engine.above is not None and engine.root.watchers:
            engine.root.wake_watchers()

    def _fold_step(self, effect: FoldStep) -> None:
        # a worker folds: reducers are their author's code, and releasing runs none
        self._engine.workers.starts.append((_BOUNDARY, effect.step))


class _StepWorkers(Workers):
    """The pool of every run; between two steps one of its workers folds."""

    __slots__ = ("_steps",)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        assert isinstance(engine, StepEngine)
        self._steps = engine

    def _attempt(self, node: NodeState, attempt: int, scope: CancelScope) -> bool | Coroutine[Any, Any, bool]:
        if node is _BOUNDARY:
            self._steps.fold(attempt)
            return True
        return super()._attempt(node, attempt, scope)


class StepEngine(Engine):
    """Runs one thread until it stops.

    Attributes:
        blueprint: the compiled graph. steps: the stepped part of the state.
    """

    effects_type: ClassVar[type[Effects]] = _StepEffects
    workers_type: ClassVar[type[Workers]] = _StepWorkers
    turn_type: ClassVar[type[RoleTurn]] = StepTurn

    def __init__(
        self,
        run_id: str,
        blueprint: Blueprint,
        wiring: Wiring,
        machine: SuperstepMachine,
        definition: Definition | None = None,
    ) -> None:
        """``machine``: empty for a new thread, else folded from its records."""
        self.blueprint = blueprint
        prepared = Prepared(
            machine.state.plan, bodies=blueprint.cast.bodies, speakers=blueprint.cast.speakers
        )
        super().__init__(run_id, prepared, wiring, definition, machine)
        self.branches = StepBranches()
        self.bodies = StepBodies(self)
        self.returned = finished
        self._snapshot: Mapping[str, bytes] = {}
        self._snapshot_of = -1
        self._step_began = 0.0
        self._graced = -1
        #: values that are not recorded, and what tasks of this step have written of them
        self.untracked: dict[str, bytes] = {}
        #: the run whose task called this one's graph; and how many there are above it
        self.above: StepEngine | None = None
        self.depth = 0
        #: live runs below the root, by id; and all that there were, for whoever reads them
        self.began_at = len(wiring.journal)
        self.tree: dict[str, StepEngine] = {}
        self.seen: list[StepEngine] | None = None
        #: what this drive brings: task -> answers for its child, grants, the way down
        self.answers: dict[str, dict[str, Any]] = {}
        self.answered = False
        self.grant: Mapping[str, float] = {}
        self.drive: Any = None
        self.call: Callable[[StepEngine, NodeState, StepTurn], Coroutine[Any, Any, Any]]
        if self.family.slots is None and any(one.child is not None for one in blueprint.nodes.values()):
            self.family.slots = Slots(self._limit)
        self._untracked_writes: dict[str, Sequence[Written]] = {}
        #: what cached nodes wrote, and what they are writing
        self.cache: Cache = MemoryCache()
        self.flights = Flights()

    @property
    def steps(self) -> StepState:
        """The stepped part of the state."""
        return steps_of(self.state)

    @property
    def root(self) -> StepEngine:
        """The run at the top of the tree."""
        engine = self
        while engine.above is not None:
            engine = engine.above
        return engine

    @property
    def snapshot(self) -> Mapping[str, bytes]:
        """The state of the last boundary; nobody changes it, and it outlives the step."""
        steps = self.steps
        if self._snapshot_of != steps.checkpoint:
            self._snapshot = {**steps.channels, **self.untracked}
            self._snapshot_of = steps.checkpoint
            self._step_began = self.now()
        return self._snapshot

    def seconds_left(self, spec: NodeSpec) -> tuple[float | None, str]:
        """What an attempt may take, and whose limit it is."""
        step = self.blueprint.step_timeout
        if step is None:
            return spec.timeout, spec.name
        left = max(0.0, self._step_began + step - self.now())
        if spec.timeout is None or left < spec.timeout:
            return left, f"the step of {spec.name}"
        return spec.timeout, spec.name

    async def stirred(self) -> bool:
        """Wait until something is on record of this run or of one below it; False if nothing ever will be."""
        if self.closed and self._group is None:
            return False
        event = Event()
        self.watchers.append(event)
        await event.wait()
        return True

    def keep_untracked(self, task: str, writes: Sequence[Written]) -> None:
        """What a task wrote that is not recorded."""
        self._untracked_writes[task] = writes

    def settle(self, command: Command, values: Sequence[bytes]) -> None:
        """Settle a task; the siblings of one that failed have the grace to finish."""
        super().settle(command, values)
        if type(command) is Finish and command.outcome == "failed" and not self.closed:
            state, step = self.state, self.steps.step
            if state.failed_unhandled and state.running and self._graced != step:
                self._graced = step
                self.set_timer(self.grace, "siblings", None, 0)

    def fold(self, step: int) -> None:
        """Fold the writes of a step that has settled, and say what they come to."""
        steps = self.steps
        if self.closed or not steps.settled or steps.step != step:
            return
        nodes, channels = self.state.nodes, self.blueprint.channels
        writes = [(name, steps.instead.get(name, nodes[name].value)) for name in steps.active]
        made = fold(channels, steps.channels, writes)
        loose = {}
        if self._untracked_writes or self.untracked:
            loose = self._fold_untracked(made.faults)
        if made.faults:
            self.settle(BoundaryFailed(step, made.faults), ())
            return
        self.untracked.update(loose)
        self._untracked_writes = {}
        self.settle(Boundary(step, tuple(made.patches)), made.values)

    def _fold_untracked(self, faults: dict[str, Any]) -> dict[str, bytes]:
        tasks = [(task, encode_writes(list(writes))) for task, writes in self._untracked_writes.items()]
        made = fold(self.blueprint.channels, self.untracked, tasks, own=False)
        faults.update(made.faults)
        return {patch.key: made.values[patch.value] for patch in made.patches if patch.value is not None}

    def abort(self, detail: str) -> None:
        """The task that drives the run is being cancelled: the thread stops and can go on."""
        if not self.closed and not self.state.draining:
            self.tell(Cancel(suspend="interrupted", reason=detail))
