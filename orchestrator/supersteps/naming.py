"""Ids of child runs: the parent's, a dot, and a word for the task or for what the child remembers.

A word of a call holds a dash before the step (``sub-3``, ``sub-3-mine``), one of a memory holds none.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from orchestrator.core.supersteps.children import memory_key
from orchestrator.core.supersteps.state import Activation

__all__ = ["call_run", "memory_of", "memory_run", "own_run"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_]{1,24}")
#: A run's id has at most 128 characters.
_LONGEST: Final = 120


def memory_of(task: Activation) -> str:
    """The key of what a task's child remembers."""
    return memory_key(task.node, task.name, send=task.send)


def call_run(parent: str, task: Activation) -> str:
    """The id of a task's child that begins empty with every call."""
    step, _, rest = task.name.removeprefix(f"{task.node}@").partition(".")
    return _below(parent, "-".join((_word(task.node), step, *([_word(rest)] if rest else ()))))


def memory_run(parent: str, key: str) -> str:
    """The id of a child that remembers: by its node, and the key or number of a Send."""
    node, dot, rest = key.rpartition(".")
    return _below(parent, f"{_word(node)}.{_word(rest)}" if dot else _word(rest))


def own_run(parent: str, task: Activation, recorded: str) -> str:
    """The id that a task's recorded child has in ``parent``: a fork has copies under ids of its own."""
    if not recorded or recorded.startswith(f"{parent}."):
        return recorded
    remembers = "-" not in recorded.rpartition(".")[2]
    return memory_run(parent, memory_of(task)) if remembers else call_run(parent, task)


def _below(parent: str, word: str) -> str:
    run = f"{parent}.{word}"
    return run if len(run) <= _LONGEST else f"{parent[:60]}.{_digest(run, 24)}"


def _word(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else f"{re.sub('[^A-Za-z0-9_]', '_', text)[:9]}_{_digest(text, 6)}"


def _digest(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:size]
