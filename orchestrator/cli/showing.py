"""``callboard show`` and ``story``: what a run came to, and everything about one of its nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from orchestrator.cli.edge import clean, clean_json, clean_lines, note, say, say_json
from orchestrator.cli.journals import find, reading, recorded
from orchestrator.cli.opening import UsageError
from orchestrator.cli.options import ShowOptions, StoryOptions
from orchestrator.cli.page import page
from orchestrator.cli.rounds import round_lines
from orchestrator.cli.shown import shown
from orchestrator.cli.stepping import step_lines
from orchestrator.cli.summary import Told, decision, details, headline, result_json
from orchestrator.cli.views import forked_from
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import TERMINAL
from orchestrator.core.story import story as tell
from orchestrator.runtime.generations import Generation, generations
from orchestrator.runtime.given import Given
from orchestrator.runtime.projections import display_state, shown_nodes
from orchestrator.runtime.recorded import LIVE, RecordedRun, read_run
from orchestrator.runtime.results import NodeResult, RunResult

__all__ = ["show", "story"]

_SHOWN: Final = 60
_LIMITS: Final = ("spawns", "depth", "escalations", "concurrency", "tokens", "cost_usd", "wall_clock")


def show(options: ShowOptions) -> int:
    """Print what a run came to, or write it as a page.

    Raises:
        UsageError: no such run, or messages and no page. JournalError: it cannot be read.
        OSError: the page cannot be written.
    """
    if options.messages and options.html is None:
        raise UsageError("--with-messages is about the page: show RUN --html FILE --with-messages")
    with reading(options.journal) as (reader, place):
        run = recorded(reader, options.run)
        if options.html is not None:
            text = page(run, reader.records(run.run_id), messages=options.messages)
            options.html.write_text(text, encoding="utf-8")
            note(f"written {options.html} ({len(text.encode()):,} bytes)")
            return 0
    if not run.seq:
        say(f"{run.run_id} was killed before it began; nothing is recorded")
        return 0
    result = run.result()
    told = Told(run.seconds, place, live=run.standing == LIVE)
    if options.budget:
        say("\n".join(_budget(run.state)))
    elif options.rounds:
        say("\n".join(round_lines(result)))
    elif options.json:
        say_json(result_json(result, told))
    else:
        say("\n".join(_shown(run, result, told)))
    return 0


def _shown(run: RecordedRun, result: RunResult, told: Told) -> Iterator[str]:
    line = headline(result, told.seconds)
    if told.live:
        word = "live, paused" if run.state.paused else "live"
        line = line.replace(f" {result.reason}:", f" {word}:", 1).rpartition(", exit")[0]
    yield line
    if told.live:
        yield f"  run       {run.run_id}"
    if run.state.parent:
        yield f"  part of   {clean(run.state.parent)}, node {clean(run.state.parent_node)}"
    if run.state.origin:
        yield f"  forked    from {clean(forked_from(run.state))}"
    yield from step_lines(run.state)
    yield from details(result, told)
    yield f"  last      {_ago(run.wall)}"
    yield ""
    states = [_state(run.state, node) for node in shown_nodes(run.state).values()]
    widths = [max((len(state) for state in states), default=0), max(map(len, result.nodes), default=0)]
    for state, node in zip(states, result.nodes.values(), strict=True):
        words = "  ".join(_words(node))
        yield f"{state:<{widths[0]}}  {clean(node.name):<{widths[1]}}  {words}".rstrip()


def _state(state: RunState, node: NodeState) -> str:
    held = any(state.nodes[edge.source].judgement == "undecided" for edge in node.ins)
    return display_state(node.status, paused=state.paused, held=held, opened=node.opened)


def _words(node: NodeResult) -> Iterator[str]:
    """What is worth knowing of one node, in one line."""
    if node.attempts and node.status in TERMINAL:
        yield f"{node.duration:.2f} s"
    if node.instances is not None:
        yield f"{node.instances:,} instances{f', {node.left_out:,} left out' if node.left_out else ''}"
    if node.attempts > 1:
        yield f"attempt {node.attempts}"
    if node.role is not None and node.role != node.name:
        yield f"role {clean(node.role)}"
    if node.child_run:
        yield f"run {clean(node.child_run)}"
    if node.spawned_by is not None:
        yield f"spawned by {clean(node.spawned_by)}"
    if node.superseded_by is not None:
        yield f"escalated to {clean(node.superseded_by)}"
    if node.judgement is not None:
        yield f"{node.judgement}{clean(decision(node))}"
    if node.error is not None:
        yield clean(str(node.error))[:_SHOWN]
    elif node.reason:
        yield clean(node.reason)[:_SHOWN]
    if node.artifacts:
        files = (f"{clean(one.name)} (sha256 {one.sha256[:12]})" for one in node.artifacts)
        yield f"left {', '.join(files)}"
    if node.raw is not None and node.raw != b"null":
        text = clean(node.raw.decode())
        yield f"gave {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"


def _ago(wall: int) -> str:
    at = datetime.fromtimestamp(wall / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    seconds = max(0.0, time.time() - wall / 1e9)
    for size, word in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{at}, {seconds / size:.0f} {word} ago"
    return f"{at}, {seconds:.0f} s ago"


def _budget(state: RunState) -> Iterator[str]:
    """What is used of each limit."""
    nodes = state.nodes.values()
    used: dict[str, float] = {
        "spawns": state.spawns,
        "depth": max((node.generations for node in nodes), default=0),
        "escalations": state.escalations,
        "concurrency": state.slots,
        "tokens": sum(node.input_tokens + node.output_tokens for node in nodes),
        "cost_usd": sum(node.cost_usd or 0.0 for node in nodes),
        "wall_clock": state.at / 1e9,
    }
    names = list(_LIMITS)
    if state.steps is not None:
        steps = state.steps
        agents = steps.agents
        used["tokens"] += agents.input_tokens + agents.output_tokens
        used["cost_usd"] += agents.cost_usd or 0.0
        used["depth"] = max((task.depth for task in steps.active.values()), default=0)
        used |= {"steps": steps.steps, "visits": max(steps.visits.values(), default=0), "tasks": steps.tasks}
        names = [*(name for name in _LIMITS if name != "escalations"), "steps", "visits", "tasks"]
    yield f"{'limit':<12} {'used':>12}  {'of':>12}"
    for name in names:
        limit = getattr(state.budget, name)
        yield f"{name:<12} {_number(used[name]):>12}  {'no limit' if limit is None else _number(limit):>12}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


# --- one node ----------------------------------------------------------------------------------


def story(options: StoryOptions) -> int:
    """Print every fact about a node, and what it was given.

    Raises:
        UsageError: no such run or node. JournalError: it cannot be read.
    """
    with reading(options.journal) as (reader, _):
        run_id = find(reader, options.run)
        state = read_run(reader, run_id).state
        name = state.in_round(options.node)
        if state.steps is not None and name in (newest := shown_nodes(state)):
            name = newest[name].op.name
        lines = tell(reader.records(run_id), name)
        run = RecordedRun(run_id)
        lives = generations(run, reader.records(run_id), name)
        texts = list(shown(reader.records(run_id), name))
    if not lives and not lines:
        near = get_close_matches(options.node, run.state.nodes, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; `callboard show {run_id}` lists them"
        raise UsageError(f"run {run_id} has no node {options.node!r}{hint}")
    if options.json:
        told = _json(run, name, lines, lives)
        told["shown"] = [{"attempt": attempt, "text": text} for attempt, text in texts]
        say_json(msgspec.json.encode(told))
        return 0
    say("\n".join(clean(line) for line in lines))
    for life in lives:
        if len(lives) > 1 or life.dropped:
            say(f"\n--- generation {life.number}: {life.status}{', dropped since' if life.dropped else ''}")
        for text in _life(life):
            say(text)
    for attempt, text in texts:
        say(f"\nshown in attempt {attempt}\n{_indented(clean_lines(text))}")
    return 0


def _json(run: RecordedRun, name: str, lines: list[str], lives: list[Generation]) -> dict[str, Any]:
    """The last generation in full beside the list of all."""
    told = [
        {
            "generation": life.number,
            "status": life.status,
            "dropped": life.dropped,
            "given": None if life.given is None else life.given.mapping(),
            "value": None if life.value is None else msgspec.Raw(life.value),
            "error": life.error,
        }
        for life in lives
    ]
    last = told[-1] if told and name in run.state.nodes else {}
    return {
        "v": 1,
        "run": run.run_id,
        "node": name,
        "status": last.get("status"),
        "story": lines,
        "given": last.get("given"),
        "value": last.get("value"),
        "generations": told,
    }


def _life(life: Generation) -> Iterator[str]:
    """What a node was given, and what came of it."""
    if life.given is not None:
        yield from _given(life.given)
    if life.value is not None:
        yield f"\ngave\n{_indented(clean_json(msgspec.json.format(life.value, indent=2)).decode())}"
    if life.error is not None:
        yield f"\nfailed\n{_indented(clean_lines(f'{life.error.type}: {life.error.message}'))}"
        if life.error.traceback:
            yield _indented(clean_lines(life.error.traceback))


def _given(given: Given) -> Iterator[str]:
    """The exact text, and what came with it."""
    if given.instruction:
        yield f"\ninstruction\n{_indented(clean_lines(given.instruction))}"
    for word, data in (
        ("parameters", given.parameters),
        ("inputs", given.inputs),
        ("context", given.context),
    ):
        if data:
            raw = msgspec.json.format(msgspec.json.encode(data), indent=2)
            yield f"\n{word}\n{_indented(clean_json(raw).decode())}"
    for name, error in given.failed.items():
        yield f"\nfailed before it: {clean(name)}: {clean(error)}"
    for fault in given.faults:
        yield f"\nnot shown: {clean(fault)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
