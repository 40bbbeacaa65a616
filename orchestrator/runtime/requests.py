"""Requests of other processes, from rows of the journal's control table to commands of the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from orchestrator.core import commands as c
from orchestrator.errors import OrchestratorError
from orchestrator.runtime.changes import Inject
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.values import encode

__all__ = ["KINDS", "Row", "requests_from"]


class Row(Protocol):
    """A row of the control table."""

    @property
    def id(self) -> int:
        """Its number in the file."""

    @property
    def kind(self) -> str:
        """What is asked."""

    @property
    def payload(self) -> msgspec.Raw:
        """Its parts as a JSON object."""


Payload = Mapping[str, Any]


def _cancel(payload: Payload, _values: list[bytes]) -> c.Command:
    return c.Cancel(payload.get("node"), str(payload.get("reason", "cancelled by request")))


def _steer(payload: Payload, _values: list[bytes]) -> c.Command:
    return c.Steer(str(payload["text"]), str(payload.get("time") or utc_now()), payload.get("node"))


def _answer(payload: Payload, values: list[bytes]) -> c.Command:
    values.append(encode(payload["value"], "answer"))
    who, why = str(payload.get("by", "")), str(payload.get("because", ""))
    return c.Answer(str(payload["node"]), payload.get("key"), len(values) - 1, who, why)


def _inject(payload: Payload, _values: list[bytes]) -> c.Command:
    change = Inject(
        str(payload["role"]),
        payload.get("name"),
        str(payload.get("instruction", "")),
        payload.get("parameters"),
        tuple(payload.get("after", ())),
        tuple(payload.get("before", ())),
        key=payload.get("key"),
    )
    return c.Inject(change.proposal())


def _raise(payload: Payload, _values: list[bytes]) -> c.Command:
    return c.RaiseBudget(str(payload["name"]), float(payload["limit"]))


#: What may be asked, with the reader of each.
KINDS: Mapping[str, Callable[[Payload, list[bytes]], c.Command]] = {
    "pause": lambda _payload, _values: c.Pause(),
    "resume": lambda _payload, _values: c.Unpause(),
    "drain": lambda _payload, _values: c.Drain(),
    "cancel": _cancel,
    "steer": _steer,
    "answer": _answer,
    "inject": _inject,
    "budget": _raise,
}

_FAULTS = (KeyError, TypeError, ValueError, AttributeError, msgspec.MsgspecError, OrchestratorError)


def requests_from(rows: Sequence[Row], values: list[bytes]) -> tuple[c.ControlIn, ...]:
    """Commands for the core, in the order of the rows; what cannot be read is refused there by name.

    Args:
        rows: of the control table. values: the command's values; answers add theirs.
    """
    return tuple(_request(row, values) for row in rows)


def _request(row: Row, values: list[bytes]) -> c.ControlIn:
    reader = KINDS.get(row.kind)
    if reader is None:
        return c.ControlIn(row.id, fault=f"no request is called {row.kind!r}; there are {', '.join(KINDS)}")
    try:
        command = reader(msgspec.json.decode(row.payload), values)
        raw = msgspec.json.encode(command)
        # what the core could not read again would halt the run: a node that is a number, an infinite limit
        msgspec.json.decode(raw, type=type(command))
    except _FAULTS as error:
        return c.ControlIn(row.id, fault=f"{row.kind}: {type(error).__name__}: {error}"[:500])
    return c.ControlIn(row.id, msgspec.Raw(raw))
