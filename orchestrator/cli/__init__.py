"""The command line. ``main`` is the console script ``callboard``; ``import orchestrator`` never loads this."""

from orchestrator.cli.commands import main

__all__ = ["main"]
