"""Facts about refusal loops: a gate refuses, its round ends, the next one starts (kernel.md 5)."""

from __future__ import annotations

import msgspec

from orchestrator.core.fact_base import Fact
from orchestrator.core.spec import Edge, Operation

__all__ = ["EdgeMoved", "GateRefused", "RoundEnded", "RoundNode", "RoundStarted"]


class RoundNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One node of a new round: it does the work of ``of`` once more and takes up that of ``previous``."""

    operation: Operation
    #: the planned node
    of: str
    previous: str
    round: int


class EdgeMoved(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What ``target`` waits for: ``to`` instead of ``source``; an empty ``to`` is nothing instead."""

    source: str
    target: str
    to: str = ""


class GateRefused(Fact, frozen=True):
    """The gate sends the work back: it vetoes nothing, and a new round starts in the same record."""

    node: str
    verdict: str | None
    rationale: str = ""
    cause: str = "verdict"
    by: str | None = None
    because: str = ""


class RoundEnded(Fact, frozen=True):
    """A pass through the loop of ``gate`` was judged; what it cost, and whether the verdict moved.

    ``duration`` is active time in nanoseconds; ``moved`` is None in the first round; ``refusals`` are those
    of this gate so far, of ``allowed``.
    """

    node: str
    gate: str
    round: int
    judgement: str
    verdict: str | None = None
    moved: bool | None = None
    nodes: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    duration: int = 0
    refusals: int = 0
    allowed: int = 0


class RoundStarted(Fact, frozen=True):
    """The nodes of a new round entered the graph with all of their edges.

    ``node`` is the gate that refused; ``moved`` says what waits for the new round from here on; ``continued``
    and ``fresh`` name those of the new nodes that go on with a conversation, or begin one.
    """

    node: str
    gate: str
    round: int
    nodes: tuple[RoundNode, ...]
    edges: tuple[Edge, ...] = ()
    moved: tuple[EdgeMoved, ...] = ()
    continued: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    refusals: int = 0
    allowed: int = 0
