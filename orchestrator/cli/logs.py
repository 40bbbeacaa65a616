"""Logs, configured here and nowhere else: text for a terminal, JSON lines elsewhere, always to stderr."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import structlog
from structlog.types import EventDict, Processor

from orchestrator.agents.secrecy import redacted
from orchestrator.cli.edge import clean, clean_lines, is_terminal, write

__all__ = ["configure_logs"]


def configure_logs(*, debug: bool = False) -> None:
    """Route stdlib logging and structlog through one formatter.

    Args:
        debug: everything from DEBUG on; else from WARNING on.
    """
    terminal = is_terminal(sys.stderr)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if terminal else "iso", utc=not terminal),
    ]
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if terminal:
        colors = "NO_COLOR" not in os.environ
        plain = structlog.dev.plain_traceback
        last += [_clean, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    else:
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    handler = _Stderr()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if debug else logging.WARNING, force=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class _Stderr(logging.Handler):
    """Writes to whatever stderr is now: a live view stands between for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write(sys.stderr, redacted(self.format(record)) + "\n")
        except Exception:  # noqa: BLE001 (logging's own way: a log line cannot fail what it tells about)
            self.handleError(record)


def _clean(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Nothing that a terminal would obey; of a traceback the lines stay."""
    return {
        key: clean_lines(value)
        if key in {"exception", "stack"}
        else clean(value)
        if isinstance(value, str)
        else value
        for key, value in event.items()
    }
