"""The laws, held over a run or its result; and the story of one node, for the message of a failing test."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.core.laws import check, check_facts
from orchestrator.core.records import Record
from orchestrator.core.status import ENDED, TERMINAL, RunReason, Status
from orchestrator.core.story import story as story_of
from orchestrator.runtime.results import NodeResult, RunResult
from orchestrator.runtime.run import Run

__all__ = ["LawError", "assert_laws", "broken_laws", "story"]


class LawError(AssertionError):
    """Raised when a run breaks a law: a bug of the orchestrator's, not of a role.

    Attributes:
        run: the run's id. broken: one line for each law that does not hold.
    """

    def __init__(self, run: str, broken: Iterable[str]) -> None:
        self.run = run
        self.broken = tuple(broken)
        lines = "".join(f"\n  {line}" for line in self.broken)
        super().__init__(
            f"run {run} breaks {len(self.broken)} laws; it is a bug of the orchestrator's:{lines}"
        )


def assert_laws(what: Run | RunResult) -> None:
    """Raise if a law does not hold.

    Args:
        what: a run, live or over: its whole state and every fact of it are looked at. Or a result, of which
            less can be seen: that it ended as it says, and that nothing vetoed ran.

    Raises:
        LawError: naming every law that is broken.
    """
    broken = broken_laws(what)
    if broken:
        raise LawError(what.run if isinstance(what, RunResult) else what.id, broken)


def broken_laws(what: Run | RunResult) -> list[str]:
    """One line for each law that does not hold; empty if all do. See :func:`assert_laws`."""
    if isinstance(what, RunResult):
        return _of_result(what)
    broken = check_facts(_records(what))
    if what.engine.kernel.fault is None:
        # a run that halted stands where its last decision left it: only what is durable counts
        broken += check(what.engine.state)
    return broken if what.result is None else broken + _of_result(what.result)


def story(run: Run, node: str) -> str:
    """Every fact about one node, in order, with causes: one line each.

    Args:
        run: a run, live or over.
        node: the node's name; one that no fact names has an empty story.
    """
    return "\n".join(story_of(_records(run), node))


def _records(run: Run) -> Iterable[Record]:
    return run.engine.kernel.journal.read(0)


def _of_result(result: RunResult) -> list[str]:
    unsettled = [name for name, node in result.nodes.items() if node.status not in TERMINAL]
    broken = []
    if result.reason in ENDED and unsettled:
        broken.append(f"the run ended as {result.reason} with unsettled nodes: {', '.join(unsettled)}")
    if result.reason is RunReason.COMPLETED and result.gate_rejected_operations:
        gates = ", ".join(result.gate_rejected_operations)
        broken.append(f"the run completed although {gates} rejected")
    for name, node in result.nodes.items():
        broken += [f"{name}: {breach}" for breach in _of_node(result, node) if not node.restored]
    return broken


def _of_node(result: RunResult, node: NodeResult) -> list[str]:
    broken = []
    if node.status is Status.VETOED and node.attempts:
        broken.append(f"it is vetoed and ran {node.attempts} times")
    if (node.status is Status.VETOED) != bool(node.vetoed_by):
        broken.append(f"it is {node.status.value} with vetoed_by {node.vetoed_by}")
    if node.status is Status.FAILED and node.error is None:
        broken.append("it failed without an error")
    if node.superseded_by is not None and node.superseded_by not in result.nodes:
        broken.append(f"{node.superseded_by} took its place and is no node")
    return broken
