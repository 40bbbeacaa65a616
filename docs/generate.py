"""Writes the pages that are made from the code: `make docs`. A test compares them with what is committed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from docs.flow_reference import flow_reference
from orchestrator.core.facts import FACTS, Fact
from orchestrator.core.status import ENDED, SUSPENDED, TERMINAL, RunReason, Status
from orchestrator.core.table import TRANSITIONS
from orchestrator.flows.document import flow_schema

HERE = Path(__file__).resolve().parent

#: heading -> what the names of its facts look like; the first match wins
GROUPS = {
    "The run": r"Run|GraphPlanned|DrainRequested|CancelRequested|BudgetRaised",
    "Gates": r"Gate|Round",
    "Emissions": r"Emission|SpawnRefused|Refusals",
    "People": r"Question|Steer",
    "Nodes": r"Node|Attempt|CancelIgnored|ResultStale",
    "Steps": r"Steps?(?=[PSC])|StateUpdated|RouteSelected|CheckpointSaved|Write|Breakpoint",
    "Things": r"",
}

EVENTS = """\
# Events

<!-- Made by docs/generate.py from orchestrator/core/facts.py. Do not edit. -->

Every decision is a fact, and every fact is published once it is durable: to taps, to `callboard run --json`,
and to streams of events. All of them carry the same envelope:

| field | meaning |
|---|---|
| `v` | version of the envelope: 1. Fields are added, never changed |
| `run` | the run's id |
| `seq` | the fact's number in its run; null for progress, which is not journaled |
| `kind` | one of the names below |
| `node`, `attempt`, `role` | whom it is about, as stamped by the engine |
| `cause` | the `seq` of what led to it |
| `at` | wall time, to be shown and never to be computed with |
| `data` | the fields of the kind |
"""


def first_sentences(cls: type | Callable[..., object]) -> str:
    """The first paragraph of a docstring, as one line of a table."""
    paragraph = (cls.__doc__ or "").strip().partition("\n\n")[0]
    return re.sub(r"\s+", " ", paragraph).replace("``", "`").replace("|", r"\|")


def group(kind: str) -> str:
    """The heading that a kind of fact stands under."""
    return next(heading for heading, pattern in GROUPS.items() if re.match(pattern, kind))


def row(fact: type[Fact]) -> str:
    """One line of a table: the kind, what it means, its fields."""
    fields = ", ".join(f"`{field.name}`" for field in msgspec.structs.fields(fact))
    return f"| `{fact.__name__}` | {first_sentences(fact)} | {fields} |"


def events() -> str:
    """The page of all kinds of facts."""
    parts = [EVENTS]
    for heading in ("The run", "Nodes", "Emissions", "Gates", "People", "Steps", "Things"):
        rows = [row(fact) for fact in FACTS if group(fact.__name__) == heading]
        parts += [f"\n## {heading}\n", "| kind | meaning | data |\n|---|---|---|", *rows]
    return "\n".join(parts) + "\n"


STATES = """\
# States

<!-- Made by docs/generate.py from the table of transitions in orchestrator/core/table.py. Do not edit. -->

A node stands in exactly one status. These are all of them, and below are all ways from one to another: what
is not in the table does not happen. Every way is taken by one decision, and every decision is on record.
"""

#: in words, before any code
STATUSES = {
    Status.WAITING: "Some predecessor has not let go of it yet",
    Status.READY: "It may run, and waits for the end of a pause, a slot, or a limit or branch that it needs",
    Status.RUNNING: "An attempt of it is running; it holds a slot",
    Status.STOPPING: "Its attempt was told to stop and has not stopped yet; it still holds its slot",
    Status.ASKING: "It waits for the answer to a question; it holds no slot, no clock runs",
    Status.BACKING_OFF: "An attempt failed; the next one follows after a delay",
    Status.COMPLETED: "It has its value",
    Status.FAILED: "Its last attempt failed, or it could not start",
    Status.SKIPPED: "It is not needed: no edge carries it, a condition was false, or it says so itself",
    Status.VETOED: "It is not allowed: a gate above it rejected",
    Status.CANCELLED: "It was stopped from outside",
    Status.ESCALATED: "It gave its work up to a child one tier higher",
}

REASONS = {
    RunReason.COMPLETED: "Nothing failed unhandled and no gate rejected",
    RunReason.FAILED: "A failure that no edge accepted or that stops the run, or two writes that clash",
    RunReason.GATE_REJECTED: "A gate rejected; what depends on it was vetoed, the rest ran",
    RunReason.REFUSALS_EXHAUSTED: "A gate refused until no round was left",
    RunReason.CANCELLED: "Somebody cancelled the run",
    RunReason.GATE_UNDECIDED: "A gate gave no readable verdict; everything else ran",
    RunReason.AWAITING_ANSWER: "A question has no answer; everything else ran",
    RunReason.BUDGET_EXHAUSTED: "Tokens or cost are used up; what ran has finished",
    RunReason.DEADLINE: "The wall clock budget is used up; attempts were stopped",
    RunReason.QUOTA: "A provider takes no more calls for now",
    RunReason.DRAINED: "Somebody asked it to finish what runs and start nothing",
    RunReason.INTERRUPTED: "Its process was told to stop",
    RunReason.STUCK: "Nothing can go on, and no reason above says why: the waiters are listed",
    RunReason.NEEDS_RECOVERY: "The journal failed, or a decision did: what is on disk has to be read again",
}


def rule(function: Callable[..., object]) -> str:
    """What a rule of the table does, without the pair of statuses that its docstring begins with."""
    text = re.sub(r"^\([^)]*\): ", "", first_sentences(function)).rstrip(".")
    return text[:1].upper() + text[1:]


def diagram() -> str:
    """The ways between statuses as a picture; cancelling is left out of it, for it leads from everywhere."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR", "    [*] --> waiting"]
    for before, after in TRANSITIONS:
        if after is not Status.CANCELLED:
            lines.append(f"    {before.value} --> {after.value}")
    lines += [f"    {status.value} --> [*]" for status in Status if status in TERMINAL]
    return "\n".join([*lines, "```"])


def states() -> str:
    """The page of statuses, transitions and reasons."""
    kinds = {status: "settled" if status in TERMINAL else "live" for status in Status}
    stops = {reason: "ended" if reason in ENDED else "suspended" for reason in (*ENDED, *SUSPENDED)}
    parts = [
        STATES,
        "| status | | meaning |\n|---|---|---|",
        *(f"| `{status.value}` | {kinds[status]} | {STATUSES[status]} |" for status in Status),
        f"\n## From one to another\n\nAnything live can also be cancelled.\n\n{diagram()}\n",
        "| from | to | when |\n|---|---|---|",
        *(f"| `{a.value}` | `{b.value}` | {rule(function)} |" for (a, b), function in TRANSITIONS.items()),
        "\nA `retry` opens a settled node again: it waits, and its next generation begins.",
        "\n## Why a run stops\n",
        "Ended: every node has settled. Suspended: it can go on. Of several, the hardest is told.\n",
        "| reason | | meaning |\n|---|---|---|",
        *(f"| `{reason.value}` | {stops[reason]} | {REASONS[reason]} |" for reason in RunReason),
    ]
    return "\n".join(parts) + "\n"


def schema() -> str:
    """What `callboard schema` prints."""
    return msgspec.json.format(msgspec.json.encode(flow_schema()), indent=2).decode() + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "events.md": events,
    "flow-reference.md": flow_reference,
    "flow.schema.json": schema,
    "states.md": states,
}


def main() -> None:
    """Write every page that is not what it should be."""
    for name, page in PAGES.items():
        path, text = HERE / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"docs/{name}: written")


if __name__ == "__main__":
    main()
