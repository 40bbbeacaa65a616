"""Context writes of one turn: ``turn.write``, a returned ``context`` mapping, a node's ``writes`` key."""

from __future__ import annotations

from typing import Any

from orchestrator.core.commands import WriteIn
from orchestrator.core.context import merge
from orchestrator.errors import ExecutionError
from orchestrator.runtime.values import encode

__all__ = ["Pending", "add", "gather", "leaves_of", "merged"]

#: (key, plain value, replace), in the order of writing
Pending = list[tuple[str, Any, bool]]
_LEAF_LIMIT = 10_000


def leaves_of(plain: object) -> tuple[str, ...]:
    """Paths of the leaves that a value sets, "" for a value that is no mapping."""
    found: list[str] = []
    stack: list[tuple[str, object]] = [("", plain)]
    while stack and len(found) < _LEAF_LIMIT:
        path, value = stack.pop()
        if isinstance(value, dict) and value:
            stack.extend((f"{path}/{_escaped(key)}", item) for key, item in value.items())
        else:
            found.append(path)
    return ("",) if stack else tuple(sorted(found))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def gather(
    pending: Pending | None, plain: object, writes: str | None, values: list[bytes]
) -> tuple[WriteIn, ...]:
    """All writes of a completed turn, in order; the core folds several of one key.

    Args:
        pending: what ``turn.write`` left. plain: the node's value. writes: key of the whole value.
        values: the command's values; each write adds its own.

    Raises:
        ExecutionError: ``context`` in the value is no mapping.
    """
    all_writes: Pending = list(pending or ())
    if isinstance(plain, dict) and "context" in plain:
        returned = plain["context"]
        if not isinstance(returned, dict):
            message = f"result.context is {type(returned).__name__}; it must be a mapping of context keys"
            raise ExecutionError(message)
        all_writes += [(key, value, False) for key, value in returned.items()]
    if writes is not None:
        all_writes.append((writes, plain, False))
    made = []
    for key, value, replace in all_writes:
        values.append(encode(value, key))
        made.append(WriteIn(key, len(values) - 1, leaves_of(value), replace))
    return tuple(made)


def add(writes: Pending, key: str, value: object, *, replace: bool) -> None:
    """One more write of a turn."""
    writes.append((key, value, replace))


def merged(writes: Pending | None) -> dict[str, Any]:
    """What the writes of a turn come to where no key has a reducer."""
    plain: dict[str, Any] = {}
    for key, value, replace in writes or ():
        plain[key] = merge(plain[key], value) if key in plain and not replace else value
    return plain
