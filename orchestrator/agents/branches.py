"""A branch: one agent entity, its conversation and its role. Continued across turns by default.

What a node says in one attempt is the branch's *tail* until the node settles: nobody else sees it, a copy
does not take it. Then it becomes part of the conversation, or, of an attempt that failed, as much of it as
was answered (kernel.md 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DEFAULT_BRANCH", "Branch", "Message", "answered", "from_data", "to_data"]

#: The branch that a session always has.
DEFAULT_BRANCH = "default"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: who said it: ``system``, ``user``, ``assistant`` or ``tool``.
        content: text or JSON data.
        node: the node in whose turn it was said; None if it came from outside a run.
        native: the same message in its backend's own form, JSON data that begins with the backend's name;
            None where the content is all there is.
        open: it asks for something (a tool call) that the next message has to answer.
    """

    role: str
    content: Any
    node: str | None = None
    native: Any = None
    open: bool = False


@dataclass(slots=True)
class Branch:
    """A conversation that operations continue.

    Attributes:
        name: unique in its session.
        role: name of the role that speaks on it, or None.
        messages: what was said, oldest first.
        source: the branch it was cloned from, or None.
    """

    name: str
    role: str | None = None
    messages: list[Message] = field(default_factory=list)
    source: str | None = None
    #: where the tail of the turn that has the branch begins; None while nobody has it
    _mark: int | None = field(default=None, repr=False, compare=False)

    def clone(self, name: str) -> Branch:
        """A branch of its own that starts with this one's messages, as far as they are settled."""
        return Branch(name, self.role, list(self.settled), self.name)

    def include(self, messages: Iterable[Message]) -> None:
        """Start from these messages instead."""
        self.messages[:] = messages

    def say(self, role: str, content: Any, node: str | None = None) -> Message:
        """Add a message."""
        message = Message(role, content, node)
        self.messages.append(message)
        return message

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages as a backend made them."""
        self.messages.extend(messages)

    # --- a turn's hold on it -------------------------------------------------------------------

    @property
    def taken(self) -> bool:
        """True while a turn has it: nobody else may speak on it."""
        return self._mark is not None

    @property
    def settled(self) -> Sequence[Message]:
        """The conversation without the tail of the turn that has it now."""
        return self.messages if self._mark is None else self.messages[: self._mark]

    @property
    def tail(self) -> Sequence[Message]:
        """What the turn that has it has said so far."""
        return () if self._mark is None else self.messages[self._mark :]

    def take(self) -> None:
        """Begin a turn.

        Raises:
            RuntimeError: another turn has it.
        """
        if self._mark is not None:
            raise RuntimeError(f"branch {self.name} is in use; one node at a time speaks on it")
        self._mark = len(self.messages)

    def leave(self, kept: int) -> None:
        """End the turn: the first ``kept`` messages of its tail stay, the others go."""
        if self._mark is not None:
            del self.messages[self._mark + kept :]
        self._mark = None


def answered(messages: Sequence[Message]) -> int:
    """How many messages there are up to the last answer that asks for nothing more."""
    for count in range(len(messages), 0, -1):
        last = messages[count - 1]
        if last.role == "assistant" and not last.open:
            return count
    return 0


def to_data(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages as JSON data, without what says nothing."""
    rows = []
    for message in messages:
        row: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.node is not None:
            row["node"] = message.node
        if message.native is not None:
            row["native"] = message.native
        if message.open:
            row["open"] = True
        rows.append(row)
    return rows


def from_data(rows: Iterable[Mapping[str, Any]]) -> list[Message]:
    """What :func:`to_data` wrote."""
    return [
        Message(
            row["role"],
            row["content"],
            row.get("node"),
            row.get("native"),
            row.get("open", False),
        )
        for row in rows
    ]
