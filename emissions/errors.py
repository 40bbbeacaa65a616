"""The root of every error that Callboard raises on purpose."""


class OrchestratorError(Exception):
    """Base of the one error tree; `except OrchestratorError` catches all of ours and nothing else.

    The tree is drawn in `orchestrator/errors.py`. A message says what is wrong, where, and what to do next.
    """
