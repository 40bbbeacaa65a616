"""What the runs of a journal came to, as plain data: what is compared with what was recorded beside it."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from orchestrator.core.machine import GraphMachine
from orchestrator.journal.reading import open_journal
from orchestrator.runtime.projections import run_result

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator import RunResult
    from orchestrator.core.records import Record

#: Bytes from which a value is told by its hash.
_LONG = 1_000

__all__ = ["kinds_of", "outcome", "outcomes", "records_of", "state_of"]


def records_of(journal: Path) -> dict[str, list[Record]]:
    """Every record, by run, each checked against the one before."""
    with open_journal(journal) as reader:
        return {info.run: list(reader.records(info.run)) for info in reader.runs()}


def state_of(records: list[Record]) -> Any:
    """What is true after these records."""
    machine = GraphMachine()
    for record in records:
        machine.replay(record)
    return machine.state


def outcomes(journal: Path) -> dict[str, Any]:
    """Run -> what it came to and what it is made of, as JSON gives it back."""
    told = {}
    for run, records in records_of(journal).items():
        facts, commands = kinds_of(records)
        told[run] = {
            "records": len(records),
            "facts": dict(sorted(facts.items())),
            "commands": dict(sorted(commands.items())),
            **outcome(run_result(state_of(records))),
        }
    return dict(json.loads(json.dumps(told)))


def kinds_of(records: list[Record]) -> tuple[Counter[str], Counter[str]]:
    """How many facts and commands there are of each kind."""
    facts = Counter(type(fact).__name__ for record in records for fact in record.facts)
    return facts, Counter(type(record.command).__name__ for record in records)


def outcome(result: RunResult) -> dict[str, Any]:
    """A result without the words that are for people only, which may be put better one day."""
    return {
        "name": result.name,
        "reason": str(result.reason),
        "nodes": {name: _node(node) for name, node in result.nodes.items()},
        "context": dict(result.final_context),
        "spawned": list(result.spawned),
        "rejected": list(result.gate_rejected_operations),
        "waiters": sorted(result.waiters),
        "dropped": [
            [one.emitter_id, one.reason, one.assignee, one.key, one.count] for one in result.dropped_spawns
        ],
    }


def _node(node: Any) -> dict[str, Any]:
    told = {
        "status": str(node.status),
        "value": node.value if len(node.raw or b"") < _LONG else sha256(node.raw).hexdigest(),
        "attempts": node.attempts,
        "error": None if node.error is None else [node.error.type, node.error.message, node.error.attempt],
        "role": node.role,
        "branch": node.branch,
        "spawned_by": node.spawned_by,
        "superseded_by": node.superseded_by,
        "vetoed_by": list(node.vetoed_by),
        "judgement": node.judgement,
        "restored": node.restored or None,
    }
    return {key: value for key, value in told.items() if value not in (None, [], {})}
