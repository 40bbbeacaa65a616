"""A disk that loses power: what was not synced is kept, dropped or torn, sector by sector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.journal.storms import Storm

if TYPE_CHECKING:
    import random
    from pathlib import Path

SECTOR = 512


class Recorder(Storm):
    """Lets everything through and keeps it, with what the owner was told in between."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str, bytes, int]] = []

    def at(self, what: str, name: str, data: bytes = b"", offset: int = 0) -> None:
        super().at(what, name, data, offset)
        self.calls.append((what, name, data, offset))

    def told(self, count: int) -> None:
        """The owner was told that ``count`` records are durable."""
        self.calls.append(("told", "", b"", count))


class Disk:
    """The content of a folder as it may be found after the cut."""

    def __init__(self, base: dict[str, bytes], draw: random.Random) -> None:
        self.draw = draw
        self.files = {name: bytearray(data) for name, data in base.items()}
        self.pending: dict[str, list[tuple[str, bytes, int]]] = {}
        self.gone: set[str] = set()
        self.told = 0

    def play(self, calls: list[tuple[str, str, bytes, int]]) -> None:
        """Do some calls; only a sync makes them last."""
        for what, name, data, offset in calls:
            if what == "told":
                self.told = offset
            elif what == "sync":
                self._settle(name, 1.0)
            elif what == "delete":
                self._delete(name)
            elif what == "create":
                if name in self.gone:
                    self.gone.discard(name)
                    self.files[name] = bytearray()
                self.files.setdefault(name, bytearray())
            else:
                self.pending.setdefault(name, []).append((what, data, offset))

    def cut(self, folder: Path) -> None:
        """The power goes; write down what is left."""
        share = self.draw.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        for name in list(self.pending):
            self._settle(name, share)
        for name, data in self.files.items():
            (folder / name).write_bytes(data)

    def _delete(self, name: str) -> None:
        self.pending.pop(name, None)
        if self.draw.random() < 0.5:
            self.files.pop(name, None)
        else:
            self.gone.add(name)

    def _settle(self, name: str, share: float) -> None:
        file = self.files.setdefault(name, bytearray())
        for what, data, offset in self.pending.pop(name, []):
            if what == "truncate":
                if self.draw.random() < share:
                    del file[offset:]
                    file.extend(bytes(offset - len(file)))
                continue
            at = offset
            while at < offset + len(data):
                end = min((at // SECTOR + 1) * SECTOR, offset + len(data))
                if self.draw.random() < share:
                    file.extend(bytes(max(end - len(file), 0)))
                    file[at:end] = data[at - offset : end - offset]
                at = end
