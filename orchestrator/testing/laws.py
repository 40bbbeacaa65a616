"""The laws, held over a run, its result, its state or its records; and the story of one node."""

from __future__ import annotations

from orchestrator.core.status import ENDED, TERMINAL, RunReason, Status
from orchestrator.runtime.results import RunResult
from orchestrator.runtime.run import Run

__all__ = ["LawError", "assert_laws", "broken_laws"]


class LawError(AssertionError):
    """Raised when a run breaks a law: a bug of the orchestrator's, not of a role.

    Attributes:
        broken: one line for each law that does not hold.
    """

    def __init__(self, run: str, broken: list[str]) -> None:
        self.broken = tuple(broken)
        lines = "".join(f"\n  {line}" for line in broken)
        super().__init__(f"run {run} breaks laws:{lines}")


def assert_laws(what: Run | RunResult) -> None:
    """Raise if a law does not hold.

    Args:
        what: a run, live or over, whose whole state is looked at; or a result, of which less can be seen.

    Raises:
        LawError: naming every law that is broken.
    """
    broken = broken_laws(what)
    if broken:
        raise LawError(what.run if isinstance(what, RunResult) else what.id, broken)


def broken_laws(what: Run | RunResult) -> list[str]:
    """One line for each law that does not hold; empty if all do."""
    if isinstance(what, RunResult):
        return _of_result(what)
    return [] if what.result is None else _of_result(what.result)


def _of_result(result: RunResult) -> list[str]:
    """What a result alone can break: it ended as it says, and what it did not run stayed quiet."""
    broken = []
    open_ = [name for name, node in result.nodes.items() if node.status not in TERMINAL]
    if result.reason in ENDED and open_:
        broken.append(f"the run ended as {result.reason} with unsettled nodes: {', '.join(open_)}")
    if result.reason is RunReason.COMPLETED and result.gate_rejected_operations:
        gates = ", ".join(result.gate_rejected_operations)
        broken.append(f"the run completed although {gates} rejected")
    for name, node in result.nodes.items():
        if node.status is Status.VETOED and node.attempts:
            broken.append(f"{name} was vetoed and ran {node.attempts} times")
        if node.status is Status.VETOED and not node.vetoed_by:
            broken.append(f"{name} was vetoed by nobody")
        if node.status is Status.FAILED and node.error is None:
            broken.append(f"{name} failed without an error")
        if node.superseded_by is not None and node.superseded_by not in result.nodes:
            broken.append(f"{name} was superseded by {node.superseded_by}, which does not exist")
    return broken
