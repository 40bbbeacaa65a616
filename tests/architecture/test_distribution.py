"""What a user installs: three packages, typed, one command, a lean core."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.architecture.tree import PACKAGES, ROOT

if TYPE_CHECKING:
    from pathlib import Path


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.slow
def test_the_wheel_holds_what_it_should(tmp_path: Path):
    """The wheel has every source file, each package's py.typed, licence and command, and nothing else."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    }
    assert sources <= names
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    info = f"callboard-{project()['version']}.dist-info"
    assert f"{info}/licenses/LICENSE" in names
    assert (
        "callboard = orchestrator.cli:main"
        in zipfile.ZipFile(wheel).read(f"{info}/entry_points.txt").decode()
    )


def test_every_pin_is_exact_and_from_nowhere_in_particular():
    """Constraints are `name==version` lines: no addresses, no paths, no options."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    odd = [line for line in pins if line.count("==") != 1 or set(line) & set("/@ ") or line.startswith("-")]
    assert not odd
    assert pins == sorted(pins, key=lambda line: line.partition("==")[0].lower())


def test_everything_that_make_installs_is_pinned():
    """Every direct requirement of the core and of the tests has its pin."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in text.splitlines()}
    wanted = [*project()["dependencies"], *project()["optional-dependencies"]["test"]]
    names = {
        requirement.partition(">")[0].partition("[")[0].lower().replace("_", "-") for requirement in wanted
    }
    assert not names - pinned


def test_all_is_every_extra():
    """`callboard[all]` is every extra that a user may want; those of tests and benchmarks are not."""
    extras = project()["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(everything.removeprefix("callboard[").removesuffix("]").split(",")) == extras.keys() - {
        "all",
        "bench",
        "test",
    }
