"""Commands about the child run of a node that includes a flow."""

from __future__ import annotations

from orchestrator.core.command_base import Command, Usage

__all__ = ["ChildEnded", "ChildHeld", "ChildStarted"]


class ChildStarted(Command, frozen=True):
    """A node is about to begin a child run; it would have these shares of what is left."""

    node: str
    attempt: int
    run: str
    flow: str
    spawns: int = 0
    escalations: int = 0
    checkpoint: int = 0


class ChildHeld(Command, frozen=True):
    """A node's child run was suspended."""

    node: str
    attempt: int
    run: str
    reason: str
    detail: str = ""
    tasks: int = 0


class ChildEnded(Command, frozen=True):
    """A node's child run has ended, and what it used."""

    node: str
    attempt: int
    run: str
    reason: str
    spawns: int = 0
    escalations: int = 0
    usage: Usage = Usage()
    tasks: int = 0
    checkpoint: int = 0
