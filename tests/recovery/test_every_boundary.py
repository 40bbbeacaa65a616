"""The canonical run, killed at every boundary of every append, goes on to the same end.

Bad-inputs 1, 2; RESUME 64 to 67, 75, 76; STEER 117, 118. The kill is a real SIGKILL of a forked process.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.testing.loops import run_virtual
from tests.nightly import parts, seeds
from tests.recovery import canon
from tests.recovery.crashing import (
    MOMENTS,
    Found,
    Point,
    decided_again,
    driven,
    found,
    goes_on,
    in_two,
    sources_kept,
)

if TYPE_CHECKING:
    from orchestrator.testing.loops import Backend

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
QUICK = 14
PAIRS = 50


def whole_run(ram: Path, backend: Backend) -> tuple[Found, int]:
    """The run without a crash, and how many appends it takes."""
    folder = ram / "whole"
    folder.mkdir()
    # once in this process: what is read and compiled once need not be read in every child
    warm = ram / "warm"
    warm.mkdir()
    with sources_kept():
        assert run_virtual(canon.drive, warm, backend=backend) is not None
    assert not driven(folder, backend)
    whole = found(folder)
    decided_again(whole.records)
    return whole, int((folder / "appends").read_text())


def crash(ram: Path, backend: Backend, whole: Found, points: list[Point]) -> str:
    """Crash at each point in turn, then go on to the end. What the run was doing at the last crash."""
    folder = Path(tempfile.mkdtemp(dir=ram))
    crashes = []
    for point in points:
        if not driven(folder, backend, point):
            break
        crashes.append(found(folder))
    driven(folder, backend)
    try:
        goes_on(crashes, found(folder), whole)
    except BaseException as error:
        error.add_note(f"{backend}, killed at {points}")
        raise
    shutil.rmtree(folder)
    return crashes[-1].stopped if crashes else "whole"


def every_point(appends: int) -> list[Point]:
    return [Point(nth, moment) for nth in range(1, appends + 1) for moment in MOMENTS]


@BACKENDS
def test_the_run_is_what_it_says(ram: Path, backend: Backend):
    """Without a crash: every kind of thing happens, so that each can be lost."""
    whole, appends = whole_run(ram, backend)
    kinds = {type(fact).__name__ for record in whole.records for fact in record.facts}
    assert kinds >= {
        *("NodeSpawned", "SpawnRefused", "EmissionAccepted", "NodeEscalated", "GateApproved", "GateRejected"),
        *("GateRefused", "RoundStarted"),
        *("NodeRetryScheduled", "ContextWritten", "QuestionAsked", "QuestionAnswered", "StepMemoised"),
        *("SteerReceived", "SteerDelivered", "ControlApplied", "EdgesJudged", "NodeFailed", "NodeSkipped"),
        *("NodeVetoed", "RunEnded"),
    }
    came = whole.outcome()
    assert came["reason"] == "gate_rejected"
    assert (
        came["context"]["tally"] == 1 + 1 + 9 + 2 + 300 + 10 + 11 + 1_000
    )  # one draft: that of the refused round is taken back
    assert {reason for reason, _, _ in came["dropped"]} == {"cycle", "max_spawn_exceeded"}
    assert len(came["spawned"]) == canon.BUDGET.spawns
    assert appends > 30


@BACKENDS
def test_sampled_boundaries(ram: Path, backend: Backend):
    """Killed at some boundaries, other ones each time the seed below is another."""
    whole, appends = whole_run(ram, backend)
    points = every_point(appends)
    drawn = random.Random(f"{backend} 1").sample(points[2:-2], QUICK)
    in_two(lambda point: crash(ram, backend, whole, [point]), [*points[:2], *drawn, *points[-2:]])


@pytest.mark.slow
@BACKENDS
@pytest.mark.parametrize("part", range(3))
def test_every_boundary(ram: Path, backend: Backend, part: int):
    """Killed before each append, when it is on disk and nobody knows, and when its effects are released."""
    whole, appends = whole_run(ram, backend)
    points = every_point(appends)
    assert len(points) > 100

    def one(point: Point) -> None:
        assert crash(ram, backend, whole, [point]) in {"", "gate_rejected"}

    in_two(one, points[part::3])


def pair(draw: random.Random, appends: int) -> list[Point]:
    """Two crashes; the second mostly while the run is being recovered, or soon after."""
    first = Point(draw.randint(1, appends), draw.choice(MOMENTS))
    luck = draw.random()
    if luck < 0.15:
        return [first, Point(0, "opened")]
    nth = draw.randint(1, 4) if luck < 0.7 else draw.randint(1, appends)
    return [first, Point(nth, draw.choice(MOMENTS))]


def pairs(backend: Backend, seeds: range, appends: int) -> list[list[Point]]:
    return [pair(random.Random(f"{backend} {seed}"), appends) for seed in seeds]


@BACKENDS
def test_a_second_crash_during_recovery(ram: Path, backend: Backend):
    """RESUME 65: killed, and killed again while it goes on; nothing is lost by the second."""
    whole, appends = whole_run(ram, backend)
    in_two(lambda points: crash(ram, backend, whole, points), pairs(backend, range(PAIRS), appends))


@pytest.mark.slow
@pytest.mark.nightly
@BACKENDS
@pytest.mark.parametrize("part", parts(10))
def test_a_thousand_pairs_of_crashes(ram: Path, backend: Backend, part: int):
    """The same, 50 pairs in each part: 500 on each backend, and 5,000 at night."""
    whole, appends = whole_run(ram, backend)
    in_two(lambda points: crash(ram, backend, whole, points), pairs(backend, seeds(part, 50), appends))


@pytest.mark.slow
def test_many_crashes_in_a_row(ram: Path):
    """Every process gets three appends further and dies: the run arrives all the same."""
    whole, appends = whole_run(ram, "asyncio")
    crash(ram, "asyncio", whole, [Point(4, "stored")] * appends)
