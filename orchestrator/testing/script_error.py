"""The error of a test whose script and whose subject do not agree."""

__all__ = ["ScriptError"]


class ScriptError(AssertionError):
    """Raised when a test's script says nothing about what happened: an outcome, an answer is missing.

    In a run it fails the node like any error of a role; with ``fake_turn`` it fails the test.
    """
