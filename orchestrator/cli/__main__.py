"""``python -m orchestrator.cli`` is ``callboard``."""

from orchestrator.cli.commands import main

main()
