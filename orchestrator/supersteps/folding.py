"""Folding a step's writes: one function for the boundary, for previews and for inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from orchestrator.core.fact_base import Failure
from orchestrator.core.supersteps.commands import Fault
from orchestrator.core.supersteps.facts import Patch
from orchestrator.core.supersteps.writes import Written, behind, only_write, written
from orchestrator.runtime.values import settle
from orchestrator.supersteps.channels import Channel, Folded, Pending
from orchestrator.supersteps.errors import InvalidUpdateError
from orchestrator.supersteps.words import Overwrite

__all__ = ["Fold", "fold", "folded", "writes_of"]

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
    if not isinstance(update, Mapping):
        update = settle(update, where)[2]
    if not isinstance(update, Mapping):
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
            _patch(made, key, channel.patch(key, present.get(key), pending), dict(writes) if own else {})
        except InvalidUpdateError as error:
            failure = Failure("InvalidUpdateError", str(error))
            made.faults.update(dict.fromkeys(error.tasks, Fault(key, failure)))
    for key, pending in by_key.items():
        failure = Failure("InvalidUpdateError", f"{key!r} is no state key any more")
        made.faults.update(dict.fromkeys([one.task for one in pending], Fault(key, failure)))
    return made


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
