"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

__all__ = [
    "DEBUG",
    "AsJson",
    "Debug",
    "Grace",
    "JournalFile",
    "ModelName",
    "OnAsk",
    "OnEnd",
    "OneRun",
    "Quiet",
    "RunName",
]

DEBUG: Final = "CALLBOARD_DEBUG"
_HOOK: Final = "run without a shell; it knows CALLBOARD_RUN, CALLBOARD_JOURNAL"

Debug = Annotated[bool, typer.Option("--debug", envvar=DEBUG, help="Show tracebacks and detailed logs.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
JournalFile = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="PATH",
        help="The journal's file; by default CALLBOARD_JOURNAL, or .callboard/journal.db of this project.",
    ),
]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The beginning of a run's id, or `last`.")]
OneRun = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="The beginning of a run's id, or `last`.")
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER:NAME",
        help="Performs every role that has no function and no program; `test` needs no key.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the line that says what came of it.")]
Grace = Annotated[
    float,
    typer.Option(
        min=0.0,
        envvar="CALLBOARD_GRACE",
        help="Seconds from the first Ctrl-C or SIGTERM to the interruption.",
    ),
]
OnEnd = Annotated[
    str | None,
    typer.Option(
        metavar="CMD",
        envvar="CALLBOARD_ON_END",
        help=f"Command for when the run has stopped: the result as JSON is its stdin; {_HOOK}, "
        "CALLBOARD_REASON and CALLBOARD_EXIT.",
    ),
]
OnAsk = Annotated[
    str | None,
    typer.Option(
        metavar="CMD",
        envvar="CALLBOARD_ON_ASK",
        help=f"Command for each question: its envelope is its stdin; {_HOOK}.",
    ),
]
