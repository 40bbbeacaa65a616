"""The Pregel machine alone, with no event loop, against a model that knows nothing of how it works."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.commands import AttemptStopped, Cancel, Finish
from orchestrator.core.facts import Failure
from orchestrator.core.laws import check, check_facts
from orchestrator.core.records import Record, decode_record, encode_record
from orchestrator.core.spec import Budget, Operation, Plan
from orchestrator.core.supersteps.commands import Boundary, GoOn, Open, TakeInput
from orchestrator.core.supersteps.facts import Patch, Route
from orchestrator.core.supersteps.machine import SuperstepMachine
from orchestrator.core.supersteps.plan import Join, StepNode, StepPlan

NAMES = ("a", "b", "c", "d", "e")


@dataclass
class World:
    """Drives a machine as the runtime would, and keeps the records."""

    plan: StepPlan
    budget: Budget = field(default_factory=Budget)
    machine: SuperstepMachine = field(default_factory=SuperstepMachine)
    log: list[Record] = field(default_factory=list)

    @property
    def state(self):
        return self.machine.state

    @property
    def steps(self):
        return self.machine.state.steps

    def tell(self, command, *values: bytes) -> None:
        first = self.state.facts + 1
        decision = self.machine.handle(command, len(self.log), values)
        if decision.facts:
            raw = [msgspec.Raw(value) for value in values]
            self.log.append(
                Record(len(self.log) + 1, first, len(self.log), command, decision.facts, raw, decision.cause)
            )
        broken = check(self.state)
        assert not broken, broken

    def begin(self) -> None:
        self.tell(Open("t", Plan(name="g", budget=self.budget), self.plan))
        self.tell(TakeInput((Patch("log", 0),)), b'["in"]')

    def running(self) -> list[str]:
        return [name for name, node in self.state.nodes.items() if node.status == "running"]

    def fold(self) -> None:
        """As the runtime folds a list to which everybody adds its own name."""
        if self.steps.settled:
            said = [self.state.nodes[name].value for name in self.steps.active]
            more = [item for raw in said for item in msgspec.json.decode(raw)["log"]]
            patch = Patch("log", 0, append=True)
            self.tell(Boundary(self.steps.step, (patch,)), msgspec.json.encode(more))

    def complete(self, name: str, routes=(), *, replaces: bool = False) -> None:
        node = self.steps.active[name].node
        raw = msgspec.json.encode({"log": [node]})
        self.tell(
            Finish(name, self.state.nodes[name].attempt, value=0, routes=routes, replaces=replaces), raw
        )


@st.composite
def plans(draw):
    nodes = []
    for name in NAMES:
        targets = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
        nodes.append(StepNode(operation=Operation(name=name, verb="step"), targets=tuple(targets)))
    entry = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return StepPlan(nodes=tuple(nodes), entry=tuple(entry))


def naive(plan: StepPlan, gotos: dict[tuple[str, int], list[str]], limit: int) -> list[list[str]]:
    """The nodes of each step, from the definition and nothing else."""
    targets = {node.name: node.targets for node in plan.nodes}
    frontier, steps = list(dict.fromkeys(plan.entry)), []
    while frontier and len(steps) < limit:
        steps.append(frontier)
        reached = [t for n in frontier for t in gotos.get((n, len(steps)), targets[n])]
        frontier = list(dict.fromkeys(reached))
    return steps


@settings(max_examples=150)
@given(
    plans(),
    st.dictionaries(
        st.tuples(st.sampled_from(NAMES), st.integers(1, 5)),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=2),
    ),
    st.data(),
)
def test_steps_are_those_of_the_definition_in_any_order_of_completion(plan, gotos, data):
    world = World(plan, Budget(steps=5, concurrency=3))
    world.begin()
    seen: list[list[str]] = []
    while not (world.state.ended or world.state.suspended):
        if len(seen) < world.steps.step:
            seen.append([task.node for task in world.steps.active.values()])
        name = data.draw(st.sampled_from(world.running()))
        node = world.steps.active[name].node
        chosen = gotos.get((node, world.steps.step))
        if chosen is None:
            world.complete(name)
        else:
            world.complete(name, tuple(Route(to) for to in chosen), replaces=True)
        world.fold()
    expected = naive(plan, gotos, 5)
    assert seen == expected
    assert msgspec.json.decode(world.steps.channels["log"]) == ["in", *(n for step in expected for n in step)]
    _replays(world)


@settings(max_examples=100)
@given(plans(), st.lists(st.sampled_from(["complete", "fail", "interrupt", "kill"]), max_size=12), st.data())
def test_stopped_anywhere_and_gone_on_it_comes_to_the_same(plan, events, data):
    world = World(plan, Budget(steps=4))
    world.begin()
    while (
        not (world.state.ended and not world.state.failed_unhandled)
        and world.state.suspended != "budget_exhausted"
    ):
        event = events.pop(0) if events else "complete"
        _happens(world, event, data)
    expected = naive(plan, {}, 4)
    assert msgspec.json.decode(world.steps.channels["log"]) == ["in", *(n for step in expected for n in step)]
    _replays(world)


def _happens(world: World, event: str, data) -> None:
    running = world.running()
    if not running:
        if world.state.ended or world.state.suspended:
            world.tell(GoOn(epoch=2))
        world.fold()
        return
    name = data.draw(st.sampled_from(running))
    attempt = world.state.nodes[name].attempt
    if event == "complete":
        world.complete(name)
    elif event == "fail":
        world.tell(Finish(name, attempt, "failed", error=Failure("E", "no", attempt)))
    elif event == "interrupt":
        world.tell(Cancel(suspend="interrupted", reason="stop"))
        for one in running:
            world.tell(AttemptStopped(one, world.state.nodes[one].attempt))
    else:
        fresh = SuperstepMachine()
        for record in world.log:
            fresh.replay(record)
        world.machine = fresh
        world.tell(GoOn(epoch=3))
    world.fold()


def _replays(world: World) -> None:
    """What is on record folds to the same state, through JSON, and breaks no law of order."""
    machine = SuperstepMachine()
    for record in world.log:
        machine.replay(decode_record(encode_record(record)))
    before, after = world.steps, machine.state.steps
    for name in ("channels", "step", "checkpoint", "frontier", "arrivals", "visits", "tasks", "steps"):
        assert getattr(before, name) == getattr(after, name), name
    broken = check_facts(world.log)
    assert not broken, broken


def test_a_join_waits_for_who_can_come_and_its_arrivals_end_with_it():
    nodes = tuple(
        StepNode(operation=Operation(name=name, verb="step"), targets=targets)
        for name, targets in {"a": (), "b": ("c",), "c": (), "d": ()}.items()
    )
    world = World(StepPlan(nodes=nodes, entry=("a", "b"), joins=(Join(sources=("a", "c"), target="d"),)))
    world.begin()
    for name in ("b@1", "a@1"):
        world.complete(name)
    world.fold()
    assert world.steps.arrivals == {"a+c->d": ("a",)}
    world.complete("c@2")
    world.fold()
    assert list(world.steps.active) == ["d@3"] and world.steps.arrivals == {}


def test_a_task_of_a_step_that_is_behind_says_nothing():
    nodes = (StepNode(operation=Operation(name="a", verb="step"), targets=("a",)),)
    world = World(StepPlan(nodes=nodes, entry=("a",)))
    world.begin()
    world.complete("a@1")
    world.fold()
    count = len(world.log)
    world.tell(Finish("a@1", 1, value=0), b"{}")
    assert len(world.log) == count and world.running() == ["a@2"]
