"""What a caller may say about one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.agents import Branch
from orchestrator.core.spec import Budget
from orchestrator.runtime.wiring import Child

__all__ = ["RunOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of ``Session.flow``, ``start`` and ``flow_stream``.

    Attributes:
        args: the flow's arguments. context: the first shared context.
        reducers: context key -> reducer, by name or as a function of (folded, next).
        known: node -> value or NodeResult: outcomes that are given, and do not run.
        budget: limits of this run; the document's where it is omitted.
        branch: the default branch of operations without a role. parallel: False runs one node at a time.
        on_settle: ``fn(node, view) -> Inject | list | None``, as a node is about to settle.
        on_branch_created: called once for every branch that is made.
        waits_for_answers: somebody answers questions while the run is live.
        reuse: an earlier run; a node whose content equals that of a completed node there takes its outcome.
        child: of the run of an included flow: whose it is.
        new_definition: code and documents may have changed since the run began.
    """

    args: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    reducers: Mapping[str, Any] | None = None
    known: Mapping[str, Any] | None = None
    budget: Budget | None = None
    branch: Branch | None = None
    parallel: bool = True
    on_settle: Callable[..., Any] | None = None
    on_branch_created: Callable[[Branch], None] | None = None
    waits_for_answers: bool = False
    reuse: str | None = None
    child: Child | None = None
    new_definition: bool = False
