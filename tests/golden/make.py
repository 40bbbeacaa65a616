"""Record golden journals: ``python tests/golden/make.py NAME...``; what exists is never written again.

The runs are fixed: the roles of ``cast.py`` under a virtual clock. Two recordings differ in ids of runs and
in wall time only, but a recording is not there to be made again: see README.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import anyio

from orchestrator import Budget, Finding, Session
from orchestrator.journal.control import request
from orchestrator.testing.loops import run_virtual
from tests.golden import threads
from tests.golden.outcomes import outcomes
from tests.golden.shelf import FOLDER, GOLDEN, written_out

#: Where the cast stands while it is recorded: a run names the files of its functions.
STAGE: Final = Path(tempfile.gettempdir()) / "callboard-golden"
JOURNAL: Final = STAGE / "journal.db"
BUDGET: Final = Budget(spawns=10, concurrency=4)


def staged() -> Any:
    """The cast, as a module of the stage."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir()
    place = shutil.copy(FOLDER / "cast.py", STAGE / "cast.py")
    for document in (FOLDER / "flows").glob("*.yaml"):
        shutil.copy(document, STAGE)
    spec = importlib.util.spec_from_file_location("golden_cast", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden_cast"] = module
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def session(cast: Any) -> Any:
    """A session on the stage's journal, on virtual time."""
    clock = lambda: int(anyio.current_time() * 1e9)
    # what is planned brings its own roles along
    async with Session((cast.digger, cast.plain), journal=JOURNAL, clock=clock, folder=STAGE, seed=1) as live:
        live.handles(Finding, cast.on_finding)
        live.register_operation("chat", cast.talk)
        yield live


async def ran(cast: Any, graph: str, **options: Any) -> str:
    """One run to its stop."""
    async with session(cast) as live:
        run = await live.start(getattr(cast, graph)(), **{"budget": BUDGET, **options})
        await run.wait()
    return str(run.id)


async def resumed(cast: Any, run: str, **options: Any) -> str:
    """Go on with a run to its next stop."""
    async with session(cast) as live:
        await (await live.resume(run, **options)).wait()
    return run


def in_process(*args: Any) -> Any:
    """Under a virtual clock, from 0."""
    return run_virtual(*args)


# --- the journals ----------------------------------------------------------------------------------


def grown(cast: Any) -> None:
    """Growth of every kind, refusals, handlers, context; and a node that is given, not run."""
    in_process(_grown, cast)


async def _grown(cast: Any) -> None:
    given = {"found": "extend", "tally": "sum"}
    await ran(cast, "growing", reducers=given, context={"operator_messages": [{"text": "hello", "ts": 0}]})
    await ran(cast, "failing", known={"part": "given"})
    await ran(cast, "wide")


def gates(cast: Any) -> None:
    """Gates that open, reject and say nothing; a person decides; a fork overrules the rejection."""
    run = in_process(_suspended_gate, cast)
    request(JOURNAL, run, "answer", {"node": "mute", "value": "APPROVE", "by": "ada", "because": "I looked"})
    in_process(resumed, cast, run)
    in_process(_fork, cast, run)


async def _suspended_gate(cast: Any) -> str:
    return await ran(cast, "gated")


async def _fork(cast: Any, run: str) -> None:
    async with session(cast) as live:
        forked = await live.fork(run, answers={"vetoes": "APPROVE"}, by="ada", because="it was a trial")
        await forked.wait()


def trouble(cast: Any) -> None:
    """Retry with backoff, escalation, timeout, failures, conditions; a retry that mends; a kill -9."""
    in_process(ran, cast, "troubled")
    run = in_process(ran, cast, "failing")
    cast.World.mended = True
    in_process(_retried, cast, run)
    _killed(cast)
    in_process(resumed, cast, "last")


async def _retried(cast: Any, run: str) -> None:
    async with session(cast) as live:
        await (await live.retry(run)).wait()


def _killed(cast: Any) -> None:
    child = os.fork()
    if child == 0:
        cast.World.deadly = True
        in_process(ran, cast, "dying")
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def people(cast: Any) -> None:
    """Questions, notes, pause, a raised budget, cancels, a drain; one question stays open."""
    run = in_process(ran, cast, "asking")
    request(
        JOURNAL, run, "steer", {"text": "mind the gap", "time": "2026-01-01T00:00:00Z", "node": "listener"}
    )
    request(JOURNAL, run, "answer", {"node": "asker", "key": "colour", "value": "green"})
    request(JOURNAL, run, "answer", {"node": "asker", "key": "colour", "value": "red", "by": "ada"})
    in_process(resumed, cast, run)
    in_process(_controlled, cast)
    in_process(_drained, cast)
    in_process(ran, cast, "asking")


async def _controlled(cast: Any) -> None:
    async with session(cast) as live:
        run = await live.start(cast.controlled(), budget=BUDGET)
        await anyio.sleep(0.5)
        run.pause()
        run.steer("for whoever is next")
        await anyio.sleep(3)
        request(JOURNAL, run.id, "budget", {"name": "spawns", "limit": 12})
        request(JOURNAL, run.id, "inject", {"role": "plain", "key": "op", "after": ["three"]})
        request(JOURNAL, run.id, "resume")
        await anyio.sleep(3)
        run.cancel("two", reason="too long")
        run.steer("to nobody")
        await anyio.sleep(1)
        request(JOURNAL, run.id, "cancel", {"reason": "enough"})
        await run.wait()


async def _drained(cast: Any) -> None:
    async with session(cast) as live:
        run = await live.start(cast.controlled(), budget=BUDGET)
        await anyio.sleep(0.5)
        run.pause()
        run.raise_budget("spawns", 11)
        run.inject("plain", instruction="look around", after=["one"])
        run.resume()
        run.drain()
        await run.wait()


def flows(cast: Any) -> None:
    """Documents: a list, a question as gate, files, a flow in a flow, a plan that is returned once; talk."""
    run = in_process(_document, "lists")
    request(
        JOURNAL,
        run,
        "answer",
        {"node": "may", "key": "may", "value": "APPROVE", "by": "ada", "because": "I read it"},
    )
    in_process(_documents_resumed, run)
    run = in_process(_document, "outer")
    request(JOURNAL, f"{run}.inside", "answer", {"node": "sure", "key": "sure", "value": "yes", "by": "ada"})
    in_process(_documents_resumed, run)
    in_process(_document, "plan")
    in_process(_document, "rework")
    in_process(ran, cast, "talking")


async def _document(name: str) -> str:
    clock = lambda: int(anyio.current_time() * 1e9)
    async with Session(journal=JOURNAL, clock=clock, folder=STAGE, seed=1) as live:
        run = await live.start(STAGE / f"{name}.yaml")
        await run.wait()
    return str(run.id)


async def _documents_resumed(run: str) -> None:
    clock = lambda: int(anyio.current_time() * 1e9)
    async with Session(journal=JOURNAL, clock=clock, folder=STAGE, seed=1) as live:
        await (await live.resume(run)).wait()


def models(_cast: Any) -> None:
    """A model without quota and with it, and a conversation that a second run goes on with."""
    in_process(_apart, threads.talked)


def steps(_cast: Any) -> None:
    """Stepped graphs: branches, joins, Sends, questions, a stop, an edit, a clash, roles as nodes."""
    in_process(_apart, threads.stepped)


def cache(_cast: Any) -> None:
    """A stepped graph whose second thread takes what the first has computed."""
    in_process(_apart, threads.cached)


async def _apart(what: Callable[[Session], Awaitable[None]]) -> None:
    clock = lambda: int(anyio.current_time() * 1e9)
    async with Session((threads.speaker,), journal=JOURNAL, clock=clock, folder=STAGE, seed=1) as live:
        await what(live)


JOURNALS: Final[dict[str, Callable[[Any], None]]] = {
    "cache": cache,
    "grown": grown,
    "flows": flows,
    "gates": gates,
    "models": models,
    "people": people,
    "steps": steps,
    "trouble": trouble,
}


def shown(told: Any, depth: int = 0) -> str:
    """JSON with a line for each node and each fact: what a person compares."""
    if depth == 3 or not isinstance(told, dict | list) or not told:
        return json.dumps(told, ensure_ascii=False)
    pairs = told.items() if isinstance(told, dict) else ((None, item) for item in told)
    inner = "\n" + " " * (depth + 1)
    parts = [("" if key is None else f"{json.dumps(key)}: ") + shown(item, depth + 1) for key, item in pairs]
    around = "{}" if isinstance(told, dict) else "[]"
    return around[0] + inner + f",{inner}".join(parts) + "\n" + " " * depth + around[1] + "\n" * (not depth)


def main(wanted: list[str]) -> int:
    """Record the journals that are named; none of those that exist."""
    for name in wanted or JOURNALS:
        if name not in JOURNALS or (GOLDEN / f"{name}.jsonl").exists():
            known = ", ".join(JOURNALS)
            print(f"{name} is golden already, and stays as it is; or it is none of {known}", file=sys.stderr)
            return 2
    GOLDEN.mkdir(exist_ok=True)
    for name in wanted or JOURNALS:
        JOURNALS[name](staged())
        layout, rows = written_out(JOURNAL)
        kept = GOLDEN / "layout.sql"
        if kept.exists() and kept.read_text(encoding="utf-8") != layout:
            print(f"{kept} is another layout: a new format needs a new folder", file=sys.stderr)
            return 2
        kept.write_text(layout, encoding="utf-8")
        expected = shown(outcomes(JOURNAL))
        (GOLDEN / f"{name}.jsonl").write_text(rows, encoding="utf-8")
        (GOLDEN / f"{name}.expected.json").write_text(expected, encoding="utf-8")
        print(
            f"{name}: {len(rows.encode()) // 1024} KiB of rows, {len(expected.encode()) // 1024} KiB expected"
        )
    shutil.rmtree(STAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
