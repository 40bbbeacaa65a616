"""SIGKILL with a child in flight: the tree goes on where it was."""

from __future__ import annotations

import shutil

import pytest

from orchestrator.testing.loops import run_virtual
from tests.recovery.crashing import Point, driven
from tests.supersteps import killed_children as killed
from tests.supersteps.rig import lawful

BACKENDS = ("asyncio", "trio")


def looked(folder, backend):
    """What the tree has come to: its history, and how often each task's code ran."""

    async def look(folder):
        app = killed.family(folder)
        for run in (killed.THREAD, f"{killed.THREAD}.remembers", f"{killed.THREAD}.sub-3-0"):
            lawful(app, run)
        return await killed.shape(app)

    calls = (folder / "calls").read_text().splitlines()
    return run_virtual(look, folder, backend=backend), sorted(calls)


@pytest.fixture(scope="module", params=BACKENDS)
def uninterrupted(request, tmp_path_factory):
    """The tree that nobody stopped, and the number of its appends."""
    folder = tmp_path_factory.mktemp("whole")
    assert not driven(folder, request.param, drive=killed.drive)
    found = looked(folder, request.param)
    assert found[0][0][3]["log"] == ["in", 0, 1, "before a", "a!", "before b", "b!"]
    return request.param, found, int((folder / "appends").read_text())


def again(uninterrupted, point, folder):
    """What a tree that was killed once has come to."""
    backend, (history, calls), _ = uninterrupted
    folder.mkdir()
    died = driven(folder, backend, point, drive=killed.drive)
    if died:
        assert not driven(folder, backend, drive=killed.drive)
    found, ran = looked(folder, backend)
    assert found == history, point
    # at most what was under way at the kill runs once more
    assert len(ran) - len(calls) <= 2, point
    shutil.rmtree(folder)


@pytest.mark.parametrize("nth", [6, 30])
def test_killed_with_a_child_in_flight_the_tree_goes_on(uninterrupted, nth, tmp_path):
    again(uninterrupted, Point(nth, "stored"), tmp_path / "k")


@pytest.mark.slow
def test_killed_at_every_append_of_parent_and_child_is_as_if_nobody_had_stopped_it(uninterrupted, tmp_path):
    for nth in range(1, uninterrupted[2] + 1):
        again(uninterrupted, Point(nth, "stored"), tmp_path / str(nth))


@pytest.mark.slow
def test_a_child_that_is_ahead_of_its_parent_is_taken_back(uninterrupted, tmp_path):
    """In ``exit`` the parent's records may be lost while its child's are there."""
    backend, (history, _), appends = uninterrupted
    for nth in range(1, appends + 1):
        folder = tmp_path / str(nth)
        folder.mkdir()

        async def drive(folder):
            return await killed.drive(folder, durability="exit")

        if driven(folder, backend, Point(nth, "stored"), drive=drive):
            assert not driven(folder, backend, drive=drive)
        found, _ = looked(folder, backend)
        assert [one[3:] for one in found] == [one[3:] for one in history], nth
        shutil.rmtree(folder)
