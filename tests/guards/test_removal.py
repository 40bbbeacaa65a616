"""Every guard is missed when it is gone (remove.py), and the script that says so is no rubber stamp."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guards.remove import GUARDS, ROOT, Guard, Moved, Removal, copy, found_in, green, removed, told

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages and the tests, apart from those that others use meanwhile."""
    folder = tmp_path_factory.mktemp("copy")
    copy(folder)
    return folder


@pytest.mark.slow
def test_the_chosen_tests_are_green(copied: Path):
    """With every guard in place nothing is red: what is red later is red for want of a guard."""
    assert not green(copied)


@pytest.mark.slow
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_every_guard_is_missed(guard: Guard, copied: Path):
    """Removed one at a time, wherever they stand: each time at least one test turns red."""
    missed, word = told(copied, guard)
    assert missed, word


def test_every_guard_stands_where_it_is_said_to():
    """A guard that was rewritten is noticed by every run of the tests, not only by a slow one."""
    names = "lock, cap check, cycle check, effect hold, epoch check, emits check, dedupe"
    assert ", ".join(guard.name for guard in GUARDS) == names
    found_in(ROOT)


@pytest.mark.parametrize("old", ["gone", "twice"])
def test_a_guard_that_moved(old: str):
    """What is not there exactly once is not replaced in silence."""
    with pytest.raises(Moved, match="not once"):
        removed("twice twice", Removal("x.py", old, "", ()))
