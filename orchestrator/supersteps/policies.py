"""How a node is attempted again, how long it may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchestrator.core.spec import Retry
from orchestrator.errors import OperationError

__all__ = ["CachePolicy", "RetryPolicy", "TimeoutPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Attempts of a node. Interrupts are no failures and are not counted.

    Attributes:
        max_attempts: in all; the first counts.
        initial_interval: seconds before the second attempt. backoff_factor: each delay grows by it.
        max_interval: no delay is longer, seconds. jitter: the share of a delay that is drawn at random.
        retry_on: error types, or their names; empty is every error.
    """

    max_attempts: int = 3
    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    jitter: float = 0.5
    retry_on: type[Exception] | str | tuple[type[Exception] | str, ...] = ()

    def spec(self) -> Retry:
        """The same as the core takes it.

        Raises:
            OperationError: a number that makes no sense.
        """
        if self.max_attempts < 1 or not 0 <= self.jitter <= 1 or min(self.initial_interval, 0) < 0:
            message = f"{self!r}: give max_attempts of at least 1, intervals from 0, a jitter from 0 to 1"
            raise OperationError(message)
        given = self.retry_on if isinstance(self.retry_on, tuple) else (self.retry_on,)
        names = tuple(one if isinstance(one, str) else one.__name__ for one in given)
        return Retry(
            attempts=self.max_attempts,
            backoff=self.initial_interval,
            factor=self.backoff_factor,
            max_delay=self.max_interval,
            jitter=self.jitter,
            on=names,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPolicy:
    """How long one attempt of a node may take; what it waits for an answer does not count.

    Attributes:
        run: seconds; the attempt fails with TimeoutError, which a retry or an error handler may take up.
    """

    run: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """When what a node wrote stands for running it again.

    Attributes:
        ttl: seconds by the wall clock for which it does; None is for ever.
        key: what its writes depend on, as JSON data made of its input. None: what a Send carries, else the
            state keys that the type of the node's first parameter declares, else the whole state.
        version: of the node's code. None: a hash of the function's source.
    """

    ttl: float | None = None
    key: Callable[[Any], Any] | None = None
    version: str | None = None
