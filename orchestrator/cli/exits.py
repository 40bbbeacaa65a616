"""How the command says what came of it: one table from reasons to exit codes, one from errors to them."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Final

from orchestrator.core.status import RunReason
from orchestrator.errors import InternalError, JournalError, OrchestratorError

__all__ = ["BUG", "EXIT_CODES", "INTERRUPTED", "IO_FAULT", "USAGE", "exit_code", "told"]

#: A command, a document or an argument that does not fit; nothing has run.
USAGE: Final = 2
#: A bug of ours.
BUG: Final = 70
#: Something could not be read or written.
IO_FAULT: Final = 74
#: Stopped by a signal, or cancelled.
INTERRUPTED: Final = 130

EXIT_CODES: Final[Mapping[RunReason, int]] = {
    RunReason.COMPLETED: 0,
    RunReason.FAILED: 1,
    RunReason.GATE_REJECTED: 3,
    RunReason.REFUSALS_EXHAUSTED: 3,
    RunReason.GATE_UNDECIDED: 3,
    RunReason.BUDGET_EXHAUSTED: 4,
    RunReason.DEADLINE: 4,
    RunReason.QUOTA: 4,
    RunReason.DRAINED: 5,
    RunReason.AWAITING_ANSWER: 6,
    RunReason.CANCELLED: INTERRUPTED,
    RunReason.INTERRUPTED: INTERRUPTED,
    RunReason.STUCK: 1,
    RunReason.NEEDS_RECOVERY: IO_FAULT,
}


def exit_code(outcome: RunReason | BaseException) -> int:
    """The exit code of a reason for stopping, or of an error: the one mapping of every command."""
    match outcome:
        case RunReason():
            return EXIT_CODES[outcome]
        case BaseExceptionGroup():
            return exit_code(_first(outcome))
        case KeyboardInterrupt():
            return INTERRUPTED
        case InternalError():
            return BUG
        case JournalError() | OSError():
            return IO_FAULT
        case OrchestratorError():
            return USAGE
        case _:
            return BUG


def told(error: BaseException, *, debug: bool) -> str:
    """An error in one line that says what, where and what next; with ``debug`` its traceback before it."""
    first = _first(error)
    if isinstance(first, KeyboardInterrupt):
        return "error: interrupted"
    if exit_code(first) == BUG:
        words = " ".join(str(first).split("\n", 1)[0].split())
        kind = "" if isinstance(first, InternalError) else f"{type(first).__name__}: "
        said = "" if "this is a bug" in words else "; this is a bug in callboard"
        hint = (
            "please report it with the traceback above"
            if debug
            else "run again with --debug for the traceback"
        )
        line = f"error: {kind}{words}{said}; {hint}"
    else:
        line = f"error: {' '.join(_words(first).split())}"
    return f"{''.join(traceback.format_exception(first))}{line}" if debug else line


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}; see that it can be read and written"
    return str(error) or type(error).__name__


def _first(error: BaseException) -> BaseException:
    """What a task group wraps: its first error that is no cancellation of the group itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
