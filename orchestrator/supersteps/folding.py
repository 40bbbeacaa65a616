"""Folding a step's writes: one function for the boundary, for previews and for inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from orchestrator.core.fact_base import Failure
from orchestrator.core.supersteps.commands import Fault
from orchestrator.core.supersteps.facts import Patch
from orchestrator.core.supersteps.writes import (
    Written,
    behind,
    encode_writes,
    keys_of,
    only_write,
    written,
)
from orchestrator.runtime.values import settle
from orchestrator.supersteps.channels import Channel, Folded, LastValue, Pending
from orchestrator.supersteps.errors import InvalidUpdateError
from orchestrator.supersteps.words import Overwrite

__all__ = ["Fold", "fold", "folded", "previewed", "writes_of"]

#: task -> the JSON that it wrote, in the order of the step.
Writes = Sequence[tuple[str, bytes | None]]


class Fold(msgspec.Struct):
    """What the writes come to, or why they do not.

    Attributes:
        patches, values: for the command. faults: by task.
    """

    patches: list[Patch] = []
    values: list[bytes] = []
    faults: dict[str, Fault] = {}


def writes_of(channels: Mapping[str, Channel], update: object, where: str = "update") -> list[Written]:
    """The writes of an update, checked and encoded.

    Raises:
        InvalidUpdateError: it is no mapping, or names a key that the state does not have.
        NotExactError: a value is no JSON data; names the path.
    """
    if update is None:
        return []
    # a dict is known without asking an abstract class, which costs more than the rest
    if type(update) is not dict and not isinstance(update, Mapping):
        update = settle(update, where)[2]
    if type(update) is not dict and not isinstance(update, Mapping):
        kind = type(update).__name__
        raise InvalidUpdateError(f"{where} is {kind}; give a mapping of state keys, a Command, or None")
    made = []
    for key, value in update.items():
        if key not in channels:
            raise InvalidUpdateError(
                f"{where} names {key!r}, which is no state key; there are {', '.join(channels)}"
            )
        overwrite = isinstance(value, Overwrite)
        raw = settle(value.value if isinstance(value, Overwrite) else value, f"{where}.{key}")[0]
        made.append(Written(key, msgspec.Raw(raw), overwrite))
    return made


def fold(
    channels: Mapping[str, Channel], present: Mapping[str, bytes], writes: Writes, *, own: bool = True
) -> Fold:
    """Fold ``writes`` over ``present``.

    Args:
        own: the writes stand in their tasks' records, so a patch may refer to them; an input's do not.
    """
    if own and len(writes) == 1 and (patches := _plain(channels, present, *writes[0])) is not None:
        return Fold(patches, [], {})
    by_key: dict[str, list[Pending]] = {}
    for task, raw in writes:
        for one in written(raw):
            by_key.setdefault(one.key, []).append(Pending(task, bytes(one.value), one.overwrite))
    made = Fold([], [], {})
    for key, channel in channels.items():
        pending = by_key.pop(key, None)
        if pending is None:
            if own and channel.volatile and key in present:
                made.patches.append(Patch(key))
            continue
        try:
            change = channel.patch(key, present.get(key), pending)
            if change.append and len(pending) == 1:
                # what goes behind is what the task wrote, if it is that to the byte
                change = change._replace(task=pending[0].task)
            _patch(made, key, change, dict(writes) if own else {})
        except InvalidUpdateError as error:
            failure = Failure("InvalidUpdateError", str(error))
            made.faults.update(dict.fromkeys(error.tasks, Fault(key, failure)))
    for key, pending in by_key.items():
        failure = Failure("InvalidUpdateError", f"{key!r} is no state key any more")
        made.faults.update(dict.fromkeys([one.task for one in pending], Fault(key, failure)))
    return made


def _plain(
    channels: Mapping[str, Channel], present: Mapping[str, bytes], task: str, raw: bytes | None
) -> list[Patch] | None:
    """The patches of a lone task that set values aside: what most steps are; None if it is anything else."""
    if raw is None or raw[:1] != b"{":
        return None
    keys = keys_of(raw)
    patches = []
    for key, channel in channels.items():
        if key in keys:
            if type(channel) is not LastValue:
                return None
            patches.append(Patch(key, task=task))
        elif channel.volatile and key in present:
            return None
    return patches if len(patches) == len(keys) else None


def previewed(
    channels: Mapping[str, Channel], present: Mapping[str, bytes], task: str, writes: Sequence[Written]
) -> Mapping[str, bytes]:
    """The channels after one task's writes, as its own routing sees them."""
    if not writes:
        return present
    if len(writes) == 1 and type(channels[writes[0].key]) is LastValue:
        return {**present, writes[0].key: bytes(writes[0].value)}
    return folded(channels, present, [(task, encode_writes(writes))])


def _patch(made: Fold, key: str, change: Folded, tasks: Mapping[str, bytes | None]) -> None:
    if change.raw is None:
        made.patches.append(Patch(key))
        return
    if change.task in tasks and only_write(tasks[change.task], key) == change.raw:
        # it stands in the task's own record
        made.patches.append(Patch(key, append=change.append, task=change.task))
        return
    made.values.append(change.raw)
    made.patches.append(Patch(key, len(made.values) - 1, change.append))


def folded(
    channels: Mapping[str, Channel], present: Mapping[str, bytes], writes: Iterable[tuple[str, bytes | None]]
) -> dict[str, bytes]:
    """The channels after ``writes``, as a preview: what does not fit is left out."""
    state = dict(present)
    for task, raw in writes:
        made = fold(channels, state, [(task, raw)], own=False)
        for patch in made.patches:
            new = b"" if patch.value is None else made.values[patch.value]
            state[patch.key] = behind(state[patch.key], new) if patch.append else new
    return state
