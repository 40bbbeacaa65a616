"""Records to keep: a plausible run, and one instance of everything that a record can hold."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw
from msgspec import inspect as layout

from orchestrator.core.commands import Finish, Start
from orchestrator.core.facts import (
    GraphPlanned,
    NodeCompleted,
    NodeReady,
    NodeStarted,
    RunEnded,
    RunStarted,
    RunSuspended,
)
from orchestrator.core.records import Record
from orchestrator.core.spec import Edge, Operation, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.journal.runlog import RunLog

PLAN = Plan(
    name="canonical",
    operations=tuple(Operation(name=f"n{i}", parameters=Raw(b'{"a":[1,"\xc3\xbc"]}')) for i in range(4)),
    edges=tuple(Edge(source=f"n{i}", target=f"n{i + 1}") for i in range(3)),
)


def run_of(count: int, *, value: bytes = b"null", stop: str = "") -> list[Record]:
    """``count`` records: a start, then settled nodes; the last one stops the run if ``stop`` says how."""
    records = [
        Record(1, 1, 5, Start("r", PLAN), [RunStarted("r", "f"), GraphPlanned(PLAN), NodeStarted("n1", 1)])
    ]
    for seq in range(2, count + 1):
        first = records[-1].last + 1
        facts: list[Any] = [NodeCompleted(f"n{seq - 1}", 1, 0)]
        if seq < count or not stop:
            facts += [NodeReady(f"n{seq}"), NodeStarted(f"n{seq}", 1)]
        elif stop == "suspended":
            facts.append(RunSuspended("drained", {"x": "slot"}))
        else:
            facts.append(RunEnded("completed"))
        command = Finish(f"n{seq - 1}", 1, "completed", 0)
        records.append(Record(seq, first, seq * 1000, command, facts, [Raw(value)], first - 1, 10**18 + seq))
    return records


def appended(log: RunLog, records: Sequence[Record], size: int = 1) -> None:
    """Append in batches and insist on each acknowledgement."""
    errors: list[BaseException | None] = []
    for at in range(0, len(records), size):
        log.submit(records[at : at + size], errors.append)
        log.flush()
    for error in errors:
        if error is not None:
            raise error
    assert len(errors) == -(-len(records) // size)


def instance(kind: type[msgspec.Struct], salt: int = 0) -> Any:
    """An instance of a struct with every field set, to something that is not its default."""
    return _made(layout.type_info(kind), salt)


def _made(info: layout.Type, salt: int) -> Any:
    match info:
        case layout.StructType(cls=cls, fields=fields):
            values = {field.name: _made(field.type, salt + n) for n, field in enumerate(fields)}
            return cls(**values)
        case layout.UnionType(types=types):
            real = [one for one in types if not isinstance(one, layout.NoneType)]
            return _made(real[salt % len(real)], salt)
        case layout.EnumType(cls=cls):
            members = list(cls)
            return members[salt % len(members)] if issubclass(cls, enum.Enum) else None
        case layout.VarTupleType(item_type=item):
            return (_made(item, salt), _made(item, salt + 1))
        case layout.ListType(item_type=item):
            return [_made(item, salt), _made(item, salt + 1)]
        case layout.DictType(key_type=key, value_type=value):
            return {_made(key, salt): _made(value, salt), _made(key, salt + 1): _made(value, salt + 1)}
        case layout.BoolType():
            return True
        case layout.IntType():
            return 2**53 + 1 + salt
        case layout.FloatType():
            return 0.1 + salt
        case layout.StrType():
            return f'text {salt} \u00fc \U0001f600 \x00 " \\ __type__'
        case layout.RawType():
            return Raw(b'{"k":[1,2.5,"\\u0000"]}')
        case _:
            raise AssertionError(f"no sample for {info}")
