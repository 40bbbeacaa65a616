"""Making and opening the file: private, stamped, once; what cannot be kept safe is refused or warned of."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import apsw
import pytest

from orchestrator.errors import JournalError
from orchestrator.journal import connecting
from orchestrator.journal.connecting import NetworkFilesystemWarning, filesystem_of, sqlite_fault
from orchestrator.journal.files import JournalFile
from orchestrator.journal.reading import open_journal
from orchestrator.journal.schema import APPLICATION_ID, FORMAT
from tests.journal.samples import appended, run_of


def test_a_folder_of_its_own(tmp_path: Path):
    """journal.md: `.callboard/` is made with its own .gitignore; everything in it is private."""
    path = tmp_path / ".callboard" / "journal.db"
    with JournalFile.open(path) as journal:
        appended(journal.create_run("a"), run_of(3))
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    names = {"journal.db", "journal.db-wal", "journal.db-shm", "journal.db.a.head", "journal.db.a.lock"}
    assert {name: modes.pop(name) for name in names} == dict.fromkeys(names, 0o600)
    assert list(modes) == [".gitignore"]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (path.parent / ".gitignore").read_text().splitlines()[-1] == "*"
    assert sorted(one.name for one in path.parent.iterdir()) == [
        ".gitignore",
        "journal.db",
        "journal.db.a.head",
    ]


def test_no_other_folder_is_made(tmp_path: Path):
    """journal.md: a typing error does not grow a tree."""
    with pytest.raises(JournalError, match="create it"):
        JournalFile.open(tmp_path / "runs" / "j.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_journal(tmp_path: Path):
    """The advice names a file, not SQLite's word for the fault."""
    with pytest.raises(JournalError, match="is a folder; name a file in it"):
        JournalFile.open(tmp_path)


def test_the_stamp(tmp_path: Path):
    """journal.md: any program sees whose file it is and which layout."""
    with JournalFile.open(tmp_path / "j.db"):
        pass
    header = (tmp_path / "j.db").read_bytes()[:100]
    assert int.from_bytes(header[68:72]) == APPLICATION_ID
    assert header[68:72] == b"Cbrd"
    assert int.from_bytes(header[60:64]) == FORMAT


def test_opening_does_not_drop_our_locks(tmp_path: Path):
    """engine.md 26: closing any descriptor of the file would; a second opener in the process must not."""
    path = tmp_path / "j.db"
    with JournalFile.open(path, fsync="never") as journal:
        log = journal.create_run("a")
        inode = path.stat().st_ino

        def locks() -> int:
            return Path("/proc/locks").read_text().count(f":{inode} ")

        before = locks()
        assert before
        JournalFile.open(path).close()
        open_journal(path).close()
        assert locks() == before
        appended(log, run_of(2))


def test_many_make_it_at_once(tmp_path: Path):
    """RESUME 74: eight threads, one file; each finds all of it."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(8)

    def make(number: int) -> None:
        try:
            barrier.wait()
            with JournalFile.open(tmp_path / "j.db", fsync="never") as journal:
                appended(journal.create_run(f"r{number}"), run_of(5))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_journal(tmp_path / "j.db") as reader:
        assert len(reader.runs()) == 8
        assert len(list(reader.facts())) == 8 * run_of(5)[-1].last
    assert not list(tmp_path.glob("*.new"))


def test_settings(tmp_path: Path):
    """journal.md: fsync is stored with the run; who opens it later does not change it."""
    path = tmp_path / "j.db"
    with JournalFile.open(path, fsync="never") as journal:
        journal.create_run("a")
    with JournalFile.open(path, fsync="always") as journal:
        assert journal.create_run("b")._connection.pragma("synchronous") == 2
        assert journal.open_run("a")._connection.pragma("synchronous") == 1
        assert journal.open_run("a", take=True)._connection.pragma("journal_mode") == "wal"
    with JournalFile.open(path, fsync="never") as journal:
        assert journal.open_run("b")._connection.pragma("synchronous") == 2


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.45.3", "3.51.2"])
def test_sqlite_that_loses_pages(version: str, tmp_path: Path, monkeypatch):
    """journal.md: 3.7.0-3.51.2 is refused, with what to do."""
    assert "fixed in 3.51.3" in sqlite_fault(version)
    monkeypatch.setattr(connecting.apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(JournalError, match="pip install -U apsw"):
        JournalFile.open(tmp_path / "j.db")


def test_sqlite_that_does_not():
    """journal.md: the one that is installed, among others."""
    for version in ("3.51.3", "3.54.1", "3.6.23", "4.0.0", apsw.sqlite_lib_version()):
        assert sqlite_fault(version) is None


MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:27 / /mnt/team rw shared:2 - nfs4 server:/team rw
31 30 0:28 / /mnt/team/local\\040disk rw - xfs /dev/vdb rw
"""


def test_network_filesystems(tmp_path: Path, monkeypatch):
    """journal.md: a warning that names the kind; the longest mount point counts."""
    assert filesystem_of(Path("/data/j.db"), MOUNTS) == "ext4"
    assert filesystem_of(Path("/mnt/team/j.db"), MOUNTS) == "nfs4"
    assert filesystem_of(Path("/mnt/team/local disk/j.db"), MOUNTS) == "xfs"
    assert filesystem_of(Path("/mnt/teams/j.db"), MOUNTS) == "ext4"
    monkeypatch.setattr(connecting, "filesystem_of", lambda *_: "nfs4")
    with pytest.warns(NetworkFilesystemWarning, match="is on nfs4"):
        JournalFile.open(tmp_path / "j.db").close()
