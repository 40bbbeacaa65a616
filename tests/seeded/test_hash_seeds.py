"""Law 9: the same run gives the same facts under any hash seed: no order of a set in any decision."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Plays every scenario once, and many histories of the bare machine, and prints what was recorded.
PROGRAM = """
import hashlib, sys
import msgspec
from tests.core.driver import Driver, Seeded
from tests.seeded.rig import plain, play
from tests.seeded.scenarios import SCENARIOS

for scenario in SCENARIOS:
    outcome, _ = play(scenario, 11, backend=sys.argv[1])
    records = [plain(one) for one in outcome.records]
    print(scenario.__name__, hashlib.blake2b(msgspec.json.encode(records)).hexdigest())
for seed in range(60):
    driver = Driver(Seeded(seed), limits=bool(seed % 2))
    for _ in range(20):
        if not driver.over:
            driver.step()
    records = msgspec.json.encode(driver.log.records)
    print(seed, hashlib.blake2b(records).hexdigest())
"""


def recorded(backend: str, hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, backend],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_three_hash_seeds(backend: str):
    """Three processes, three hash seeds, one log."""
    first = recorded(backend, "0")
    assert len(first) > 60
    assert recorded(backend, "1") == first
    assert recorded(backend, "4242") == first
