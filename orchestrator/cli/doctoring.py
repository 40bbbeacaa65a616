"""``callboard doctor``: is what is recorded whole, and does it keep every law? It writes only a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from orchestrator.cli.edge import clean, say, say_json
from orchestrator.cli.exits import IO_FAULT
from orchestrator.cli.journals import Place, place_of
from orchestrator.cli.opening import UsageError
from orchestrator.cli.options import DoctorOptions
from orchestrator.core.laws import check, check_facts
from orchestrator.core.records import Record
from orchestrator.errors import JournalError
from orchestrator.journal.checking import verify
from orchestrator.journal.copying import copy
from orchestrator.journal.reading import JournalReader, open_journal
from orchestrator.runtime.recorded import RecordedRun
from orchestrator.runtime.replaying import replay

__all__ = ["doctor"]

#: Faults of one run that are printed; the rest is counted.
_SHOWN: Final = 20


def doctor(options: DoctorOptions) -> int:
    """Check runs; returns 0 if all is well and 74 if anything is not.

    Raises:
        UsageError: there is no such journal or run. JournalError: it cannot be read at all, or copied.
    """
    place = place_of(options.journal)
    if place is None or not (place.path.exists() or place.path.with_name(f"{place.path.name}-wal").exists()):
        raise UsageError(f"there is no journal at {'none' if place is None else place.shown}")
    with open_journal(place.path) as reader:
        runs = [info.run for info in reader.runs()] if options.run is None else [_find(reader, options.run)]
        bad = sum(_look(reader, place, run, options) for run in runs)
    if not options.json:
        kind = "run" if len(runs) == 1 else "runs"
        say(f"{place.shown}: {len(runs):,} {kind} looked at, {bad:,} with faults")
    if options.copy is not None:
        bad += _copy(options, place, runs[0] if options.run is not None and runs else None)
    return IO_FAULT if bad else 0


def _find(reader: JournalReader, run: str) -> str:
    """The run that is meant, also one whose rows are gone."""
    try:
        return reader.find_run(run)
    except JournalError as error:
        if "log ends at" in str(error):
            raise
        raise UsageError(str(error)) from error


def _look(reader: JournalReader, place: Place, run: str, options: DoctorOptions) -> bool:
    """Print what is wrong with one run; True if anything is."""
    faults = list(verify(place.path, run))
    records, done = 0, ""
    if not faults:
        records, broken = _laws(reader, run)
        faults += broken
    if options.replay and not faults:
        count, found = replay(reader.records(run))
        done = f", {count:,} decided again"
        if found is not None:
            faults.append(f"deciding again differs: {found}")
    if options.json:
        told = {"v": 1, "run": run, "ok": not faults, "records": records, "faults": faults}
        say_json(msgspec.json.encode(told))
    elif faults:
        say(f"{run}: {len(faults):,} {'fault' if len(faults) == 1 else 'faults'}")
        say("\n".join(_listed(faults)))
    else:
        say(f"{run}: well: {records:,} records{done}")
    return bool(faults)


def _laws(reader: JournalReader, run: str) -> tuple[int, list[str]]:
    """How many records were read, and which laws they break."""
    folded, count = RecordedRun(run), 0

    def folding() -> Iterator[Record]:
        nonlocal count
        for record in reader.records(run):
            count += 1
            yield record
            folded.take(record)

    try:
        broken = [f"law: {line}" for line in check_facts(folding())]
    except JournalError as error:
        return count, [str(error)]
    except Exception as error:  # noqa: BLE001 (records that cannot be folded are a finding, not a crash)
        return count, [f"record {count} cannot be folded: {type(error).__name__}: {error}"]
    if count:
        broken += [f"law: {line}" for line in check(folded.state, folded=True)]
    return count, broken


def _listed(faults: list[str]) -> Iterator[str]:
    for fault in faults[:_SHOWN]:
        yield f"  {clean(fault)}"
    if len(faults) > _SHOWN:
        yield f"  and {len(faults) - _SHOWN:,} more"


def _copy(options: DoctorOptions, place: Place, run: str | None) -> bool:
    """Write the copy; True if it lacks something."""
    assert options.copy is not None
    lacks = copy(place.path, options.copy, run=run)
    if not options.json:
        say(f"copied {'the journal' if run is None else f'run {run}'} to {options.copy}")
        say("\n".join(_listed(list(lacks))))
    return bool(lacks)
