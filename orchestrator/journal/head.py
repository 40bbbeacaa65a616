"""The head file: how far a run's log is known to go, kept outside the log so that a lost tail is noticed.

Two slots of 512 bytes are written in turn, in place, after each durable batch: one torn by a crash leaves
the other. It may lag behind the log and never leads it, so it need not be synced; it is when a run opens,
suspends or ends.
"""

from __future__ import annotations

import os
import struct
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from orchestrator.errors import CorruptJournalError

__all__ = ["Head", "HeadFile", "head_path", "read_head"]

_SLOT: Final = 512
_MAGIC: Final = b"CBRDHEAD"
_FIELDS: Final = struct.Struct(">8sQQQ16sB")
_CHECK: Final = 16


class Head(NamedTuple):
    """What is known to be in a run's log.

    Attributes:
        seq: number of the last record. epoch: of the owner that wrote it. hash: of the last record.
        turn: counts the writes; the slot with the higher one is the newer.
    """

    seq: int
    epoch: int
    hash: bytes
    turn: int = 0


def head_path(journal: Path, run: str) -> Path:
    """Where the head of a run is."""
    return journal.with_name(f"{journal.name}.{run}.head")


def _packed(head: Head, run: str) -> bytes:
    name = run.encode()
    body = _FIELDS.pack(_MAGIC, head.turn, head.seq, head.epoch, head.hash, len(name)) + name
    return (body + sha256(body).digest()[:_CHECK]).ljust(_SLOT, b"\x00")


def _unpacked(slot: bytes, run: str) -> Head | None:
    if len(slot) < _SLOT or not slot.startswith(_MAGIC):
        return None
    _, turn, seq, epoch, digest, size = _FIELDS.unpack_from(slot)
    end = _FIELDS.size + size
    if end + _CHECK > _SLOT or sha256(slot[:end]).digest()[:_CHECK] != slot[end : end + _CHECK]:
        return None
    return Head(seq, epoch, digest, turn) if slot[_FIELDS.size : end] == run.encode() else None


def read_head(journal: Path, run: str) -> Head | None:
    """The newer valid slot; None if there is no file, or one that was never written to the end.

    Raises:
        CorruptJournalError: neither slot is valid.
    """
    path = head_path(journal, run)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < 2 * _SLOT or not any(data):
        # its very first write goes to the second slot
        return None
    slots = [_unpacked(data[at : at + _SLOT], run) for at in (0, _SLOT)]
    heads = [slot for slot in slots if slot is not None]
    if not heads:
        raise CorruptJournalError(
            f"{path} is damaged: what the log of run {run} must hold is unknown; see doctor"
        )
    return max(heads, key=lambda head: head.turn)


class HeadFile:
    """The writing side, for the run's owner."""

    __slots__ = ("_descriptor", "_head", "_path", "_run")

    def __init__(self, journal: Path, run: str, head: Head | None) -> None:
        """Open or create the file; nothing is written yet.

        Args:
            head: what :func:`read_head` found; None creates the file.
        """
        self._path = head_path(journal, run)
        self._run = run
        self._head = head or Head(0, 0, bytes(16))
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, seq: int, epoch: int, digest: bytes) -> None:
        """Say that the log goes up to record ``seq``. Call it only when they are durable."""
        turn = self._head.turn + 1
        self._head = Head(seq, epoch, digest, turn)
        written = os.pwrite(self._descriptor, _packed(self._head, self._run), turn % 2 * _SLOT)
        if written != _SLOT:
            raise OSError(f"{self._path}: wrote {written} of {_SLOT} bytes")

    def sync(self) -> None:
        """Make it survive a power cut."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
