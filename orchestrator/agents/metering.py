"""What one prompt cost, from counts that an agent keeps over its whole session.

The Agent Client Protocol counts tokens over all turns of a session and tells its cost so far; a budget needs
what is new. A count that is lower than the one before began anew: then all of it is new.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.agents.jobs import Spent

__all__ = ["SessionMeter"]


class SessionMeter:
    """Tells what has come since it was last read.

    Attributes:
        cost_usd: of the session so far, as the agent last said; None while it has said nothing.
    """

    def __init__(self) -> None:
        self.cost_usd: float | None = None
        self._told: dict[str, float] = {}

    def past(self) -> None:
        """What was said up to now is of turns that were counted before."""
        if self.cost_usd is not None:
            self._told["cost_usd"] = self.cost_usd

    def read(self, tokens: Mapping[str, int]) -> Spent:
        """What one prompt cost.

        Args:
            tokens: ``input_tokens``, ``output_tokens`` and ``cache_read`` of the session so far; none of them
                where the agent counts nothing.
        """
        new = {name: int(self._new(name, count)) for name, count in tokens.items()}
        return Spent(
            requests=1,
            input_tokens=new.get("input_tokens", 0),
            output_tokens=new.get("output_tokens", 0),
            cache_read=new.get("cache_read", 0),
            cost_usd=None if self.cost_usd is None else self._new("cost_usd", self.cost_usd),
        )

    def _new(self, name: str, count: float) -> float:
        told = self._told.get(name, 0)
        self._told[name] = count
        return count if count < told else count - told
