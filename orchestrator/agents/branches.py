"""A branch: one agent entity, its conversation and its role. Continued across turns by default."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DEFAULT_BRANCH", "Branch", "Message"]

#: The branch that a session always has.
DEFAULT_BRANCH = "default"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: who said it: ``system``, ``user``, ``assistant`` or ``tool``.
        content: text or JSON data.
        node: the node in whose turn it was said; None if it came from outside a run.
    """

    role: str
    content: Any
    node: str | None = None


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

    def clone(self, name: str) -> Branch:
        """A branch of its own that starts with this one's messages."""
        return Branch(name, self.role, list(self.messages), self.name)

    def include(self, messages: Iterable[Message]) -> None:
        """Start from these messages instead."""
        self.messages[:] = messages

    def say(self, role: str, content: Any, node: str | None = None) -> Message:
        """Add a message."""
        message = Message(role, content, node)
        self.messages.append(message)
        return message
