"""SIGKILL at every boundary of a run of roles: grown tasks, verdicts, conversations, counts are all kept."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("pydantic_ai")

from orchestrator.runtime.branching import recorded
from orchestrator.testing.loops import run_virtual
from tests.recovery.crashing import Point, driven
from tests.supersteps import killed_roles
from tests.supersteps.rig import lawful


def looked(folder):
    async def look(folder):
        app = killed_roles.cast(folder)
        kinds = lawful(app, killed_roles.THREAD)
        state = app._driver._threads.machine(
            killed_roles.THREAD, app._driver.session.store.records(killed_roles.THREAD)
        ).state
        history = await app.get_state_history(killed_roles.THREAD)
        shape = [(one.checkpoint, one.step, one.source, one.values, one.next) for one in history]
        said = {name: [(m.role, m.content) for m in recorded(state, name)] for name in state.conversations}
        ledger = [(one.task, len(one.entries)) for one in state.steps.agents.ledger]
        return shape, said, ledger, state.spawns, state.ended, kinds.count("TaskSpawned")

    calls = (folder / "calls").read_text().splitlines()
    return run_virtual(look, folder, backend="asyncio"), calls


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert not driven(folder, "asyncio", drive=killed_roles.drive)
    return looked(folder), int((folder / "appends").read_text())


def test_the_run_is_what_it_says(uninterrupted):
    (found, calls), appends = uninterrupted
    _, said, ledger, spawns, ended, _ = found
    assert ended == "gate_rejected" and spawns == 6 and list(said) == ["writer"]
    assert [text for who, text in said["writer"] if who == "assistant"] == ["draft 1", "draft 2", "draft 3"]
    assert [task for task, _ in ledger if task.startswith("scout")] == ["scout@2", "scout@5", "scout@8"]
    assert len(calls) == 3 + 3 + 6 and appends > 20


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["stored", "before"])
def test_killed_at_every_boundary_it_is_as_if_nobody_had_stopped_it(uninterrupted, moment, tmp_path):
    (found, calls), appends = uninterrupted
    for nth in range(1, appends + 1):
        folder = tmp_path / f"{moment}-{nth}"
        folder.mkdir()
        assert driven(folder, "asyncio", Point(nth, moment), drive=killed_roles.drive)
        assert not driven(folder, "asyncio", drive=killed_roles.drive)
        again, called = looked(folder)
        assert again == found, nth
        # a person decides once; what one batch would have settled runs once more
        assert len(called) - len(calls) <= 3
        shutil.rmtree(folder)
