"""Short sequences that seldom grow: tuples while they can be, lists once they are appended to.

A tuple of structs that the cyclic collector ignores is ignored as well; a list never is. A graph of
100,000 nodes has as many edge lists, and each collection would look at every one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["grown"]

T = TypeVar("T")


def grown(items: Sequence[T], item: T) -> Sequence[T]:
    """``items`` with ``item`` at the end; use the result instead of ``items``. Amortised O(1)."""
    if not items:
        return (item,)
    if isinstance(items, list):
        items.append(item)
        return items
    return [*items, item]
