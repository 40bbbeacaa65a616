"""From what a caller asks of a thread to the commands of the core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from emissions import VerdictValue
from orchestrator.core.spec import Budget
from orchestrator.core.status import Status
from orchestrator.core.supersteps.commands import Edit, Given, GoOn, Resolve, TakeInput
from orchestrator.core.supersteps.facts import Patch, Route
from orchestrator.core.supersteps.plan import END, StepPlan
from orchestrator.core.supersteps.rules import steps_of
from orchestrator.core.supersteps.writes import behind, encode_writes
from orchestrator.errors import OperationError
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.values import settle
from orchestrator.supersteps.beginning import Told
from orchestrator.supersteps.blueprint import Blueprint, Branching
from orchestrator.supersteps.errors import EmptyInputError, InvalidUpdateError, PendingWorkError
from orchestrator.supersteps.folding import fold, writes_of
from orchestrator.supersteps.looking import next_of
from orchestrator.supersteps.results import Interrupt
from orchestrator.supersteps.routing import Routing, chosen, routes_of
from orchestrator.supersteps.threads import Thread
from orchestrator.supersteps.view import StateView
from orchestrator.supersteps.words import Answer, Answers, Command

__all__ = [
    "Options",
    "after",
    "answers_of",
    "edit",
    "enqueue",
    "go_on",
    "known_nodes",
    "new_input",
    "resolve",
    "shifted",
    "update_of",
]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a drive begins with beside its input: breakpoints, grants, new names of nodes."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    replace: bool = False
    child: bool = False
    queued: bool = False
    budget: Budget | None = None
    grant: Mapping[str, float] = {}
    rename: Mapping[str, str] = {}
    plan: StepPlan | None = None


def _channels(thread: Thread) -> Mapping[str, bytes]:
    steps = thread.machine.state.steps
    return {} if steps is None else steps.channels


def update_of(
    blueprint: Blueprint, present: Mapping[str, bytes], update: object, where: str
) -> tuple[tuple[Patch, ...], list[bytes], Mapping[str, bytes]]:
    """The patches of an update, their values, and the state behind it.

    Raises:
        InvalidUpdateError: a key that does not exist, or what its channel refuses.
    """
    writes = writes_of(blueprint.channels, update, where)
    loose = [one.key for one in writes if not blueprint.channels[one.key].tracked]
    if loose:
        raise InvalidUpdateError(
            f"{where} writes {', '.join(loose)}, which is untracked; only a node writes it"
        )
    made = fold(blueprint.channels, present, [(where, encode_writes(writes))], own=False)
    if made.faults:
        raise InvalidUpdateError(next(iter(made.faults.values())).error.message)
    return tuple(made.patches), made.values, after(present, made.patches, made.values)


def after(
    present: Mapping[str, bytes], patches: Iterable[Patch], values: Sequence[bytes]
) -> dict[str, bytes]:
    """The channels behind some patches that refer to no task."""
    state = dict(present)
    for patch in patches:
        if patch.value is None:
            state.pop(patch.key, None)
        elif patch.append:
            state[patch.key] = behind(state[patch.key], values[patch.value])
        else:
            state[patch.key] = values[patch.value]
    return state


async def _branches(
    blueprint: Blueprint, branches: Sequence[Branching], state: Mapping[str, bytes], where: str
) -> Routing:
    routing = Routing([], [], set())
    for branch in branches:
        targets = await chosen(branch, StateView(blueprint.channels, state), where)
        routes_of(routing, targets, blueprint.nodes, where)
    return routing


def shifted(routes: Sequence[Route], by: int) -> tuple[Route, ...]:
    """Routes whose arguments stand behind ``by`` other values."""
    return tuple(
        one if one.value is None else Route(one.to, one.value + by, one.key, one.send) for one in routes
    )


async def new_input(blueprint: Blueprint, thread: Thread, given: Mapping[str, Any], options: Options) -> Told:
    """An input on a thread.

    Raises:
        EmptyInputError: it writes nothing. PendingWorkError: the thread has work left.
    """
    if not given and not options.child:
        raise EmptyInputError(f"the input writes no state key; there are {', '.join(blueprint.channels)}")
    if (thread.pending or (thread.queue and not options.queued)) and not options.replace:
        waits = ", ".join(next_of(thread.machine.state))
        raise PendingWorkError(
            f"thread {thread.id} has work left ({waits}); invoke(None) goes on with it, on_pending='enqueue' "
            "lets the input wait for it, on_pending='replace' drops it"
        )
    patches, values, state = update_of(blueprint, _channels(thread), given, "input")
    routing = await _branches(blueprint, blueprint.entry, state, "the conditional edge of START")
    routes = shifted(routing.routes, len(values))
    command = TakeInput(
        patches,
        routes,
        options.before,
        options.after,
        options.replace,
        thread.epoch,
        utc_now(),
        options.plan,
        options.budget,
        options.queued,
    )
    return command, [*values, *routing.values]


def go_on(
    blueprint: Blueprint, thread: Thread, said: Command, options: Options, open_: Sequence[Interrupt] = ()
) -> Told:
    """Answers, an update, a goto; or nothing but to go on.

    Args:
        open_: what is asked, by children as well; their answers are theirs.

    Raises:
        OperationError: the thread was never begun, an answer fits no question, a node has another name now.
    """
    state = thread.machine.state
    if state.steps is None or not state.steps.given:
        raise OperationError(f"thread {thread.id} has had no input; give one")
    known_nodes(blueprint, thread, options.rename)
    answers, values = _answers(thread, said.resume, open_)
    routing = Routing([], [], set())
    routes_of(routing, said.goto, blueprint.nodes, "goto")
    present = _finished(blueprint, thread) if said.goto else _channels(thread)
    patches: list[Patch] = []
    if said.goto:
        patches += _whole(blueprint, thread, present, values)
    if said.update is not None:
        more, new, _ = update_of(blueprint, present, said.update, "update")
        patches += [_moved(patch, len(values)) for patch in more]
        values += new
    command = GoOn(
        tuple(answers), tuple(patches), shifted(routing.routes, len(values)), bool(said.goto),
        _granted(thread, options.grant), options.before, options.after, thread.epoch, utc_now(),
        dict(options.rename), options.plan,
    )  # fmt: skip
    return command, [*values, *routing.values]


def enqueue(blueprint: Blueprint, thread: Thread, given: Mapping[str, Any], options: Options) -> Told:
    """Go on with what is left, and let an input wait until it has ended.

    Raises:
        EmptyInputError, InvalidUpdateError: the input writes nothing, or what the state does not have.
    """
    if not given:
        raise EmptyInputError(f"the input writes no state key; there are {', '.join(blueprint.channels)}")
    raw = encode_writes(writes_of(blueprint.channels, given, "input"))
    command, values = go_on(blueprint, thread, Command(), options)
    assert isinstance(command, GoOn)
    return msgspec.structs.replace(command, enqueue=len(values)), [*values, raw]


def _moved(patch: Patch, by: int) -> Patch:
    return patch if patch.value is None else msgspec.structs.replace(patch, value=patch.value + by)


def _finished(blueprint: Blueprint, thread: Thread) -> Mapping[str, bytes]:
    """The channels with what finished tasks of the open step have written.

    Raises:
        InvalidUpdateError: their writes do not fit.
    """
    state = thread.machine.state
    steps = steps_of(state)
    done = [
        (name, steps.instead.get(name, state.nodes[name].value))
        for name in steps.active
        if state.nodes[name].status is Status.COMPLETED and name not in steps.refused
    ]
    made = fold(blueprint.channels, steps.channels, done, own=False)
    if made.faults:
        raise InvalidUpdateError(next(iter(made.faults.values())).error.message)
    return after(steps.channels, made.patches, made.values)


def _whole(
    blueprint: Blueprint, thread: Thread, new: Mapping[str, bytes], values: list[bytes]
) -> list[Patch]:
    """Patches that set every channel that ``new`` changes."""
    patches = []
    for key, raw in new.items():
        if _channels(thread).get(key) != raw:
            values.append(raw)
            patches.append(Patch(key, len(values) - 1))
    return patches


def _granted(thread: Thread, grant: Mapping[str, float]) -> dict[str, float]:
    """What a grant raises the named limits to: what is used, and as much again as is granted."""
    state = thread.machine.state
    steps = steps_of(state)
    tasks = steps.tasks + steps.children.tasks
    used = {"steps": steps.steps, "tasks": tasks, "visits": max(steps.visits.values(), default=0)}
    return {
        name: used.get(name, getattr(state.budget, name, 0) or 0) + amount for name, amount in grant.items()
    }


def known_nodes(blueprint: Blueprint, thread: Thread, rename: Mapping[str, str]) -> None:
    """Everything that waits to run has a node in this graph.

    Raises:
        OperationError: one is gone; names it.
    """
    steps = steps_of(thread.machine.state)
    waiting = [one.node for one in (*steps.frontier, *steps.active.values())] + list(steps.deferred)
    for node in waiting:
        if rename.get(node, node) not in blueprint.nodes:
            raise OperationError(
                f"thread {thread.id}: {node!r} is to run and is no node of this graph; "
                f"say what it is called now: invoke(None, rename={{{node!r}: ...}})"
            )


def answers_of(
    thread: Thread, resume: Answer | Answers | None, open_: Sequence[Interrupt]
) -> Mapping[str, Any]:
    """Answers by the ids of what is asked.

    Raises:
        OperationError: one fits no question, or it is not said which it fits.
    """
    known = {one.id: one for one in open_}
    if resume is None:
        return {}
    if isinstance(resume, Answer):
        if len(known) != 1:
            raise OperationError(
                f"thread {thread.id} has {len(known)} open interrupts; give Answers({{id: value}}) for "
                f"{', '.join(known) or 'none'}"
            )
        return {next(iter(known)): resume.value}
    if not isinstance(resume, Answers):
        raise OperationError(
            f"resume is a {type(resume).__name__}; wrap it: Answer(value), or Answers({{id: value}})"
        )
    for identity in resume.values:
        if identity not in known:
            raise OperationError(f"{identity!r} is no open interrupt; there are {', '.join(known) or 'none'}")
    return resume.values


def _answers(
    thread: Thread, resume: Answer | Answers | None, open_: Sequence[Interrupt]
) -> tuple[list[Given], list[bytes]]:
    known = {one.id: one for one in open_}
    answers: list[Given] = []
    values: list[bytes] = []
    for identity, value in answers_of(thread, resume, open_).items():
        asked = known[identity]
        if asked.namespace:
            continue
        said = value if asked.key else _verdict(identity, value)
        values.append(settle(said, "answer")[0])
        answers.append(Given(asked.task, asked.key, len(values) - 1))
    return answers, values


def _verdict(identity: str, value: object) -> str:
    """A person's verdict for an undecided gate.

    Raises:
        OperationError: it is none of the four.
    """
    try:
        return VerdictValue(value).value  # type: ignore[arg-type]
    except ValueError:
        raise OperationError(f"{identity}: {value!r} is no verdict; give {', '.join(VerdictValue)}") from None


async def edit(blueprint: Blueprint, thread: Thread, update: object, as_node: str) -> Told:
    """An operator's change of the state.

    Raises:
        OperationError: no such node, or the thread was never begun.
    """
    state = thread.machine.state
    if state.steps is None or not state.steps.given:
        raise OperationError(f"thread {thread.id} has had no input; there is nothing to update")
    if as_node and as_node != END and as_node not in blueprint.nodes:
        raise OperationError(f"as_node={as_node!r} is no node; there are {', '.join(blueprint.nodes)}")
    command = update if isinstance(update, Command) else Command(update=update)  # type: ignore[arg-type]
    values: list[bytes] = []
    patches: list[Patch] = []
    present: Mapping[str, bytes] = _channels(thread)
    if as_node == END and state.steps.open:
        present = _finished(blueprint, thread)
        patches = _whole(blueprint, thread, present, values)
    more, new, behind_ = update_of(blueprint, present, command.update, "update")
    patches += [_moved(patch, len(values)) for patch in more]
    values += new
    routing = Routing([], [], set())
    if as_node and as_node != END:
        if not command.goto:
            branches = blueprint.nodes[as_node].branches
            routing = await _branches(blueprint, branches, behind_, f"the conditional edge of {as_node}")
        routes_of(routing, command.also, blueprint.nodes, "also")
        routes_of(routing, command.goto, blueprint.nodes, "goto")
    routes = shifted(routing.routes, len(values))
    made = Edit(tuple(patches), as_node, routes, bool(command.goto), thread.epoch, utc_now())
    return made, [*values, *routing.values]


def resolve(blueprint: Blueprint, thread: Thread, task: str, how: str, value: object) -> Told:
    """An operator's word on a refused write.

    Raises:
        OperationError: no such task, or no such way.
    """
    steps = thread.machine.state.steps
    if steps is None or task not in steps.refused:
        known = ", ".join(() if steps is None else steps.refused) or "none"
        raise OperationError(f"{task!r} has no refused write; there are {known}")
    if how not in {"drop", "value", "rerun"}:
        raise OperationError(f"resolve with {how!r}; give 'drop', 'value' or 'rerun'")
    if how != "value":
        return Resolve(task, how, None, thread.epoch, utc_now()), ()
    raw = encode_writes(writes_of(blueprint.channels, value, task))
    return Resolve(task, how, 0, thread.epoch, utc_now()), (raw,)
