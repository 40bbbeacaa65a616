"""Opening the file: private, in write-ahead mode, refused if it is not ours or cannot be kept safe."""

from __future__ import annotations

import errno
import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from orchestrator.errors import CorruptJournalError, IncompatibleJournalError, JournalError
from orchestrator.journal.schema import SCHEMA, STAMP, check_stamp

__all__ = [
    "NetworkFilesystemWarning",
    "create",
    "faults",
    "filesystem_of",
    "read_only",
    "sqlite_fault",
    "sync_folder",
    "writable",
]

_READING: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_MAGIC: Final = b"SQLite format 3\x00"
#: Bytes of an SQLite file's header, and where ``user_version`` and ``application_id`` are in it.
_HEADER: Final = 100
_VERSION: Final = slice(60, 64)
_STAMPED: Final = slice(68, 72)
#: Milliseconds to wait for another process's transaction.
BUSY: Final = 10_000
#: Bytes to which the write-ahead file is cut when a checkpoint has emptied it.
_AHEAD: Final = 16 * 1024 * 1024
#: SQLite that can lose committed pages when two connections write and checkpoint at once.
_FAULTY: Final = ((3, 7, 0), (3, 51, 2))
_NETWORK: Final = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|glusterfs|lustre|beegfs|fuse\.(sshfs|s3fs|rclone)"
)
_creating = threading.Lock()
_IGNORE: Final = "# what runs leave here is not part of the project\n*\n"


class NetworkFilesystemWarning(UserWarning):
    """Shown when a journal lies on a filesystem whose locks and shared memory cannot be trusted."""


def sqlite_fault(version: str) -> str | None:
    """Say why an SQLite library must not keep a journal, or None.

    Args:
        version: as ``apsw.sqlite_lib_version()`` gives it.
    """
    parts = tuple(int(part) for part in version.split(".")[:3])
    if _FAULTY[0] <= parts <= _FAULTY[1]:
        return f"SQLite {version} can lose committed data (fixed in 3.51.3): pip install -U apsw"
    return None


def filesystem_of(path: Path, mounts: str) -> str:
    """The type of the filesystem that a path is on, from the text of ``/proc/self/mountinfo``."""
    best, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ") if before else ""
        if point and path.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind


@contextmanager
def faults(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system raise into the project's errors, naming the file.

    Raises:
        CorruptJournalError: the file's pages are damaged. JournalError: everything else.
    """
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise CorruptJournalError(f"{path} is damaged: {error}; see doctor") from error
    except apsw.FullError as error:
        raise JournalError(f"{path}: the disk is full; free some space and resume") from error
    except apsw.BusyError as error:
        raise JournalError(f"{path} is locked by another program for more than {BUSY // 1000} s") from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise JournalError(
            f"{path} cannot be opened or written: {error}; check the folder's permissions"
        ) from error
    except apsw.Error as error:
        raise JournalError(f"{path}: {type(error).__name__}: {error}") from error
    except OSError as error:
        hint = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise JournalError(f"{path}: {hint}") from error


def _prepare(path: Path) -> None:
    if (fault := sqlite_fault(apsw.sqlite_lib_version())) is not None:
        raise JournalError(fault)
    folder = path.parent
    if not folder.exists() and folder.name == ".callboard":
        folder.mkdir(mode=0o700, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text(_IGNORE, encoding="utf-8")
    if not folder.is_dir():
        raise JournalError(f"{folder} is no folder: a journal makes none but .callboard; create it")
    if path.is_dir():
        raise JournalError(f"{path} is a folder; name a file in it, such as {path / 'journal.db'}")


def _warn_of_network(path: Path) -> None:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    kind = filesystem_of(path, mounts)
    if _NETWORK.fullmatch(kind):
        message = f"{path} is on {kind}: two machines must not use it at once; keep journals on a local disk"
        warnings.warn(message, NetworkFilesystemWarning, stacklevel=4)


def _is_there(path: Path, vfs: str | None) -> bool:
    """Whether there is a journal of ours at ``path``; False if there is nothing.

    Never with ``open``: closing a descriptor would drop the locks of our connections; SQLite's layer waits.

    Raises:
        IncompatibleJournalError: another program's file, or a newer version's.
        CorruptJournalError: cut, or empty or missing where its write-ahead file is not.
    """
    if not path.exists() or not path.stat().st_size:
        ahead = path.with_name(f"{path.name}-wal")
        if ahead.exists() and ahead.stat().st_size:
            raise CorruptJournalError(f"{path} is empty or missing beside its write-ahead file; restore both")
        if path.exists():
            raise IncompatibleJournalError(f"{path} is an empty file and no journal; remove it")
        return False
    head = _first_bytes(path, vfs)
    if not head.startswith(_MAGIC):
        raise IncompatibleJournalError(f"{path} is not a journal (no SQLite file); it was left as it is")
    if len(head) < _HEADER:
        raise CorruptJournalError(f"{path} is cut to {len(head)} bytes; restore it from a copy")
    check_stamp(path, int.from_bytes(head[_STAMPED]), int.from_bytes(head[_VERSION]))
    return True


def _first_bytes(path: Path, vfs: str | None) -> bytes:
    """The file's header, as it is: no lock, no write-ahead file, no look at its pages."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile(vfs or "", str(path), flags)
    try:
        return file.xRead(min(_HEADER, path.stat().st_size), 0)
    finally:
        file.xClose()


def create(path: Path, vfs: str | None = None) -> None:
    """Make sure that there is a journal at ``path``; one that exists stays as it is.

    Raises:
        IncompatibleJournalError, CorruptJournalError, JournalError: it cannot be used; it was not touched.
    """
    with faults(path), _creating:
        _prepare(path)
        _warn_of_network(path)
        if _is_there(path, vfs):
            return
        # made aside and linked: whoever looks finds all of it or nothing
        aside = path.with_name(f"{path.name}.{os.getpid()}.new")
        aside.unlink(missing_ok=True)
        try:
            _make(aside, vfs)
            with suppress(FileExistsError):
                os.link(aside, path)
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(path)


def _make(path: Path, vfs: str | None) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        connection.execute("PRAGMA synchronous=FULL; BEGIN EXCLUSIVE")
        connection.execute(SCHEMA + STAMP)
        connection.execute("COMMIT; PRAGMA journal_mode=WAL")
    finally:
        connection.close()


def sync_folder(path: Path) -> None:
    """Make the name of a new file survive a power cut."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _settle(connection: apsw.Connection, path: Path) -> None:
    connection.set_busy_timeout(BUSY)
    connection.execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON")
    check_stamp(path, connection.pragma("application_id"), connection.pragma("user_version"))


def _write_ahead(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("journal_mode", "wal") != "wal":
        raise JournalError(f"{path}: its filesystem has no shared memory for write-ahead mode; move it")


def writable(path: Path, *, power_safe: bool, vfs: str | None = None) -> apsw.Connection:
    """A connection that appends to an existing journal.

    Args:
        power_safe: sync each commit; else only checkpoints are, which survives the end of the process and
            keeps the file whole in a power cut.

    Raises:
        IncompatibleJournalError, CorruptJournalError, JournalError: it cannot be used; it was not touched.
    """
    with faults(path):
        if not _is_there(path, vfs):
            raise JournalError(f"there is no journal at {path}")
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        try:
            _settle(connection, path)
            _write_ahead(connection, path)
            level = "FULL" if power_safe else "NORMAL"
            connection.execute(
                f"PRAGMA synchronous={level}; PRAGMA fullfsync=ON; PRAGMA checkpoint_fullfsync=ON;"
                f"PRAGMA journal_size_limit={_AHEAD}"
            )
        except BaseException:
            connection.close()
            raise
        return connection


def read_only(path: Path, vfs: str | None = None) -> apsw.Connection:
    """A connection that never writes and never blocks the writer.

    Raises:
        IncompatibleJournalError, CorruptJournalError, JournalError: it cannot be read.
    """
    with faults(path):
        if not _is_there(path, vfs):
            raise JournalError(f"there is no journal at {path}")
        try:
            return _reading(path, "mode=ro", vfs)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # a read-only folder: without a write-ahead file nothing can be missing, so read the file alone
            ahead = path.with_name(f"{path.name}-wal")
            if ahead.exists() and ahead.stat().st_size:
                raise
            return _reading(path, "immutable=1", vfs)


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{mode}"


def _reading(path: Path, mode: str, vfs: str | None) -> apsw.Connection:
    connection = apsw.Connection(_uri(path, mode), flags=_READING, vfs=vfs)
    try:
        _settle(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection
