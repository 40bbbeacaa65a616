"""What an attempt's model calls cost, as the record tells it."""

from __future__ import annotations

from orchestrator.core.command_base import Usage
from orchestrator.core.facts import UsageRecorded

__all__ = ["usage_recorded"]


def usage_recorded(node: str, attempt: int, usage: Usage) -> UsageRecorded:
    """The fact that an attempt of a node used this much."""
    return UsageRecorded(
        node, attempt, usage.requests, usage.input_tokens, usage.output_tokens, usage.cost_usd, usage.model,
        usage.cache_read,
    )  # fmt: skip
