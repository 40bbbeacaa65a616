"""What one pass through a refusal loop came to."""

from __future__ import annotations

import msgspec

__all__ = ["Round"]


class Round(msgspec.Struct, gc=False):
    """One pass through the loop of a gate; what it cost is known when the gate was judged."""

    gate: str
    number: int
    #: the gate's node in this round; one that a higher tier took over keeps the first
    node: str
    judgement: str = ""
    verdict: str | None = None
    rationale: str = ""
    moved: bool | None = None
    nodes: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    #: active time, nanoseconds
    duration: int = 0
    #: refusals of the gate when the round ended, of so many allowed
    refusals: int = 0
    allowed: int = 0
    #: nodes that went on with their conversation, and those that began one
    continued: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
