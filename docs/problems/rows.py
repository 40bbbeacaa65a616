"""What stands in the tables of messages."""

from __future__ import annotations

#: messages as they stand in the code; what they mean; what to do
Row = tuple[tuple[str, ...], str, str]
