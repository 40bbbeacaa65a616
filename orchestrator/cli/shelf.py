"""``callboard runs`` and ``runs prune``: what a journal holds, and what it holds no longer."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from orchestrator.cli.edge import clean, note, say, say_json
from orchestrator.cli.journals import reading
from orchestrator.cli.opening import UsageError
from orchestrator.cli.options import PruneOptions, RunsOptions
from orchestrator.core.status import RunReason
from orchestrator.errors import OrchestratorError
from orchestrator.flows.durations import seconds as read_duration
from orchestrator.journal.copying import prune as remove
from orchestrator.journal.reading import RunInfo
from orchestrator.runtime.recorded import LIVE, standing

__all__ = ["prune", "runs"]

_SECOND = 1_000_000_000


def runs(options: RunsOptions) -> int:
    """List runs, the newest last, with where each stands."""
    wanted = frozenset(options.status)
    known = (LIVE, *(str(reason) for reason in RunReason))
    for word in options.status:
        if word not in known:
            raise UsageError(f"no run stands at {word!r}; write one of {', '.join(known)}")
    with reading(options.journal) as (reader, place):
        found = [info for info in reader.runs() if not wanted or standing(info) in wanted]
    if options.json:
        for info in found:
            say_json(_json(info))
        return 0
    if not found:
        note(f"there is no such run in {place.shown}")
        return 0
    rows = [("run", "flow", "stands", "facts", "began (UTC)"), *map(_row, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    say("\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows))
    return 0


def _row(info: RunInfo) -> tuple[str, ...]:
    return info.run, clean(info.name), standing(info), f"{info.facts:,}", _time(info.created)


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / _SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _json(info: RunInfo) -> bytes:
    began = datetime.fromtimestamp(info.created / _SECOND, UTC).isoformat(timespec="milliseconds")
    told = {
        "v": 1, "run": info.run, "name": info.name, "standing": standing(info), "stopped": info.stopped,
        "live": info.live, "began": began, "fsync": info.fsync, "records": info.records, "facts": info.facts,
        "owners": info.epoch, "definition": info.definition,
        "parent": info.run.rpartition(".")[0],
    }  # fmt: skip
    return msgspec.json.encode(told)


def _old(every: Sequence[RunInfo], before: int) -> list[RunInfo]:
    """What has ended and is older; the run of an included flow goes with the run that includes it."""
    roots = {
        info.run
        for info in every
        if info.stopped == "ended" and not info.live and info.created < before and "." not in info.run
    }
    return [info for info in every if info.run.partition(".")[0] in roots and not info.live]


def prune(options: PruneOptions) -> int:
    """Remove what has ended and is older than an age; what can go on is kept.

    Raises:
        UsageError: the age cannot be read. JournalError: a run cannot be removed.
    """
    try:
        age = read_duration(options.older)
    except (OrchestratorError, ValueError) as error:
        raise UsageError(f"--older is {options.older!r}; write an age such as 30d, 12h or 90m") from error
    before = time.time_ns() - int(age * _SECOND)
    with reading(options.journal) as (reader, place):
        gone = _old(reader.runs(), before)
    if gone and not options.dry:
        remove(place.path, [info.run for info in gone])
    for info in gone:
        say(f"{'would go' if options.dry else 'removed':<9} {info.run}  {clean(info.name)}  {standing(info)}")
        if not options.dry:
            shutil.rmtree(place.folder / info.run, ignore_errors=True)
    say(f"{len(gone):,} {'run' if len(gone) == 1 else 'runs'}{' would go' if options.dry else ' removed'}")
    return 0
