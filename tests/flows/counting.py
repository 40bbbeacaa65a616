"""What reading a document costs, without a clock: Python calls and calls into C."""

from __future__ import annotations

import sys
from collections.abc import Callable

NODE = '  n{}: {{role: writer, instruction: "List ${{args.repo}}"}}\n'


def calls(function: Callable[[], object]) -> int:
    """How many calls and returns ``function`` makes; the same on every machine."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def document(size: int) -> str:
    """An ordinary document of about ``size`` characters."""
    lines = ["version: 1\nname: demo\nargs: {repo: {required: true}}\nnodes:\n"]
    while sum(map(len, lines)) < size:
        lines.append(NODE.format(len(lines)))
    return "".join(lines)
