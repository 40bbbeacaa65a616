"""Where a session keeps the logs of its runs: in memory while it lives, or in a journal on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import gettempdir
from typing import Any, Protocol
from weakref import finalize

from orchestrator.core.records import Record
from orchestrator.errors import CorruptJournalError, JournalError, OperationError
from orchestrator.journal import Journal, MemoryJournal
from orchestrator.journal.copying import prune
from orchestrator.journal.files import Fsync, JournalFile
from orchestrator.journal.reading import open_journal
from orchestrator.journal.runlog import RunLog
from orchestrator.runtime.planning import Prepared

__all__ = ["FileStore", "MemoryStore", "Store", "store_of"]


class Store(Protocol):
    """Keeps logs by run."""

    @property
    def durable(self) -> bool:
        """True if the logs outlive the process."""

    @property
    def folder(self) -> Path:
        """Where runs have their folders unless somebody says otherwise; it need not exist."""

    def new(self, run: str, name: str, definition: str) -> Journal:
        """The log of a new run."""

    def own(self, run: str) -> tuple[Journal, int]:
        """The log of a run that exists, owned from now on, and the number of owners it has had."""

    def find(self, run: str) -> str:
        """The id that an unambiguous prefix, or ``last``, means."""

    def exists(self, run: str) -> bool:
        """True if there is a run of this very id."""

    def records(self, run: str) -> Sequence[Record]:
        """Everything that is recorded of a run, without owning it."""

    def close(self, run: str) -> None:
        """Let go of a run's log."""

    def below(self, run: str) -> list[str]:
        """Runs whose ids begin with this one's and a dot."""

    def delete(self, runs: Sequence[str]) -> None:
        """Remove runs for good.

        Raises:
            RunOwnedError: one of them is being driven.
        """


class MemoryStore:
    """Logs that end with the session."""

    durable = False

    def __init__(self, make: Callable[[], Journal] = MemoryJournal) -> None:
        """``make`` gives an empty journal for each run."""
        self._make = make
        self._logs: dict[str, tuple[Journal, int]] = {}
        self.folder = Path(gettempdir()) / f"callboard-{token_hex(8)}"
        # a graph of steps may own a session that nobody enters, so nobody leaves it either
        finalize(self, rmtree, self.folder, ignore_errors=True)
        #: what drives each run: functions that no file names live as long as the session
        self.prepared: dict[str, Prepared] = {}

    def new(self, run: str, name: str, definition: str) -> Journal:
        """An empty journal."""
        journal = self._make()
        self._logs[run] = (journal, 1)
        return journal

    def own(self, run: str) -> tuple[Journal, int]:
        """The journal of a run of this session."""
        journal, epoch = self._logs[self.find(run)]
        self._logs[run] = (journal, epoch + 1)
        return journal, epoch + 1

    def find(self, run: str) -> str:
        """A run of this session."""
        return _only(run, list(self._logs), "this session")

    def exists(self, run: str) -> bool:
        """True if the session has it."""
        return run in self._logs

    def records(self, run: str) -> Sequence[Record]:
        """The run's records."""
        return self._logs[run][0].read(0)

    def close(self, run: str) -> None:
        """Nothing is held."""

    def below(self, run: str) -> list[str]:
        """Runs of this session."""
        return [one for one in self._logs if one.startswith(f"{run}.")]

    def delete(self, runs: Sequence[str]) -> None:
        """Nothing of them is left."""
        for run in runs:
            self._logs.pop(run, None)
            self.prepared.pop(run, None)

    def forget(self, run: str) -> None:
        """A completed run's log is of no more use than its result; those of its child runs go with it."""
        for name in [one for one in self._logs if one == run or one.startswith(f"{run}.")]:
            self._logs.pop(name, None)
            self.prepared.pop(name, None)


class FileStore:
    """Logs in one journal file."""

    durable = True

    def __init__(self, path: str | os.PathLike[str], fsync: Fsync = "always") -> None:
        """Open or make the file.

        Raises:
            JournalError: it cannot be opened, or is no journal of ours.
        """
        self.path = Path(path)
        self.folder = self.path.absolute().parent / "runs"
        self._file = JournalFile.open(path, fsync=fsync)
        self._logs: dict[str, RunLog] = {}

    def new(self, run: str, name: str, definition: str) -> Journal:
        """The log of a new run."""
        log = self._logs[run] = self._file.create_run(run, name=name, definition=definition)
        return log

    def own(self, run: str) -> tuple[Journal, int]:
        """Own a run that exists."""
        log = self._logs[run] = self._file.open_run(run)
        return log, log.epoch

    def find(self, run: str) -> str:
        """A run of the file."""
        with open_journal(self.path) as journal:
            return journal.find_run(run)

    def exists(self, run: str) -> bool:
        """True if the file has it."""
        try:
            return self.find(run) == run
        except CorruptJournalError:
            raise
        except JournalError:
            return False

    def records(self, run: str) -> Sequence[Record]:
        """The run's records."""
        with open_journal(self.path) as journal:
            return list(journal.records(run))

    def below(self, run: str) -> list[str]:
        """Runs of the file."""
        with open_journal(self.path) as journal:
            return [info.run for info in journal.runs() if info.run.startswith(f"{run}.")]

    def delete(self, runs: Sequence[str]) -> None:
        """Remove them from the file."""
        for run in runs:
            self.close(run)
        prune(self.path, runs)

    def close(self, run: str) -> None:
        """Close the run's log and give up its lock."""
        log = self._logs.pop(run, None)
        if log is not None:
            log.close()


def _only(run: str, known: list[str], where: str) -> str:
    """The one run that a prefix, or ``last``, means."""
    if run in known:
        return run
    # those of included flows are found by their whole ids, or below their parent's
    known = [name for name in known if "." in run or "." not in name]
    names = known if run == "last" else [name for name in known if name.startswith(run)]
    if not names or (len(names) > 1 and run != "last"):
        message = f"{run!r} means {', '.join(names) or 'no run'} of {where}; give one whole id"
        raise JournalError(message)
    return names[-1]


def store_of(given: Any, fsync: Fsync) -> Store:
    """A session's ``journal=``: None, a path, or a function that makes a Journal.

    Raises:
        OperationError: it is something else.
    """
    if given is None:
        return MemoryStore()
    if isinstance(given, str | os.PathLike):
        return FileStore(given, fsync)
    if callable(given):
        return MemoryStore(given)
    message = f"journal is {given!r}; give a path, None for memory, or a function that makes a Journal"
    raise OperationError(message)
