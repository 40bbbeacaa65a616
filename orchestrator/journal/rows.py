"""Between a record and its row: one JSON payload, large parts beside it by content hash, a chained hash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from orchestrator.core.commands import Command, Controlled, Start
from orchestrator.core.facts import GraphPlanned
from orchestrator.core.records import Record, decode_record, encode_record
from orchestrator.core.spec import Plan
from orchestrator.errors import CorruptJournalError
from orchestrator.journal.limits import INLINE, held

__all__ = ["FIRST_LINK", "Row", "link", "pack", "unpack"]

#: What the first record of a run is chained to.
FIRST_LINK: Final = bytes(16)

_NULL: Final = Raw(b"null")
_NO_PLAN: Final = Plan()
_json = msgspec.json.Encoder()
_read_plan = msgspec.json.Decoder(Plan).decode
_read_refs = msgspec.json.Decoder(dict[str, str]).decode


class Row(NamedTuple):
    """One row of ``records``, in the order of its columns; ``row`` is given by the file.

    Attributes:
        seq, first, last: numbers of the record, of its first and of its last fact.
        command: kind of the command. node: whom it names. request: the control row that asked for it.
        payload: the record as JSON. blobs: JSON of place -> hash in hex of what stands in the blob table.
        hash: over the previous row's hash and all of the above.
    """

    run: str
    seq: int
    first: int
    last: int
    epoch: int
    command: str
    node: str | None
    cause: int
    request: int | None
    wall: int
    payload: bytes
    blobs: str | None
    hash: bytes


def link(previous: bytes, row: Row) -> bytes:
    """The hash of a row: 16 bytes over the previous row's and this one's columns."""
    columns = _json.encode(row[:10] + row[11:12])
    return sha256(b"".join((previous, columns, row.payload))).digest()[:16]


def pack(run: str, epoch: int, record: Record, previous: bytes) -> tuple[Row, Mapping[str, Raw]]:
    """The row of a record, and what goes to the blob table (hash in hex -> JSON).

    Raises:
        JournalError: something is above its cap.
    """
    blobs: dict[str, Raw] = {}
    places: dict[str, str] = {}
    if type(record.command) is Start or GraphPlanned in map(type, record.facts):
        record = _without_plans(record, places, blobs)
    for value in record.values:
        if len(memoryview(value)) > INLINE:
            record = _without_values(record, places, blobs)
            break
    payload = encode_record(record)
    if len(payload) > INLINE:
        held("record", len(payload), f"run {run}, record {record.seq}")
    command = record.command
    row = Row(
        run,
        record.seq,
        record.first,
        record.last,
        epoch,
        type(command).__name__,
        getattr(command, "node", None),
        record.cause,
        _request_of(command),
        record.wall,
        payload,
        _json.encode(places).decode() if places else None,
        previous,
    )
    return Row(*row[:-1], link(previous, row)), blobs


def _request_of(command: Command) -> int | None:
    return command.request.control if isinstance(command, Controlled) else None


def _put(data: Raw, blobs: dict[str, Raw]) -> str:
    name = sha256(data).hexdigest()
    blobs[name] = data
    return name


def _without_plans(record: Record, places: dict[str, str], blobs: dict[str, Raw]) -> Record:
    """A plan is the same for every run of one flow, and stands in both command and fact."""
    put: dict[int, str] = {}

    def moved(plan: Plan, place: str) -> None:
        if id(plan) not in put:
            data = Raw(_json.encode(plan))
            held("plan", len(memoryview(data)), f"record {record.seq}")
            put[id(plan)] = _put(data, blobs)
        places[place] = put[id(plan)]

    command = record.command
    if type(command) is Start:
        moved(command.plan, "command")
        command = msgspec.structs.replace(command, plan=_NO_PLAN)
    facts = list(record.facts)
    for index, fact in enumerate(facts):
        if type(fact) is GraphPlanned:
            moved(fact.plan, f"facts/{index}")
            facts[index] = msgspec.structs.replace(fact, plan=_NO_PLAN)
    return msgspec.structs.replace(record, command=command, facts=facts)


def _without_values(record: Record, places: dict[str, str], blobs: dict[str, Raw]) -> Record:
    values = list(record.values)
    for index, value in enumerate(values):
        size = len(memoryview(value))
        if size > INLINE:
            held("value", size, f"record {record.seq}")
            places[f"values/{index}"] = _put(value, blobs)
            values[index] = _NULL
    return msgspec.structs.replace(record, values=values)


def unpack(row: Row, blob: Callable[[bytes], bytes | None]) -> Record:
    """The record of a row.

    Args:
        row: as it was read; its hash has been checked or is not to be.
        blob: what the blob table holds under a hash.

    Raises:
        CorruptJournalError: it cannot be decoded, or a blob is missing or is not what its hash says.
    """
    try:
        record = decode_record(row.payload)
        if row.blobs is not None:
            record = _restored(record, row, blob)
    except (msgspec.DecodeError, ValueError, LookupError, RecursionError) as error:
        raise CorruptJournalError(
            f"run {row.run}, record {row.seq} cannot be read: {error}; it may come from a newer version"
        ) from error
    return record


def _restored(record: Record, row: Row, blob: Callable[[bytes], bytes | None]) -> Record:
    command, facts, values = record.command, list(record.facts), list(record.values)
    read: dict[str, bytes] = {}
    plans: dict[str, Plan] = {}
    for place, name in _read_refs(row.blobs or "{}").items():
        if name not in read:
            data = blob(bytes.fromhex(name))
            if data is None or sha256(data).hexdigest() != name:
                what = "missing" if data is None else "not what its hash says"
                raise CorruptJournalError(f"run {row.run}, record {row.seq}: blob {name[:16]} is {what}")
            read[name] = data
        kind, _, index = place.partition("/")
        if kind == "values":
            values[int(index)] = Raw(read[name])
            continue
        plan = plans.setdefault(name, _NO_PLAN)
        if plan is _NO_PLAN:
            plan = plans[name] = _read_plan(read[name])
        if kind == "command":
            command = msgspec.structs.replace(command, plan=plan)
        else:
            facts[int(index)] = msgspec.structs.replace(facts[int(index)], plan=plan)
    return msgspec.structs.replace(record, command=command, facts=facts, values=values)
