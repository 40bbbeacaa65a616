"""What nodes and callers say: Send, Command, Overwrite, interrupt, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator.core.supersteps.children import PARENT
from orchestrator.core.supersteps.plan import END, START
from orchestrator.errors import ExecutionError

__all__ = [
    "ASKING",
    "END",
    "PARENT",
    "START",
    "Answer",
    "Answers",
    "Asking",
    "Command",
    "Overwrite",
    "Send",
    "interrupt",
]


@dataclass(frozen=True, slots=True)
class Send:
    """A task of ``node`` with an argument of its own in the next step.

    Attributes:
        node: what runs. arg: JSON data that it gets in place of the state.
        key: names the task, so that its identity does not depend on how many others are sent.
    """

    node: str
    arg: Any = None
    key: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A write that sets its key aside of the reducer; two in one step are an error."""

    value: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the one open interrupt of a thread; None and {} are answers like any other."""

    value: Any


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers by the interrupts' ids; those that are not named stay open."""

    values: Mapping[str, Any]


Goto = str | Send | Sequence[str | Send]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """An update and where to go next.

    Attributes:
        update: state writes. goto: instead of the node's edges. also: beside them.
        resume: Answer or Answers, in a caller's Command.
        graph: PARENT: update, goto and also are for the graph that called this one.
    """

    update: Mapping[str, Any] | None = None
    goto: Goto = ()
    also: Goto = ()
    resume: Answer | Answers | None = None
    graph: str | None = None


class Asking(Protocol):
    """Whoever asks for the task that runs."""

    async def __call__(self, value: Any, key: str | None) -> Any:
        """The answer."""


#: Of the task whose code runs; tasks that it starts share it.
ASKING: ContextVar[Asking] = ContextVar("callboard_interrupt")


async def interrupt(value: Any, *, key: str | None = None) -> Any:
    """Ask whoever drives the thread, and wait; the node begins again from its top with the answer.

    Args:
        value: JSON data that says what is asked.
        key: the question's identity inside this visit; without it the n-th call is the n-th question.

    Raises:
        ExecutionError: nobody can be asked here: it is called outside a node.
    """
    asking = ASKING.get(None)
    if asking is None:
        message = "interrupt() was called outside a node of a stepped run"
        raise ExecutionError(message)
    return await asking(value, key)
