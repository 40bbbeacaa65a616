"""Where runs are kept: which file a command means, and how one of its runs is found."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.cli.opening import UsageError
from orchestrator.errors import CorruptJournalError, IncompatibleJournalError, JournalError
from orchestrator.journal.reading import JournalReader, open_journal
from orchestrator.runtime.recorded import RecordedRun, read_run

__all__ = [
    "NONE",
    "Place",
    "find",
    "place_of",
    "prepare",
    "project",
    "reading",
    "recorded",
]

#: Given as a journal: keep the run in memory.
NONE: Final = "none"
_VARIABLE: Final = "CALLBOARD_JOURNAL"
_FOLDER: Final = ".callboard"
_FILE: Final = "journal.db"
_MARKS: Final = (_FOLDER, "pyproject.toml", ".git")
_IGNORE: Final = "# what runs leave here is not part of the project\n*\n"


@dataclass(frozen=True, slots=True)
class Place:
    """A journal.

    Attributes:
        path: the file, absolute. folder: where nodes of its runs get their folders.
        option: what a command has to be given to mean this file; empty if it is the default here.
    """

    path: Path
    folder: Path
    option: str = ""

    @property
    def shown(self) -> str:
        """The path as people see it: short where it lies below the present folder."""
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    def typed(self, command: str) -> str:
        """A command with what it needs to mean this file."""
        return f"{command} {self.option}" if command and self.option else command


def project() -> Path:
    """The nearest folder, from here upwards, that holds .callboard, pyproject.toml or .git; else this one."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in _MARKS):
            return folder
    return here


def place_of(given: str | None) -> Place | None:
    """The journal that a command means; None for none at all.

    Args:
        given: of ``--journal``; the environment and the default stand behind it.
    """
    named = given or os.environ.get(_VARIABLE) or ""
    if named == NONE:
        return None
    home = project() / _FOLDER
    path = Path(named).absolute() if named else home / _FILE
    option = f"--journal {shlex.quote(given)}" if given else ""
    # beside the journal, so that nodes find their folders again wherever the run is resumed
    beside = path.parent if path.parent.name == _FOLDER else home
    return Place(path, beside / "runs", option)


def prepare(place: Place) -> None:
    """Keep what runs leave behind out of the project's version control.

    Raises:
        JournalError: the folder cannot be written.
    """
    home = place.folder.parent
    ignore = home / ".gitignore"
    try:
        if place.path.parent == home:
            home.mkdir(mode=0o700, exist_ok=True)
        if home.is_dir() and not ignore.exists():
            ignore.write_text(_IGNORE, encoding="utf-8")
    except OSError as error:
        raise JournalError(
            f"{home}: {error.strerror}: no journal can be kept there; --journal PATH names another place, "
            f"--journal {NONE} keeps the run in memory"
        ) from error


@contextmanager
def reading(given: str | None) -> Iterator[tuple[JournalReader, Place]]:
    """A reader of the journal that a command means.

    Raises:
        UsageError: there is none. JournalError: it cannot be read.
    """
    place = place_of(given)
    if place is None:
        raise UsageError(f"this command reads a journal; {NONE!r} is none")
    if not place.path.exists():
        raise UsageError(f"there is no journal at {place.shown}; `callboard run FLOW` makes one")
    with open_journal(place.path) as reader:
        yield reader, place


def find(reader: JournalReader, run: str) -> str:
    """The whole id of the run that a prefix or ``last`` means.

    Raises:
        UsageError: no run or several. JournalError: the journal cannot be read.
    """
    try:
        return reader.find_run(run)
    except (CorruptJournalError, IncompatibleJournalError):
        raise
    except JournalError as error:
        raise UsageError(str(error)) from error


def recorded(reader: JournalReader, run: str) -> RecordedRun:
    """The run that a prefix or ``last`` means, folded.

    Raises:
        UsageError: no run or several. JournalError: it cannot be read.
    """
    return read_run(reader, find(reader, run))
