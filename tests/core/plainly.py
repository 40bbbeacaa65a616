"""A state as plain data, so that two states can be compared and a difference read."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestrator.core.state import NodeState, RunState

#: What is no part of what is true: memos, and what lives only as long as the process.
#: `parked` and `sightings` are found again by trying; `refusals` and `unrecorded` count what is noise;
#: `waits_for_answers` is about the terminal, not about the run; `at` moves with commands that decide nothing.
TRANSIENT: dict[type, frozenset[str]] = {
    RunState: frozenset({"parked", "orders", "unrecorded", "waits_for_answers", "at"}),
    NodeState: frozenset({"sightings", "refusals", "view", "seen"}),
}


def plainly(thing: Any) -> Any:
    """Structs as dicts without what is transient; sequences as lists."""
    if isinstance(thing, msgspec.Struct):
        left_out = TRANSIENT.get(type(thing), frozenset())
        return {
            name: plainly(getattr(thing, name)) for name in thing.__struct_fields__ if name not in left_out
        }
    if isinstance(thing, dict):
        return {key: plainly(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [plainly(value) for value in thing]
    if isinstance(thing, msgspec.Raw):
        return bytes(thing)
    return thing
