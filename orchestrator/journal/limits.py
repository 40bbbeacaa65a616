"""Every size cap of the journal, in one table, each with the level from which it warns."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from orchestrator.errors import JournalError

__all__ = ["CAPS", "INLINE", "Cap", "held", "run_fault"]

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

#: A value of more bytes stands in the blob table, by the hash of its content.
INLINE: Final = 64 * _KIB


class Cap(NamedTuple):
    """Bytes from which something is worth a warning, and bytes above which it is refused."""

    warn: int
    most: int


#: What is measured -> its cap, in bytes of JSON. SQLite itself stops at 1,000,000,000.
CAPS: Final[Mapping[str, Cap]] = MappingProxyType(
    {
        "value": Cap(8 * _MIB, 256 * _MIB),
        "plan": Cap(32 * _MIB, 512 * _MIB),
        "record": Cap(8 * _MIB, 512 * _MIB),
        "control": Cap(256 * _KIB, 4 * _MIB),
    }
)

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_log = logging.getLogger("orchestrator.journal")


def held(what: str, size: int, where: str) -> None:
    """Let a size pass, with a warning in the log if it is unusual.

    Args:
        what: a key of :data:`CAPS`. size: bytes. where: whose it is, for the message.

    Raises:
        JournalError: it is above the cap.
    """
    cap = CAPS[what]
    if size > cap.most:
        raise JournalError(
            f"{where}: a {what} of {size:,} bytes is above the cap of {cap.most:,}; keep it in a file"
        )
    if size > cap.warn:
        _log.warning(
            "%s: a %s of %s bytes; above %s it is refused", where, what, f"{size:,}", f"{cap.most:,}"
        )


def run_fault(run: str) -> str | None:
    """Say what is wrong with a run's id, or None: it is part of file names."""
    if _RUN.fullmatch(run) and run != "last":
        return None
    return f"{run!r} cannot name a run: letters, digits, '.', '_' and '-', at most 128, and not 'last'"
