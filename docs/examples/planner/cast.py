"""A planner of a todo list, and those whom it gives work to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator import Artifact, Gap, TaskAssignment, Turn, role

ITEM = re.compile(r"^\s*[-*] \[(?P<done>[ xX])\] (?P<text>.+?)\s*$")
AFTER = re.compile(r"\s*\(after (?P<names>[^()]+)\)$")
SUFFIXES = {".md", ".txt"}


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a todo list: `- [ ] name: what to do (after other, another)`."""

    name: str
    text: str
    place: str
    after: tuple[str, ...]
    done: bool


@role(emits=(TaskAssignment, Gap))
def planner(turn: Turn) -> list[TaskAssignment | Gap]:
    """Give each open item to a worker, after the items that it waits for, and the summary to the clerk."""
    if turn.instruction.startswith("[PLAN REFUSED]"):  # the same list gives the same plan
        msg = f"the list cannot be planned as it is; mend it: {turn.instruction}"
        raise ValueError(msg)
    items = _items(Path(turn.instruction))
    open_items = {item.name: item for item in items if not item.done}
    known = {item.name for item in items}
    gaps = [
        Gap(area=item.place, what_is_unknown=f"{item.name} waits for {name}, which is not on the list")
        for item in open_items.values()
        for name in item.after
        if name not in known
    ]
    tasks = [
        TaskAssignment(
            name=item.name,
            task=item.text,
            assignee="worker",
            inputs={"place": item.place},
            depends_on=[name for name in item.after if name in open_items],
        )
        for item in open_items.values()
    ]
    summary = TaskAssignment(
        name="agenda",
        task=f"{len(items) - len(open_items)} done, {len(open_items)} open",
        assignee="clerk",
        depends_on=[task.name for task in tasks],
    )
    return [*gaps, *tasks, summary]


@role()
def worker(turn: Turn) -> dict[str, Any]:
    """Look at one item: what it is, where it stands, and the step in which it can be done."""
    before = [value["step"] for value in turn.inputs.values() if isinstance(value, dict) and "step" in value]
    name, place = turn.node, turn.parameters["place"]
    return {"name": name, "task": turn.instruction, "place": place, "step": 1 + max(before, default=0)}


@role(artifacts=(Artifact("agenda", "AGENDA.md"),))
def clerk(turn: Turn) -> dict[str, Any]:
    """Write the agenda: what can be done at once stands in one step."""
    steps: dict[int, list[str]] = {}
    for value in turn.inputs.of(role="worker").values():
        line = f"- {value['name']}: {value['task']} ({value['place']})"
        steps.setdefault(value["step"], []).append(line)
    parts = [f"## Step {step}\n\n" + "\n".join(lines) for step, lines in sorted(steps.items())]
    unknown = [f"- {gap.area}: {gap.what_is_unknown}" for gap in turn.emissions(Gap)]
    if unknown:
        parts.append("## Unknown\n\n" + "\n".join(unknown))
    text = "\n\n".join([f"# {turn.instruction}", *parts]) + "\n"
    turn.artifacts["agenda"].write_text(text, encoding="utf-8")
    return {"text": text}


def _items(source: Path) -> list[Item]:
    """Read the items of a file, or of all files of a folder.

    Raises:
        ValueError: two items have the same name.

    """
    files = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.suffix in SUFFIXES)
    if not files:
        msg = f"{source}: there is no todo file; name a file, or a folder with .md or .txt files"
        raise ValueError(msg)
    items: dict[str, Item] = {}
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if item := _item(line, f"{file.name}:{number}"):
                if item.name in items:
                    msg = f"{item.place}: {item.name} is at {items[item.name].place} already; rename one"
                    raise ValueError(msg)
                items[item.name] = item
    return list(items.values())


def _item(line: str, place: str) -> Item | None:
    """Read one line; None if it is no item."""
    found = ITEM.match(line)
    if found is None:
        return None
    text, after = found["text"], ()
    if waits := AFTER.search(text):
        text, after = text[: waits.start()], tuple(_slug(name) for name in waits["names"].split(","))
    name, _, rest = text.partition(":")
    if rest and _slug(name) == name.strip():
        return Item(name.strip(), rest.strip(), place, after, found["done"] != " ")
    return Item(_slug(text), text, place, after, found["done"] != " ")


def _slug(text: str) -> str:
    """What a node can be called."""
    return re.sub(r"\W+", "_", text.strip().lower()).strip("_")[:40] or "item"
