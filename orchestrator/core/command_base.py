"""What every command is."""

from __future__ import annotations

import msgspec

__all__ = ["Command", "Usage"]


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Summed over an attempt's model calls. ``cost_usd`` None: the price is unknown."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    model: str | None = None
    #: of the input tokens, those that the provider had kept
    cache_read: int = 0


class Command(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=True, omit_defaults=True):
    """Base of all commands."""
