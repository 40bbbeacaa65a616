"""Ways for a disk and a process to end badly: every system call that changes a file is a boundary.

A ``Storm`` sees each of them, those of SQLite through a layer of ours and those of the journal's own files
through ``os``; what it does there is up to its subclass.
"""

from __future__ import annotations

import errno
import os
import signal
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAYER = "storm"


class Storm:
    """Counts boundaries."""

    def __init__(self) -> None:
        self.count = 0

    def at(self, what: str, name: str, data: bytes = b"", offset: int = 0) -> None:
        """A call is about to happen: write, sync, truncate, delete or create of a file."""
        self.count += 1

    def partly(self, write: Callable[[bytes], object], data: bytes) -> None:
        """The write itself; may do less."""
        write(data)


class Kill(Storm):
    """SIGKILL at the nth boundary: before it, or with half of a write done."""

    def __init__(self, nth: int, *, torn: bool = False) -> None:
        super().__init__()
        self.nth = nth
        self.torn = torn

    def at(self, what: str, name: str, data: bytes = b"", offset: int = 0) -> None:
        super().at(what, name, data, offset)
        if self.count == self.nth and not (self.torn and what == "write"):
            os.kill(os.getpid(), signal.SIGKILL)

    def partly(self, write: Callable[[bytes], object], data: bytes) -> None:
        if self.count == self.nth:
            write(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(data)


class Fail(Storm):
    """The nth boundary fails, alone or with all that follow."""

    def __init__(self, nth: int, *, sticky: bool, full: bool = False) -> None:
        super().__init__()
        self.nth = nth
        self.sticky = sticky
        self.full = full
        self.hits = 0

    def at(self, what: str, name: str, data: bytes = b"", offset: int = 0) -> None:
        super().at(what, name, data, offset)
        if self.count == self.nth or (self.sticky and self.count > self.nth):
            if self.full and what not in {"write", "create"}:
                return
            self.hits += 1
            raise OSError(errno.ENOSPC if self.full else errno.EIO, "the disk is in a storm")


class _File(apsw.VFSFile):
    def __init__(self, storm: Storm, base: str, name: Any, flags: list[int]) -> None:
        self.storm = storm
        self.name = Path(name if isinstance(name, str) else name.filename()).name
        with sqlite_errors(apsw.CantOpenError):
            if flags[0] & apsw.SQLITE_OPEN_CREATE:
                storm.at("create", self.name)
        super().__init__(base, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        with sqlite_errors(apsw.IOError):
            self.storm.at("write", self.name, bytes(data), offset)
        write = super().xWrite
        self.storm.partly(lambda part: write(part, offset), bytes(data))

    def xTruncate(self, size: int) -> None:
        with sqlite_errors(apsw.IOError):
            self.storm.at("truncate", self.name, offset=size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        with sqlite_errors(apsw.IOError):
            self.storm.at("sync", self.name)
        super().xSync(flags)


class _Layer(apsw.VFS):
    def __init__(self, storm: Storm) -> None:
        self.storm = storm
        super().__init__(LAYER, "unix")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self.storm, "unix", name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with sqlite_errors(apsw.IOError):
            self.storm.at("delete", Path(filename).name)
        super().xDelete(filename, syncdir)


@contextmanager
def sqlite_errors(kind: type[apsw.Error]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise (apsw.FullError if error.errno == errno.ENOSPC else kind)(str(error)) from None


@contextmanager
def weather(storm: Storm) -> Iterator[Storm]:
    """Within it, files opened through ``vfs=LAYER`` and the journal's own go through the storm."""
    pwrite, fsync = os.pwrite, os.fsync

    def named(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    def stormy_pwrite(descriptor: int, data: bytes, offset: int) -> int:
        storm.at("write", named(descriptor), bytes(data), offset)
        storm.partly(lambda part: pwrite(descriptor, part, offset), data)
        return len(data)

    def stormy_fsync(descriptor: int) -> None:
        storm.at("sync", named(descriptor))
        fsync(descriptor)

    layer = _Layer(storm)
    os.pwrite, os.fsync = stormy_pwrite, stormy_fsync
    try:
        yield storm
    finally:
        os.pwrite, os.fsync = pwrite, fsync
        layer.unregister()


def forked(work: Callable[[], None], storm: Storm) -> bool:
    """Run some work in a child under a storm. True if it was killed, False if it got through."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            with weather(storm):
                work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "the child raised; see its traceback"
    return False
