"""Small runs for tests of one rule: a plan in a line, and commands in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from emissions import Receipt
from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.apply import apply
from orchestrator.core.decisions import Decision
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record
from orchestrator.core.spec import Edge, Operation, Plan, RoleSpec
from orchestrator.core.status import Status
from tests.core.driver import Log

#: What the core acts on.
ACTED_ON = ("SpawnRequest", "TaskAssignment", "Verdict", "Finding")
#: A role that may say everything that the core acts on, and one above it.
ROLES = (
    RoleSpec(name="worker", emits=ACTED_ON, escalates_to="senior"),
    RoleSpec(name="senior", emits=("SpawnRequest", "Verdict", "Finding")),
)


def plan(*operations: Operation | str, edges: Sequence[Edge | str] = (), **options: Any) -> Plan:
    """A plan; ``"a"`` is a node of the role worker, ``"a>b"`` an edge."""
    made = tuple(Operation(name=one, role="worker") if isinstance(one, str) else one for one in operations)
    links = tuple(one if isinstance(one, Edge) else edge(one) for one in edges)
    return Plan(operations=made, edges=links, roles=options.pop("roles", ROLES), **options)


def edge(text: str) -> Edge:
    source, target = text.split(">")
    return Edge(source=source, target=target)


class Small(Log):
    """A run whose commands are said in words; every law is checked after each."""

    def __init__(self, graph: Plan, *values: bytes, **start: Any) -> None:
        super().__init__()
        self.tell(c.Start("r", graph, **start), *values)

    def status(self, node: str) -> Status:
        return self.state.nodes[node].status

    def statuses(self) -> dict[str, str]:
        return {name: node.status.value for name, node in self.state.nodes.items()}

    def attempt(self, node: str) -> int:
        return self.state.nodes[node].attempt

    def finish(self, node: str, outcome: str = "completed", value: bytes = b"1", **more: Any) -> Decision:
        if outcome == "failed":
            more.setdefault("error", f.Failure("ValueError", "no", self.attempt(node)))
        values = (value, *more.pop("values", ()))
        return self.tell(c.Finish(node, self.attempt(node), outcome, 0, **more), *values)

    def verdict(self, node: str, verdict: str) -> Decision:
        payload = msgspec.json.encode({"verdict": verdict, "rationale": "because"})
        emission = c.EmissionIn("Verdict", 1, "result")
        return self.finish(node, emissions=(emission,), values=(payload,))

    def emit(self, node: str, kind: str, channel: str = "call", **payload: Any) -> Receipt:
        emission = c.EmissionIn(kind, 0, channel, payload.get("key"))
        decision = self.tell(c.Emit(node, self.attempt(node), emission), msgspec.json.encode(payload))
        return decision.receipts[0]

    def stopped(self, node: str) -> Decision:
        return self.tell(c.AttemptStopped(node, self.attempt(node)))

    def facts_of(self, kind: type[f.Fact]) -> list[Any]:
        return [fact for record in self.records for fact in record.facts if type(fact) is kind]

    def kinds(self) -> list[str]:
        """Kinds of the last record's facts."""
        return [type(fact).__name__ for fact in self.records[-1].facts]


def moves(records: Sequence[Record]) -> list[tuple[str, Status, Status]]:
    """Every change of a status, fact by fact: node, from, to."""
    state = GraphMachine().state
    found = []
    for record in records:
        frame = Decision(state, record.command, record.at, [bytes(value) for value in record.values])
        for fact in record.facts:
            before = {name: node.status for name, node in state.nodes.items()}
            apply(state, fact, frame)
            found += [
                (name, before[name], node.status)
                for name, node in state.nodes.items()
                if name in before and before[name] is not node.status
            ]
    return found
