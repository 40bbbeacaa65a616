"""Graph order: topological, ties by birth (engine.md 15).

A birth is (parent's birth, number): planned nodes are numbered by declaration, children by their
emission's number under their parent. So the order never depends on when something was accepted.
Births are linked, not tuples: a lineage 10,000 deep costs 10,000 links, not 50 million numbers.
"""

from __future__ import annotations

from functools import cmp_to_key

import msgspec

__all__ = ["Birth", "compare", "sort_key"]


class Birth(msgspec.Struct, frozen=True, gc=False):
    """Where a node was born."""

    number: int
    parent: Birth | None = None
    depth: int = 0

    def child(self, number: int) -> Birth:
        """The birth of this node's ``number``-th child."""
        return Birth(number, self, self.depth + 1)


def compare(left: Birth, right: Birth) -> int:
    """Below, equal to or above zero as ``left`` comes before, is, or comes after ``right``.

    A parent comes before its children, and a node's whole offspring before the next sibling.
    """
    if left is right:
        return 0
    a, b = left, right
    while a.depth > b.depth and a.parent is not None:
        a = a.parent
    while b.depth > a.depth and b.parent is not None:
        b = b.parent
    if a is b:
        return left.depth - right.depth
    while a.parent is not b.parent and a.parent is not None and b.parent is not None:
        a, b = a.parent, b.parent
    return a.number - b.number or left.depth - right.depth


sort_key = cmp_to_key(compare)
