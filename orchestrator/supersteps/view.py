"""What a task reads: the state of the last boundary, its own copy, decoded key by key when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import msgspec

from orchestrator.supersteps.channels import Channel
from orchestrator.supersteps.channels.base import EMPTY
from orchestrator.supersteps.errors import EmptyChannelError

__all__ = ["StateView", "plain_state"]


class StateView(MutableMapping[str, Any]):
    """A mapping of state keys. What is changed in it is changed in this copy and nowhere else."""

    __slots__ = ("_channels", "_raw", "_read")

    def __init__(self, channels: Mapping[str, Channel], raw: Mapping[str, bytes]) -> None:
        """``raw``: JSON by key, as it was committed."""
        self._channels = channels
        self._raw = raw
        self._read: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key in self._read:
            value = self._read[key]
        elif key in self._raw:
            value = self._read[key] = msgspec.json.decode(self._raw[key])
        else:
            channel = self._channels.get(key)
            value = EMPTY if channel is None else channel.initial_value()
            if value is not EMPTY:
                self._read[key] = value
        if value is EMPTY:
            known = ", ".join(self._channels)
            text = "nobody has written it" if key in self._channels else f"the state has {known}"
            raise EmptyChannelError(f"state key {key!r} is empty: {text}")
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        self._read[key] = value

    def __delitem__(self, key: str) -> None:
        self[key]
        self._read[key] = EMPTY

    def __iter__(self) -> Iterator[str]:
        for key in (*self._channels, *(one for one in self._read if one not in self._channels)):
            if self._read.get(key) is EMPTY:
                continue
            if key in self._read or key in self._raw or self._channels[key].initial is not EMPTY:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"StateView({dict(self)!r})"


def plain_state(channels: Mapping[str, Channel], raw: Mapping[str, bytes]) -> dict[str, Any]:
    """The state as plain data."""
    return dict(StateView(channels, raw))
