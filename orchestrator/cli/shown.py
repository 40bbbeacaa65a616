"""What an agent was shown, word for word, as the record of its branch has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from orchestrator.core.facts import BranchExtended
from orchestrator.core.records import Record

__all__ = ["shown"]

_SHOWN = ("system", "user")


def shown(records: Iterable[Record], node: str) -> Iterator[tuple[int, str]]:
    """Pairs of attempt and text, in order; each text stands in the conversation from then on."""
    for record in records:
        for fact in record.facts:
            if not isinstance(fact, BranchExtended) or fact.node != node or not fact.attempt:
                continue
            for message in msgspec.json.decode(record.values[fact.messages]):
                if message["role"] in _SHOWN and isinstance(message["content"], str):
                    yield fact.attempt, message["content"]
