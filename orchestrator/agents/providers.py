"""What a session knows of the providers that it calls: how fast it may, and how they have answered lately.

Rates are judged over the last minute, in the order in which calls came. What a provider says about waiting
holds for everybody who calls that model in this session.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

__all__ = ["EQUAL_ERRORS", "Providers", "Rate", "rate_of"]

#: So many equal errors in a row, whoever met them, close a model (kernel.md 7).
EQUAL_ERRORS: Final = 5
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Rate:
    """What may be asked of one model in a minute; None is no limit.

    Attributes:
        requests: calls. tokens: of prompts and answers; known when an answer has come.
    """

    requests: int | None = None
    tokens: int | None = None


def rate_of(limits: Mapping[str, int], model: str) -> Rate:
    """What a run's limits say of one model: ``requests:NAME`` and ``tokens:NAME``."""
    return Rate(limits.get(f"requests:{model}"), limits.get(f"tokens:{model}"))


@dataclass(slots=True)
class _Model:
    """One model, as it was called lately."""

    calls: deque[float] = field(default_factory=deque)
    tokens: deque[tuple[float, int]] = field(default_factory=deque)
    held: float = 0.0
    error: str = ""
    row: int = 0


class Providers:
    """Calls of every model of a session."""

    def __init__(
        self,
        now: Callable[[], float] = anyio.current_time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """``now`` in seconds; ``sleep`` waits for so many."""
        self._now, self._sleep = now, sleep
        self._models: defaultdict[str, _Model] = defaultdict(_Model)

    async def admit(self, name: str, rate: Rate, told: Callable[[str], None]) -> None:
        """Wait until a model may be called, and count the call.

        Args:
            told: hears why it waits, once.
        """
        model, silent = self._models[name], True
        while True:
            wait, why = self._wait(model, rate)
            if wait <= 0:
                break
            if silent:
                told(f"{name}: waits {wait:.0f} s: {why}")
                silent = False
            await self._sleep(wait)
        if rate.requests is not None:
            model.calls.append(self._now())

    def _wait(self, model: _Model, rate: Rate) -> tuple[float, str]:
        """Seconds until the next call, and why."""
        now = self._now()
        while model.calls and model.calls[0] <= now - _MINUTE:
            model.calls.popleft()
        while model.tokens and model.tokens[0][0] <= now - _MINUTE:
            model.tokens.popleft()
        if model.held > now:
            return model.held - now, "its provider says so"
        if rate.requests is not None and len(model.calls) >= rate.requests:
            return model.calls[-rate.requests] + _MINUTE - now, f"{rate.requests} requests a minute"
        if rate.tokens is not None and sum(count for _, count in model.tokens) >= rate.tokens:
            return model.tokens[0][0] + _MINUTE - now, f"{rate.tokens:,} tokens a minute"
        return 0.0, ""

    def answered(self, name: str, tokens: int) -> None:
        """A call was answered; ``tokens``: of its prompt and its answer."""
        model = self._models[name]
        model.error, model.row = "", 0
        model.tokens.append((self._now(), tokens))

    def hold(self, name: str, seconds: float) -> None:
        """The provider takes no call before so many seconds are over."""
        model = self._models[name]
        model.held = max(model.held, self._now() + seconds)

    def failed(self, name: str, error: str) -> bool:
        """A call failed; True if it is one equal error too many, until the model answers again."""
        model = self._models[name]
        model.row = model.row + 1 if error == model.error else 1
        model.error = error
        return model.row >= EQUAL_ERRORS
