"""What the nodes of a run were told and what was said on its branches, as rows of its page."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from orchestrator.runtime.branching import recorded
from orchestrator.runtime.given import given_to
from orchestrator.runtime.recorded import RecordedRun

__all__ = ["said", "told"]


def told(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """Node and exact text, of every node that has started and was told something."""
    for name, node in run.state.nodes.items():
        text = given_to(run.state, node).instruction if node.attempt else ""
        if text:
            yield name, text


def said(run: RecordedRun) -> Iterator[tuple[str, str, str, str]]:
    """Branch, who said it, in whose turn, and what, of every message on record."""
    for branch in run.state.conversations:
        for message in recorded(run.state, branch):
            content = message.content
            text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            yield branch, message.role, message.node or "", text
