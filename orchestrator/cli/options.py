"""What a person asked for, as the commands hand it on: typed, and light to load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Asked", "CheckOptions", "DrawOptions", "InitOptions", "RunOptions", "TryOptions"]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """``callboard run``.

    Attributes:
        flow: the document, or its folder. args: ``K=V`` texts. args_file: JSON or YAML; ``args`` win.
        concurrency: nodes at once, in place of the document's. grace: seconds between the first signal and
            the interruption. on_end: a shell command for when the run has stopped.
        command: the command line as it was given, for "run again".
    """

    flow: Path
    args: tuple[str, ...] = ()
    args_file: Path | None = None
    concurrency: int | None = None
    json: bool = False
    quiet: bool = False
    grace: float = 10.0
    on_end: str | None = None
    debug: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """``callboard check``."""

    flow: Path
    json: bool = False


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """``callboard draw``. ``form`` is text or mermaid."""

    flow: Path
    form: str = "text"


@dataclass(frozen=True, slots=True)
class Asked:
    """``callboard roles``, ``emissions`` and ``events``: one of them, or all.

    Attributes:
        name: which one; None lists all. flow: whose cast is listed as well. schema: as JSON Schema.
    """

    name: str | None = None
    flow: Path | None = None
    schema: bool = False


@dataclass(frozen=True, slots=True)
class TryOptions:
    """``callboard try``.

    Attributes:
        target: ``FILE:ROLE``. given: ``K=V`` texts for turn.parameters. inputs: ``NAME=JSON`` texts.
    """

    target: str
    given: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    instruction: str = ""
    grace: float = 10.0
    debug: bool = False


@dataclass(frozen=True, slots=True)
class InitOptions:
    """``callboard init``."""

    folder: Path
    template: str = "starter"
