"""Durability: SIGKILL at every boundary of the canonical run, in each mode; X6 and X10."""

from __future__ import annotations

import itertools
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from orchestrator.errors import OperationError, RunOwnedError
from orchestrator.journal import MemoryJournal
from orchestrator.supersteps.holding import HeldJournal, held
from orchestrator.testing.loops import run_virtual
from tests.recovery.crashing import MOMENTS, Point, driven, forked
from tests.supersteps import killed
from tests.supersteps.rig import lawful, records

BACKENDS = ("asyncio", "trio")


def looked(folder: Path, backend: str):
    """What the canonical run has come to: its history, and how often each task's code ran."""

    async def look(folder):
        app = killed.canonical(folder)
        lawful(app, killed.THREAD)
        return await killed.shape(app)

    calls = (folder / "calls").read_text().splitlines()
    return run_virtual(look, folder, backend=backend), sorted(calls)


@pytest.fixture(scope="module", params=BACKENDS)
def uninterrupted(request, tmp_path_factory):
    """The run that nobody stopped, and the number of its appends."""
    folder = tmp_path_factory.mktemp("whole")
    assert not driven(folder, request.param, drive=killed.drive)
    return request.param, looked(folder, request.param), int((folder / "appends").read_text())


def test_the_canonical_run_is_what_it_says(uninterrupted):
    _, (history, calls), appends = uninterrupted
    assert history[0][3]["total"] == 9 and history[0][4] == ()
    assert calls.count("work 1") == 3 and appends > 20


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_X10_sync_killed_at_every_boundary_is_as_if_nobody_had_stopped_it(uninterrupted, moment, tmp_path):
    """The same state, the same history; what had settled never runs again."""
    backend, (history, calls), appends = uninterrupted
    for nth in range(1, appends + 1):
        folder = tmp_path / f"{moment}-{nth}"
        folder.mkdir()
        assert driven(folder, backend, Point(nth, moment), drive=killed.drive)
        assert not driven(folder, backend, drive=killed.drive)
        found, again = looked(folder, backend)
        assert found == history, (nth, moment)
        # at most what was under way at the kill runs once more
        assert len(again) - len(calls) <= 2
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["async", "exit"])
def test_async_and_exit_lose_a_tail_and_never_more_than_they_say(uninterrupted, durability, tmp_path):
    backend, (history, _), _ = uninterrupted
    drive = partial(killed.drive, durability=durability)
    for nth in itertools.count(1):
        folder = tmp_path / str(nth)
        folder.mkdir()
        died = driven(folder, backend, Point(nth, "stored"), drive=drive)
        if died:
            assert not driven(folder, backend, drive=drive)
        found, _ = looked(folder, backend)
        assert [one[3:] for one in found] == [one[3:] for one in history]
        shutil.rmtree(folder)
        if not died:
            break


def test_sync_when_a_task_of_the_next_step_starts_the_checkpoint_is_on_disk(tmp_path):
    """Seen from inside the task, by a reader of the file."""
    seen = []

    async def drive(folder):
        app = killed.canonical(folder)

        async def looks(_state):
            kinds = [type(f).__name__ for r in records(app, killed.THREAD) for f in r.facts]
            seen.append((kinds.count("CheckpointSaved"), kinds.count("NodeCompleted")))

        for name in ("left", "asks"):
            spec = app.blueprint.nodes[name]
            object.__setattr__(spec, "fn", looks)
        return await app.invoke({"log": []}, thread_id=killed.THREAD)

    run_virtual(drive, tmp_path, backend="asyncio")
    # left: the input's checkpoint and that of start; asks: one more, with what left and right wrote
    assert seen[:2] == [(2, 1), (3, 3)]


def test_a_held_journal_is_a_prefix_and_reads_as_one():
    """The seam's contract: what is answered is readable, in order, whether it is held or not."""
    inner = MemoryJournal()
    journal = HeldJournal(inner, None)
    made = _records()
    answers = []
    for record in made[:-1]:
        journal.submit([record], answers.append)
    assert answers == [None] * (len(made) - 1) and len(inner) == 0
    assert [one.seq for one in journal.read(0)] == [one.seq for one in made[:-1]]
    journal.submit(made[-1:], answers.append)
    assert len(inner) == len(made) and [one.seq for one in journal.read(1, 3)] == [2, 3]


def test_a_window_bounds_how_far_the_durable_part_is_behind():
    for window in (1, 2):
        inner = MemoryJournal()
        journal = HeldJournal(inner, window)
        for record in _records():
            journal.submit([record], lambda error: None)
            held_ = [fact for one in journal.read(len(inner)) for fact in one.facts]
            assert sum(type(fact).__name__ == "CheckpointSaved" for fact in held_) < window


def _records():
    async def drive(folder):
        from tests.supersteps.rig import chain

        app = chain("a", "b", "c")
        await app.invoke({"log": []}, thread_id="t")
        return list(records(app, "t"))

    return run_virtual(drive, Path(), backend="asyncio")


@pytest.mark.parametrize(("mode", "window"), [("never", 1), ("async", 0), ("async", True)])
def test_a_mode_that_does_not_exist_is_named(mode, window):
    with pytest.raises(OperationError):
        held(MemoryJournal(), mode, window)


def test_X6_of_two_processes_one_gets_the_lease_before_any_node_runs(tmp_path):
    async def drive(folder):
        app = killed.canonical(folder)

        async def other(_state):
            def work():
                async def second(folder):
                    with pytest.raises(RunOwnedError):
                        await killed.canonical(folder).invoke({"log": []}, thread_id=killed.THREAD)

                # the child of a fork still runs its parent's loop in this thread
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(run_virtual, second, folder, backend="asyncio").result()

            assert not forked(work)

        object.__setattr__(app.blueprint.nodes["start"], "fn", other)
        result = await app.invoke({"log": []}, thread_id=killed.THREAD)
        assert result.reason == "awaiting_answer", result
        return os.getpid()

    run_virtual(drive, tmp_path, backend="asyncio")
    assert "start" not in (tmp_path / "calls").read_text().split()
