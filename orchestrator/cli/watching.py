"""``callboard watch``: events of runs that any process drives, as they become durable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event
from typing import Final

import msgspec

from orchestrator.cli.edge import clean, clean_json, clean_lines, write
from orchestrator.cli.exits import INTERRUPTED
from orchestrator.cli.journals import Place, find, reading
from orchestrator.cli.opening import UsageError
from orchestrator.cli.options import WatchOptions
from orchestrator.cli.summary import Told, summary
from orchestrator.cli.views import LINES, line_of, plain_line
from orchestrator.core.facts import FACTS
from orchestrator.journal.owning import owned
from orchestrator.journal.reading import POLL, FactRow, JournalReader
from orchestrator.runtime.envelopes import FactEnvelope
from orchestrator.runtime.recorded import RecordedRun

__all__ = ["watch"]

_STOPS: Final = ("RunEnded", "RunSuspended")
#: Looks at the file between two looks at the owner's lock.
_SELDOM: Final = 10


def watch(options: WatchOptions) -> int:
    """Show events until the run stops, nobody reads them, or somebody presses Ctrl-C.

    Raises:
        UsageError: no such run or kind. JournalError: the journal cannot be read.
    """
    known = {kind.__name__ for kind in FACTS}
    for kind in options.kinds:
        if kind not in known:
            raise UsageError(f"there is no event {kind!r}; `callboard events` lists them")
    with reading(options.journal) as (reader, place):
        run = None if options.everything else find(reader, options.run or "last")
        watcher = _Watcher(reader, place, options, run)
        try:
            watcher.follow()
        except KeyboardInterrupt:
            return INTERRUPTED
    return 0


class _Watcher:
    """Reads on from a place in the file; keeps what lines are told of."""

    def __init__(self, reader: JournalReader, place: Place, options: WatchOptions, run: str | None) -> None:
        self._reader, self._place, self._options, self._run = reader, place, options, run
        self._runs: dict[str, RecordedRun] = {}
        since = options.since
        self._row = since if run is None else reader.row_at(run, since) if since else 0
        #: seq of the last fact that is not wanted, where the log does not reach so far yet
        self._since = since if run is not None and not self._row else 0
        self._stopped = False

    def follow(self) -> None:
        """Show what there is and what comes."""
        idle, looks = Event(), 0
        while True:
            # before the log is read: whoever is gone by now has written all that it ever will
            alive = self._run is None or looks % _SELDOM or owned(self._reader.path, self._run)
            read = True
            for row in self._reader.facts(self._run, self._row):
                read = self._show(row)
                self._row = row.row
                looks = -1
                if not read:
                    return
            if not alive or not self._options.follow:
                break
            if self._stopped:
                looks = -1
            looks += 1
            idle.wait(POLL)
        if self._run is not None and not self._options.json and not self._options.kinds:
            self._close(self._run)

    def _close(self, run_id: str) -> None:
        """What the run came to, and the command that goes on."""
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = RecordedRun(run_id)
        run.take_all(self._reader.records(run_id, run.seq))
        run.live = owned(self._reader.path, run_id)
        if run.seq and not run.live:
            told = Told(run.seconds, self._place)
            write(sys.stdout, clean_lines("\n".join(summary(run.result(), told))) + "\n")

    def _show(self, row: FactRow) -> bool:
        """Write one fact; False if nobody reads any more."""
        run = self._folded(row)
        self._stopped = row.kind in _STOPS
        if row.seq <= self._since or (self._options.kinds and row.kind not in self._options.kinds):
            return True
        envelope = FactEnvelope(run, row.record, row.seq - row.record.first)
        if self._options.json:
            raw = msgspec.json.encode({**envelope.mapping(), "row": row.row})
            return write(sys.stdout, clean_json(raw) + b"\n")
        return all(write(sys.stdout, line + "\n") for line in self._lines(envelope, run))

    def _lines(self, envelope: FactEnvelope, run: RecordedRun) -> Iterator[str]:
        line = line_of(envelope, run) if envelope.kind in LINES else None
        if line is None and self._options.kinds:
            data = msgspec.json.encode(envelope.data).decode()
            line = plain_line(envelope.kind, envelope.node or envelope.run, data)
        if line is not None:
            yield line if self._run is not None else f"{clean(envelope.run)}  {line}"

    def _folded(self, row: FactRow) -> RecordedRun:
        """The run of a fact, folded up to the fact's record."""
        run = self._runs.get(row.run)
        if run is None:
            run = self._runs[row.run] = RecordedRun(row.run)
        if run.seq < row.record.seq - 1:
            run.take_all(self._reader.records(row.run, run.seq, row.record.seq - 1))
        if run.seq < row.record.seq:
            run.take(row.record)
        return run
