"""A conversation: messages are appended, replaced by their id, removed by their id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.supersteps.channels.base import EMPTY, Channel
from orchestrator.supersteps.errors import InvalidUpdateError

__all__ = ["Messages", "RemoveMessage", "add_messages"]


def RemoveMessage(id: str) -> dict[str, Any]:  # noqa: A002, N802 (the field's name and argument)
    """A write that removes a message; an id that is not there is an error."""
    return {"role": "remove", "id": id}


class Messages(Channel):
    """A list of mappings with ``role``, ``content`` and ``id``.

    A text is the user's message. One without an id gets ``m1``, ``m2``, ...: nothing is drawn at random, so a
    replay gives the same.
    """

    kind = "messages"

    def __init__(self) -> None:
        self.initial = []

    def fold(self, value: Any, writes: Sequence[Any]) -> Any:
        """Every write, or every item of a list that was written, in order."""
        messages = [] if value is EMPTY else value
        for write in writes:
            for item in write if isinstance(write, list) else [write]:
                self._take(messages, item)
        return messages

    def _take(self, messages: list[dict[str, Any]], item: Any) -> None:
        message = {"role": "user", "content": item} if isinstance(item, str) else item
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InvalidUpdateError(
                f"{item!r} is no message; give a text or a mapping with role and content"
            )
        known = next((n for n, one in enumerate(messages) if one["id"] == message.get("id")), None)
        if message["role"] == "remove":
            if known is None:
                raise InvalidUpdateError(f"there is no message {message.get('id')!r} to remove")
            del messages[known]
        elif known is not None:
            messages[known] = message
        else:
            messages.append(message if "id" in message else {**message, "id": _next_id(messages)})


def _next_id(messages: list[dict[str, Any]]) -> str:
    """One above the highest of ours that is there; messages are looked at from the end."""
    for message in reversed(messages):
        number = str(message["id"]).removeprefix("m")
        if number.isdigit() and message["id"] == f"m{number}":
            return f"m{int(number) + 1}"
    return f"m{len(messages) + 1}"


def add_messages(left: list[Any], right: list[Any] | Any) -> list[Any]:
    """The reducer of a conversation: ``Annotated[list, add_messages]`` is a Messages channel."""
    folded: list[Any] = Messages().fold(list(left), [right])
    return folded
