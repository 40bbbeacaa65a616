"""The verbs by name (kernel.md 1). A session may register more."""

from __future__ import annotations

from typing import Final

__all__ = ["CONVERSATIONAL", "VERBS"]

#: Verbs that every session knows by name; each needs a role with a function, or a backend.
VERBS: Final = frozenset(
    {"operate", "chat", "communicate", "ReAct", "ReActStream", "parse", "select", "interpret", "act"}
)
#: Verbs that speak on a branch.
CONVERSATIONAL: Final = frozenset({"operate", "chat", "communicate", "ReAct", "ReActStream"})
