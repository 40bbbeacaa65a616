"""``callboard ledger`` and ``asks``: what nodes said, and what waits for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from emissions import EMISSIONS
from orchestrator.cli.edge import clean, note, say, say_json
from orchestrator.cli.journals import Place, find, reading, recorded
from orchestrator.cli.opening import UsageError
from orchestrator.cli.options import AsksOptions, LedgerOptions
from orchestrator.core.facts import EmissionAccepted
from orchestrator.core.state import RunState
from orchestrator.journal.reading import JournalReader
from orchestrator.runtime.recorded import read_run

__all__ = ["Open", "asks", "ledger", "open_of"]


def ledger(options: LedgerOptions) -> int:
    """List accepted emissions in their order.

    Raises:
        UsageError: no such run or type. JournalError: it cannot be read.
    """
    for name in options.types:
        if name not in EMISSIONS:
            raise UsageError(f"there is no emission {name!r}; `callboard emissions` lists them")
    with reading(options.journal) as (reader, _):
        for entry in _entries(reader, find(reader, options.run)):
            if options.types and entry["type"] not in options.types:
                continue
            if options.json:
                say_json(msgspec.json.encode(entry))
            else:
                child = f" -> {clean(entry['child'])}" if entry["child"] else ""
                payload = clean(msgspec.json.encode(entry["payload"]).decode())
                say(f"#{entry['seq']} {clean(entry['node'])}: {entry['type']}{child} {payload}")
    return 0


def _entries(reader: JournalReader, run: str) -> Iterator[dict[str, Any]]:
    for record in reader.records(run):
        for seq, fact in enumerate(record.facts, record.first):
            if isinstance(fact, EmissionAccepted):
                yield {
                    "v": 1,
                    "run": run,
                    "seq": seq,
                    "type": fact.emission,
                    "node": fact.node,
                    "role": fact.role,
                    "attempt": fact.attempt,
                    "number": fact.number,
                    "key": fact.key,
                    "child": fact.child,
                    "payload": record.values[fact.payload],
                }


@dataclass(frozen=True, slots=True)
class Open:
    """Something that waits for a person: a question of a node, or a gate without a verdict.

    Attributes:
        node: who asks. key: the question's; None for a gate. question: its text, or why there is no verdict.
        choices, schema: what an answer has to be.
    """

    run: str
    node: str
    key: str | None
    question: str
    choices: tuple[str, ...] = ()
    schema: str | None = None

    @property
    def command(self) -> str:
        """The command that answers it."""
        if self.key is None:
            return f"callboard answer {self.run} {shlex.quote(self.node)} VERDICT --because TEXT"
        return f"callboard answer {self.run} {shlex.quote(self.key)} VALUE"


def open_of(state: RunState) -> Iterator[Open]:
    """What of a run waits for a person; nothing if it has ended."""
    if state.ended:
        return
    for name, node in state.nodes.items():
        if node.judgement == "undecided":
            yield Open(state.run, name, None, node.rationale or "it gave no verdict")
        if node.status == "asking":
            for question in (node.questions or {}).values():
                if question.answer is None:
                    yield Open(
                        state.run, name, question.key, question.text, question.choices, question.schema
                    )


def asks(options: AsksOptions) -> int:
    """List what waits for a person.

    Raises:
        UsageError: no such run. JournalError: it cannot be read.
    """
    with reading(options.journal) as (reader, place):
        if options.run is not None:
            states = [recorded(reader, options.run).state]
        else:
            states = [read_run(reader, info.run).state for info in reader.runs() if info.stopped != "ended"]
    found = [one for state in states for one in open_of(state)]
    for one in found:
        if options.json:
            say_json(msgspec.json.encode({"v": 1, **msgspec.to_builtins(one), "command": one.command}))
        else:
            say(_line(one, place))
    if not found and not options.json:
        note("nothing waits for a person")
    return 0


def _line(one: Open, place: Place) -> str:
    choices = f" [{', '.join(map(clean, one.choices))}]" if one.choices else ""
    kind = "gate " if one.key is None else ""
    question = clean(" ".join(one.question.split()))
    return f"{one.run}  {kind}{clean(one.node)}: {question}{choices}\n  {place.typed(one.command)}"
