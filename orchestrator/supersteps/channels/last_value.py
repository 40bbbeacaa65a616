"""One write in a step; two are an error that names both tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.supersteps.channels.base import Channel, Folded, Pending
from orchestrator.supersteps.errors import InvalidUpdateError

__all__ = ["LastValue"]


class LastValue(Channel):
    """Keeps what was written last, one write in a step."""

    kind = "last_value"

    def fold(self, value: Any, writes: Sequence[Any]) -> Any:
        """The one write, or the value as it is."""
        if len(writes) > 1:
            raise InvalidUpdateError(f"{len(writes)} writes in one step; give the key a reducer")
        return writes[0] if writes else value

    def patch(self, key: str, raw: bytes | None, writes: Sequence[Pending]) -> Folded:
        """The one write's JSON as it is."""
        if len(writes) == 1:
            return Folded(writes[0].raw, task=writes[0].task)
        tasks = tuple(dict.fromkeys(write.task for write in writes))
        raise InvalidUpdateError(
            f"at key {key!r}: {', '.join(tasks)} wrote it in one step; give it a reducer, as in "
            f"Annotated[list, operator.add]",
            tasks,
        )
