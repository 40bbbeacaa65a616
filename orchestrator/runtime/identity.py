"""Ids of runs: sortable by time, and impossible to confuse at a glance."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

__all__ = ["new_run_id"]


def new_run_id() -> str:
    """``20260131-120000-3f9ac1``: UTC time and 24 random bits; any unambiguous prefix names the run."""
    return f"{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
