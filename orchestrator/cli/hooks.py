"""Commands of a person's own for what happens to a run: without a shell, with JSON on their stdin."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TextIO

import anyio

from orchestrator.cli.edge import clean, note
from orchestrator.cli.journals import Place
from orchestrator.cli.opening import UsageError
from orchestrator.runtime.envelopes import Envelope

__all__ = ["Hook", "hook_of", "on_ask"]


@dataclass(frozen=True, slots=True)
class Hook:
    """One such command.

    Attributes:
        option: where it was given, for messages. words: the program and its arguments.
        environment: what it knows beside our environment.
    """

    option: str
    words: tuple[str, ...]
    environment: Mapping[str, str]

    async def call(self, line: bytes, more: Mapping[str, str]) -> None:
        """Run it with one line of JSON on its stdin; its failure is told and changes nothing."""
        shown = clean(shlex.join(self.words))
        out = sys.stderr if _is_real(sys.stderr) else subprocess.DEVNULL
        try:
            done = await anyio.run_process(
                self.words,
                input=line + b"\n",
                stdout=out,
                stderr=out,
                check=False,
                env={**os.environ, **self.environment, **more},
            )
        except (OSError, anyio.BrokenResourceError) as error:
            note(f"error: {self.option} {shown}: {clean(error)}")
            return
        if done.returncode:
            note(f"error: {self.option} {shown} ended with exit code {done.returncode}")


def hook_of(option: str, given: str | None, place: Place | None) -> Hook | None:
    """The command of an option; None if there is none.

    Raises:
        UsageError: it cannot be read as words.
    """
    if not given:
        return None
    try:
        words = tuple(shlex.split(given))
    except ValueError as error:
        raise UsageError(f"{option} {given!r} cannot be read as words: {error}") from error
    if not words:
        raise UsageError(f"{option} is empty; give a program and its arguments")
    return Hook(option, words, {} if place is None else {"CALLBOARD_JOURNAL": str(place.path)})


def on_ask(hook: Hook | None) -> Callable[[Envelope], Awaitable[None]] | None:
    """What calls the command for a question."""
    if hook is None:
        return None

    async def asked(envelope: Envelope) -> None:
        await hook.call(envelope.json(), {"CALLBOARD_RUN": envelope.run})

    return asked


def _is_real(stream: TextIO) -> bool:
    """Whether a program can be given this stream."""
    try:
        return stream.fileno() >= 0
    except (OSError, ValueError, AttributeError):
        return False
