"""A session that holds the laws over its runs."""

from __future__ import annotations

from typing import Any

from orchestrator.runtime.run import Run
from orchestrator.runtime.session import Session
from orchestrator.testing.laws import assert_laws

__all__ = ["LawfulSession"]


class LawfulSession(Session):
    """A Session that checks every run of its own against the laws when it is left.

    Raises:
        LawError: on leaving: a run broke a law. An error of the body is raised before it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made: list[Run] = []

    def _make(self, *args: Any, **options: Any) -> Run:
        run = super()._make(*args, **options)
        self.made.append(run)
        return run

    async def __aexit__(self, *exc_info: object) -> bool | None:
        """Leave as a session is left, then check."""
        handled = await super().__aexit__(*exc_info)  # type: ignore[arg-type]
        if exc_info[0] is None:
            # the body's own error is the news; a broken law may well follow from it
            for run in self.made:
                assert_laws(run)
        return handled
