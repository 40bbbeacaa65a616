"""A document without nodes, whose nodes a planner makes, reads as one with its planner as the one node."""

from __future__ import annotations

import re
from typing import Any, Final

from orchestrator.flows.load import Source

__all__ = ["is_cast", "plant"]

#: Who plans where the document names nobody.
PLANNER: Final = "planner"


def is_cast(source: Source) -> bool:
    """Whether a planner makes the nodes of a document."""
    return isinstance(source.data, dict) and "prompt" in source.data and "nodes" not in source.data


def plant(source: Source, data: dict[str, Any]) -> None:
    """Give a document without nodes its planner as a node, which stands where its prompt does."""
    if not is_cast(source):
        return
    role = data.get("planner", PLANNER)
    name = re.sub(r"[^A-Za-z0-9_]", "_", role) if isinstance(role, str) and role else PLANNER
    data["nodes"] = {name: {"role": role, "instruction": data["prompt"]}}
    place = ("nodes", name)
    where = {
        (): "prompt",
        ("role",): "planner" if "planner" in data else "prompt",
        ("instruction",): "prompt",
    }
    for inner, key in where.items():
        source.values[*place, *inner] = source.position((key,))
        source.keys[*place, *inner] = source.position((key,), key=True)
