"""Questions of roles, asked on the terminal: one at a time, and taken back when they are settled."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from anyio import CancelScope, Event, create_task_group, wait_readable

from orchestrator.cli.edge import clean, clean_lines, is_terminal, note, write
from orchestrator.cli.views import View
from orchestrator.core import commands
from orchestrator.core.status import RunReason
from orchestrator.runtime.envelopes import Envelope
from orchestrator.runtime.run import Run

__all__ = ["answer_value", "ask_on_terminal", "can_ask"]

_ASKED, _ANSWERED = "QuestionAsked", "QuestionAnswered"
_KINDS: Final = (
    _ASKED,
    _ANSWERED,
    "NodeCompleted",
    "NodeFailed",
    "NodeSkipped",
    "NodeVetoed",
    "NodeCancelled",
)
_BY: Final = "terminal"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def can_ask() -> bool:
    """Whether somebody sits at a terminal and can be asked."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr) and not os.environ.get("CI")


async def ask_on_terminal(run: Run, view: View) -> None:
    """Ask what the run's nodes ask, until the run is over."""
    desk = _Desk(run, view)
    async with create_task_group() as group:
        group.start_soon(desk.serve)
        async with run.events(kinds=_KINDS) as events:
            async for envelope in events:
                desk.take(envelope)
        group.cancel_scope.cancel()


class _Desk:
    """Questions that wait for a person, and the one that is being asked."""

    def __init__(self, run: Run, view: View) -> None:
        self._run, self._view = run, view
        self._waiting: deque[Envelope] = deque()
        self._arrived = Event()
        self._open: tuple[str | None, str] | None = None
        self._prompt: CancelScope | None = None
        self._left = False

    def take(self, envelope: Envelope) -> None:
        """A question came, or one was settled elsewhere, or a node ended."""
        key = (envelope.node, envelope.data.get("key", ""))
        if envelope.kind == _ASKED:
            self._waiting.append(envelope)
            self._arrived.set()
        elif envelope.kind == _ANSWERED:
            self._waiting = deque(one for one in self._waiting if (one.node, one.data["key"]) != key)
            if self._open == key and self._prompt is not None:
                self._prompt.cancel()
        if self._left:
            self._suspend()

    async def serve(self) -> None:
        """Ask one question after the other."""
        while not self._left:
            while not self._waiting:
                self._arrived = Event()
                await self._arrived.wait()
            question = self._waiting.popleft()
            if not self._is_open(question):
                continue  # of an attempt that is over, in a run that goes on
            self._open = (question.node, question.data["key"])
            with CancelScope() as self._prompt, self._view.aside():
                await self._ask(question)
            self._open = None
        self._suspend()

    def _is_open(self, question: Envelope) -> bool:
        node = self._run.engine.state.nodes.get(question.node or "")
        known = None if node is None else (node.questions or {}).get(question.data["key"])
        return known is not None and known.answer is None

    async def _ask(self, question: Envelope) -> None:
        choices = tuple(question.data.get("choices") or ())
        note(f"{clean(question.node)} asks: {clean_lines(question.data['question'])}")
        for number, choice in enumerate(choices, 1):
            note(f"  {number}  {clean(choice)}")
        while True:
            write(sys.stderr, "> ")
            line = await _line()
            if line is None:
                note("\nno answer: the run is suspended as soon as nothing else runs")
                self._left = True
                return
            shape = question.data.get("schema")
            schema = msgspec.json.decode(shape) if isinstance(shape, str) else shape
            value, fault = answer_value(line.strip(), choices, schema)
            if fault is None:
                fault = self._give(question, value, await self._why(question))
            if fault is None:
                return
            note(fault)

    async def _why(self, question: Envelope) -> str:
        """A verdict stands on record with its reason; every other answer speaks for itself."""
        node = self._run.engine.state.nodes[question.node or ""]
        if node.op.gate is None or node.op.inquiry is None:
            return ""
        write(sys.stderr, "why? > ")
        return (await _line() or "").strip()

    def _give(self, question: Envelope, value: Any, because: str) -> str | None:
        """Give an answer; returns why it is refused, or None."""
        key = question.data["key"]
        receipt = self._run.answer(question.node or "", value, key=key, by=_BY, because=because)
        return None if receipt else f"{receipt.reason}: {clean(receipt.detail)}"

    def _suspend(self) -> None:
        """Nobody answers: stop once only questions are left."""
        state = self._run.engine.state
        if not state.running and state.asking:
            self._run.engine.ask(commands.Cancel(suspend=RunReason.AWAITING_ANSWER, reason="nobody answered"))


def answer_value(
    text: str, choices: Sequence[str], schema: Mapping[str, Any] | None
) -> tuple[Any, str | None]:
    """What a line means: a choice by name or number, JSON where the question wants more than text."""
    if choices:
        meant = [choice for choice in choices if choice == text] or [
            choice for choice in choices if choice.casefold() == text.casefold()
        ]
        if len(meant) == 1:
            return meant[0], None
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1], None
        return None, f"write one of {', '.join(map(clean, choices))}, or its number"
    if schema is None or schema.get("type") == "string":
        return text, None
    wanted = schema.get("type")
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return None, f"this has to be JSON{f' of type {clean(wanted)}' if wanted else ''}: {clean(error)}"
    types = _TYPES.get(wanted) if isinstance(wanted, str) else None
    if types is None or (isinstance(value, types) and (wanted == "boolean" or not isinstance(value, bool))):
        return value, None
    return None, f"this has to be JSON of type {clean(wanted)}, not {type(value).__name__}"


async def _line() -> str | None:
    """A line from the terminal; None at its end. It waits without a thread, so it can be taken back."""
    descriptor = sys.stdin.fileno()
    await wait_readable(descriptor)
    raw = os.read(descriptor, 65_536)
    return raw.decode("utf-8", "replace") if raw else None
