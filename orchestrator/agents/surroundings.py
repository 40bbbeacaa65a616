"""What a program that we start sees: an environment by allow-list, the files beside its declaration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from orchestrator.errors import ExecutionError

__all__ = ["base", "environment", "located"]

#: What a program may know of its surroundings without being given it by name.
_EVERYBODYS: Final = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SHELL",
)


def environment(names: Sequence[str], who: str) -> dict[str, str]:
    """The variables that every program needs, and those that ``who`` is given by name.

    Raises:
        ExecutionError: one of those is not set.
    """
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise ExecutionError(f"{who} needs {', '.join(missing)} in the environment; set it first")
    return {name: os.environ[name] for name in (*_EVERYBODYS, *names) if name in os.environ}


def located(argv: Sequence[str], origin: str) -> list[str]:
    """Arguments; one that names a file beside the declaration means that file."""
    folder = base(origin)
    return [str(folder / word) if _is_file(folder / word) else word for word in argv]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # an argument that no file could be called, such as the text of a script
        return False


def base(origin: str) -> Path:
    """The folder of the file in which something was declared, else the current one."""
    path = Path(origin.rpartition(":")[0] if origin.rpartition(":")[2].isdigit() else origin)
    return path.parent.resolve() if origin and path.is_file() else Path.cwd()
