"""Who drives a run: a lock of the operating system, which its kernel drops with the process.

A lock of ``fcntl`` belongs to the process, and closing *any* descriptor of its file drops it: inside one
process a table of held runs answers instead, before the file is touched.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from pathlib import Path
from typing import Final

from orchestrator.errors import RunOwnedError

__all__ = ["Ownership", "lock_path", "owned"]

_held: dict[tuple[int, int, str], int] = {}
_table = threading.Lock()
#: Tries before a refusal, and seconds between them.
_LOOKS: Final = 4
_PAUSE: Final = 0.01


def lock_path(journal: Path, run: str) -> Path:
    """Where the lock of a run is."""
    return journal.with_name(f"{journal.name}.{run}.lock")


def _key(journal: Path, run: str) -> tuple[int, int, str]:
    stat = journal.stat()
    return stat.st_dev, stat.st_ino, run


def owned(journal: Path, run: str) -> bool:
    """Whether a live process drives the run. Changes nothing."""
    with _table:
        if _held.get(_key(journal, run)) == os.getpid():
            return True
        try:
            descriptor = os.open(lock_path(journal, run), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False


class Ownership:
    """Held from creation to :meth:`release`, or to the end of the process."""

    __slots__ = ("_descriptor", "_key", "_path", "_pid")

    def __init__(self, journal: Path, run: str, *, take: bool = False) -> None:
        """Become the owner of a run.

        Args:
            take: put the present owner's lock aside. Only for an owner that is known to be stopped: what it
                appends when it goes on is refused, since the epoch has moved on.

        Raises:
            RunOwnedError: somebody else is; names its process and host.
        """
        self._path = lock_path(journal, run)
        self._key = _key(journal, run)
        self._pid = os.getpid()
        with _table:
            if _held.get(self._key) == self._pid and not take:
                raise RunOwnedError(
                    f"run {run} is already open in this process ({self._pid}); close that first"
                )
            if take:
                self._path.unlink(missing_ok=True)
            self._descriptor = self._locked(run)
            _held[self._key] = self._pid

    def _locked(self, run: str) -> int:
        refusals = 0
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = os.pread(descriptor, 256, 0).decode(errors="replace").split()
                os.close(descriptor)
                refusals += 1
                if refusals < _LOOKS:
                    # somebody may only have looked whether the run is owned
                    time.sleep(_PAUSE)
                    continue
                pid, host = (*owner, "unknown", "unknown")[:2]
                raise RunOwnedError(
                    f"run {run} is driven by process {pid} on {host}; wait for it, or stop it and resume"
                ) from None
            if self._is_current(descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{self._pid} {socket.gethostname()}\n".encode(), 0)
                return descriptor
            # its last owner removed the file between our opening and our locking
            os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(descriptor)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def release(self) -> None:
        """Let others own the run; the second call does nothing."""
        if self._descriptor < 0 or self._pid != os.getpid():
            return
        with _table:
            if self._is_current(self._descriptor):
                self._path.unlink(missing_ok=True)
                _held.pop(self._key, None)
            os.close(self._descriptor)
            self._descriptor = -1
