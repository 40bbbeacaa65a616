"""``scripted``: a role that does what a test says, turn by turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Protocol

import anyio

from emissions import Emission
from orchestrator.testing.script_error import ScriptError
from roles import Role, Turn

__all__ = [
    "Script",
    "Scripted",
    "Step",
    "Waitable",
    "does",
    "emits",
    "raises",
    "returns",
    "scripted",
    "waits",
]


class Waitable(Protocol):
    """What a step can wait for: an ``anyio.Event``, or anything with an async ``wait``."""

    def wait(self) -> Awaitable[object]:
        """Wait until it has happened."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a scripted role does in a turn; made by ``emits``, ``waits``, ``returns``, ``raises``.

    Attributes:
        word: what it is called. act: does it; what the turn's last step gives is its value.
        types: emission types that it says. ends: no step can follow.
    """

    word: str
    act: Callable[[Turn], Awaitable[Any]] = field(repr=False)
    types: tuple[type[Emission], ...] = ()
    ends: bool = False


def emits(*emissions: Emission) -> Step:
    """Emit, one after the other; a receipt that says no changes nothing about what comes next."""

    async def act(turn: Turn) -> None:
        for emission in emissions:
            await turn.emit(emission)

    return Step("emits", act, tuple(type(emission) for emission in emissions))


def waits(what: Waitable | float) -> Step:
    """Wait for an event, or for seconds on the loop's clock (a virtual one does not really wait)."""

    async def act(_: Turn) -> None:
        if isinstance(what, int | float):
            await anyio.sleep(what)
        else:
            await what.wait()

    return Step("waits", act)


def returns(value: object) -> Step:
    """Return exactly this, also where it is an exception, a function or a step."""

    async def act(_: Turn) -> object:
        return value

    return Step("returns", act, tuple(_types_in(value)), ends=True)


def raises(error: BaseException | type[BaseException]) -> Step:
    """Raise an exception."""

    async def act(_: Turn) -> None:
        raise error

    return Step("raises", act, ends=True)


def does(*steps: Step) -> Step:
    """Do several steps in one turn: ``does(emits(x), waits(event), returns(1))``; the last gives the value.

    Raises:
        ValueError: a step follows one that ends the turn.
    """
    for step in steps[:-1]:
        if step.ends:
            message = f"does(): a step follows {step.word}(), which ends the turn; it would never be done"
            raise ValueError(message)

    async def act(turn: Turn) -> Any:
        value = None
        for step in steps:
            value = await step.act(turn)
        return value

    types = tuple(type_ for step in steps for type_ in step.types)
    return Step("does", act, types, ends=bool(steps) and steps[-1].ends)


@dataclass(eq=False)
class Script:
    """The outcomes of a scripted role, and the turns that it was given so far.

    Attributes:
        name: the role's first name, for errors. steps: one per turn. repeat: the last goes for further turns.
        declared: the test itself said what the role may emit. turns: every turn that was given, in order.
    """

    name: str
    steps: tuple[Step, ...]
    repeat: bool
    declared: bool
    turns: list[Turn] = field(default_factory=list)

    async def play(self, turn: Turn) -> Any:
        """Do what is next.

        Raises:
            ScriptError: there is no outcome left.
        """
        self.turns.append(turn)
        number = len(self.turns)
        if number > len(self.steps) and not (self.repeat and self.steps):
            message = (
                f"scripted role {self.name!r} has {len(self.steps)} outcomes, and this is turn {number} "
                f"(node {turn.node}, attempt {turn.attempt}); give it one more, or repeat=True"
            )
            raise ScriptError(message)
        return await self.steps[min(number, len(self.steps)) - 1].act(turn)


@dataclass(frozen=True, slots=True, eq=False)
class Scripted(Role):
    """A role made by :func:`scripted`.

    Attributes:
        script: its outcomes; shared with every role that was copied from this one.
    """

    script: Script = field(kw_only=True, repr=False)

    @property
    def turns(self) -> list[Turn]:
        """Every turn that it was given, in order."""
        return self.script.turns

    @property
    def left(self) -> int:
        """How many outcomes were not asked for."""
        return max(0, len(self.script.steps) - len(self.script.turns))


def scripted(
    *outcomes: object,
    name: str = "scripted",
    emits: Iterable[type[Emission]] | None = None,
    repeat: bool = False,
) -> Scripted:
    """Make a role that does what the test says: one outcome for each turn, in order.

    Args:
        outcomes: a value is returned (an emission too, which emits it); an exception is raised; a function is
            called with the turn and its result, awaited where it can be, returned; a step (``emits``,
            ``waits``, ``returns``, ``raises``, several in ``does``) is done.
        name: the role's name.
        emits: what it may emit; every type in the outcomes if omitted.
        repeat: the last outcome goes for all further turns.

    Returns:
        The role; ``turns`` holds the turns that it was given, ``left`` the number of outcomes still to come.

    Raises:
        RoleError: the name or ``emits`` does not fit.
    """
    steps = tuple(_step(outcome) for outcome in outcomes)
    said = dict.fromkeys(type_ for step in steps for type_ in step.types)
    script = Script(name, steps, repeat, emits is not None)
    return Scripted(name, emits=tuple(said) if emits is None else tuple(emits), fn=script.play, script=script)


def _step(outcome: object) -> Step:
    if isinstance(outcome, Step):
        return outcome
    if isinstance(outcome, BaseException) or (
        isinstance(outcome, type) and issubclass(outcome, BaseException)
    ):
        return raises(outcome)
    if callable(outcome):
        return _called(outcome)
    return returns(outcome)


def _called(fn: Callable[..., Any]) -> Step:
    async def act(turn: Turn) -> Any:
        value = fn(turn)
        return await value if isawaitable(value) else value

    return Step("calls", act, ends=True)


def _types_in(value: object) -> Iterator[type[Emission]]:
    """Emission types in a value, as deep as lists and mappings go."""
    if isinstance(value, Emission):
        yield type(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _types_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _types_in(item)
