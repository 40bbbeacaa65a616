"""What a child gives the graph that called it: the writes that it made, and Commands for its parent.

Both are read from the child's records since its input, so a call that was cut off comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from orchestrator.core import facts as f
from orchestrator.core.commands import Usage
from orchestrator.core.records import Record
from orchestrator.core.supersteps.children import PARENT
from orchestrator.core.supersteps.facts import Route
from orchestrator.core.supersteps.writes import Written, written
from orchestrator.runtime.values import settle
from orchestrator.supersteps.channels import Channel
from orchestrator.supersteps.folding import writes_of
from orchestrator.supersteps.routing import Routing, routes_of
from orchestrator.supersteps.words import Command, Overwrite, Send

__all__ = ["Given", "commands_of", "given_by", "leave_for_parent"]

#: Of channels that take one write in a step the parent gets what the child ended with.
_SINGLE = frozenset({"last_value", "ephemeral", "untracked"})


class Given(msgspec.Struct):
    """What a child's records since its input hold.

    Attributes:
        writes: of its tasks, in order, as far as their steps are complete. leaves: Commands for the parent.
        usage: what its model calls cost.
    """

    writes: list[Written] = []
    leaves: list[bytes] = []
    usage: Usage = Usage()


class _Anything(Mapping[str, Any]):
    """The parent's nodes and keys, of which the child knows nothing: every name may be one."""

    def __contains__(self, _key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


def leave_for_parent(routing: Routing, command: Command, where: str) -> None:
    """Route a task to the graph that called this one, with what it says there.

    Raises:
        InvalidUpdateError, NotExactError: what it says is no data.
    """
    also, goto = Routing([], [], set()), Routing([], [], set())
    routes_of(also, command.also, _Anything(), f"{where}.also")
    routes_of(goto, command.goto, _Anything(), f"{where}.goto")
    said = {
        "update": writes_of(_Anything(), command.update, where),
        "also": _named(also),
        "goto": _named(goto),
    }
    routing.values.append(settle(msgspec.to_builtins(msgspec.json.decode(msgspec.json.encode(said))))[0])
    routing.routes.append(Route(PARENT, len(routing.values) - 1))


def _named(routing: Routing) -> list[tuple[str, bool, Any, str | None]]:
    return [
        (one.to, one.send, None if one.value is None else msgspec.Raw(routing.values[one.value]), one.key)
        for one in routing.routes
    ]


def _command(raw: bytes) -> Command:
    """What :func:`leave_for_parent` was told."""
    said = msgspec.json.decode(raw)
    update = {key: Overwrite(value) if overwrite else value for key, value, overwrite in said["update"]}
    also, goto = (
        [Send(to, arg, key=key) if send else to for to, send, arg, key in said[name]]
        for name in ("also", "goto")
    )
    return Command(update=update, also=also, goto=goto)


def given_by(records: Iterable[Record]) -> Given:
    """What these records of a child hold; they begin with the one of its input."""
    given = Given([], [], Usage())
    values: dict[str, bytes | None] = {}
    leaves: dict[str, list[bytes]] = {}
    active: tuple[str, ...] = ()
    for record in records:
        for fact in record.facts:
            match fact:
                case f.StepStarted(active=tasks, resumed=False):
                    active = tasks
                case f.NodeCompleted():
                    values[fact.node] = None if fact.value is None else bytes(record.values[fact.value])
                case f.RouteSelected():
                    found = [bytes(record.values[one.value or 0]) for one in fact.routes if one.to == PARENT]
                    leaves[fact.node] = found
                case f.WriteResolved():
                    values[fact.node] = None if fact.value is None else bytes(record.values[fact.value])
                case f.UsageRecorded():
                    given.usage = _sum(given.usage, fact)
                case f.StepCompleted():
                    for task in active:
                        given.writes += written(values.get(task))
                        given.leaves += leaves.get(task, ())
                    values, leaves, active = {}, {}, ()
                case _:
                    pass
    return given


def _sum(usage: Usage, fact: f.UsageRecorded) -> Usage:
    cost = None if usage.cost_usd is fact.cost_usd is None else (usage.cost_usd or 0) + (fact.cost_usd or 0)
    return Usage(
        usage.requests + fact.requests,
        usage.input_tokens + fact.input_tokens,
        usage.output_tokens + fact.output_tokens,
        cost,
    )


def commands_of(
    given: Given, own: Mapping[str, Channel], above: Mapping[str, Channel], ended: Mapping[str, bytes]
) -> list[Command]:
    """What the parent's task gives: the child's writes to keys that both have, then what left for the parent.

    Args:
        own, above: channels of the child and of its parent. ended: the child's channels as they stand now.
    """
    made: list[Command] = []
    for one in given.writes:
        if one.key in above and own[one.key].kind not in _SINGLE and above[one.key].kind not in _SINGLE:
            value = msgspec.json.decode(one.value)
            made.append(Command(update={one.key: Overwrite(value) if one.overwrite else value}))
    single: dict[str, Any] = {}
    for key in dict.fromkeys(one.key for one in given.writes):
        if key in above and key in ended and _SINGLE & {own[key].kind, above[key].kind}:
            single[key] = msgspec.json.decode(ended[key])
    return [*([Command(update=single)] if single else ()), *made, *map(_command, given.leaves)]
