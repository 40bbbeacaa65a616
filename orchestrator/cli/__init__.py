"""The command line: ``main`` is the console script ``callboard``."""

from orchestrator.cli.commands import main

__all__ = ["main"]
