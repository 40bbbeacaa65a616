"""The release gate over tiny projects: passed at once, mended in round 2, refused for good."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from orchestrator import Session, load_flow
from orchestrator.cli.commands import invoke

FLOW = Path(__file__).parents[2] / "docs" / "examples" / "release-gate" / "flow.yaml"
TEST = "from adding import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = RIGHT.replace("+", "-")
"""As long as what is right: byte code of the round before would be taken for that of the mended file."""
MENDS = """from pathlib import Path
file = Path("adding.py")
file.write_text(file.read_text().replace("-", "+"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one module and one test that it does not pass."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "test_adding.py").write_text(TEST, encoding="utf-8")
    (folder / "adding.py").write_text(WRONG, encoding="utf-8")
    return folder


async def released(folder: Path, **args):
    """Run the flow, and read its note while the run's files are there."""
    async with Session() as session:
        result = await session.flow(load_flow(FLOW), args={"project": str(folder), **args})
        if "note" not in result.outputs:
            return result, None
        return result, await anyio.Path(result.outputs["note"]).read_text(encoding="utf-8")


@pytest.mark.anyio
async def test_what_passes_is_released_at_once(project: Path):
    """One round, one note, and no byte code left in the project."""
    (project / "adding.py").write_text(RIGHT, encoding="utf-8")
    result, note = await released(project, release="1.2")
    assert result.reason == "completed", result.detail
    assert (
        note
        == "# Release 1.2\n\npassed: tests, lint, build\n\n- tests: passed\n- lint: passed\n- build: passed\n"
    )
    assert "fix@2" not in result.nodes
    assert sorted([file.name async for file in anyio.Path(project).iterdir()]) == [
        "adding.py",
        "test_adding.py",
    ]


@pytest.mark.anyio
async def test_what_was_refused_is_mended_and_released(project: Path):
    """ROUNDS: the fixer runs after the refusal only, and the judge reads the checks of the last round."""
    script = project.parent / "mends.py"
    script.write_text(MENDS, encoding="utf-8")
    result, note = await released(project, fixer=f"python {script}")
    assert result.reason == "completed", result.detail
    assert [(one.round, one.judgement) for one in result.rounds] == [(1, "refused"), (2, "approved")]
    assert "- tests: passed" in note
    assert "first round" in result["fix@1"].value["text"]
    assert "gave 0" in result["fix@2"].value["text"]
    assert result["tests@1"].value["exit_code"] == 1
    assert "assert -1 == 5" in result["review@1"].value["evidence"]
    assert (project / "adding.py").read_text(encoding="utf-8") == RIGHT


@pytest.mark.anyio
async def test_without_a_fixer_the_gate_gives_up(project: Path):
    """ROUNDS: each round says that nothing was mended; there is no note."""
    result, note = await released(project, rounds=1)
    assert (result.reason, note) == ("refusals_exhausted", None)
    assert result["fix"].value["text"] == "round 2: there is no fixer, so nothing was mended"
    verdict = result["review"].value
    assert verdict["rationale"] == "did not pass: tests"
    assert verdict["reversible_by"]
    assert "assert -1 == 5" in verdict["evidence"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "seconds", "says"),
    [
        (f'"{sys.executable}" -c "import time; time.sleep(600)"', 0.5, "stopped after 0.5 s"),
        ("no-such-program --now", 60.0, "cannot be started"),
        ('python -c "raise SystemExit(7)"', 60.0, "exit code 7, no output"),
    ],
)
async def test_what_is_no_pass(project: Path, command: str, seconds: float, says: str):
    """A command that hangs, is not there, or says nothing has not passed; what is left out is not asked."""
    result, _ = await released(project, tests="", linter=command, build="", seconds=seconds, rounds=0)
    assert result.reason in {"gate_rejected", "refusals_exhausted"}
    assert result["tests"].value["text"] == "left out: there is no command"
    assert says in result["review"].value["evidence"]


LEAVES = """import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.anyio
@pytest.mark.parametrize(("sleeps", "says"), [("600", "stopped after 1.5 s"), ("0", None)])
async def test_nothing_of_a_command_is_left(project: Path, sleeps: str, says: str | None):
    """A command that starts another and hangs, or ends before it: both are gone, and the flow goes on."""
    script, file = project.parent / "leaves.py", project.parent / "pid"
    script.write_text(LEAVES, encoding="utf-8")
    result, _ = await released(
        project, tests="", build="", rounds=0, seconds=1.5, linter=f"python {script} {file} {sleeps}"
    )
    assert result.reason == ("completed" if says is None else "gate_rejected"), result.detail
    assert says is None or says in result["review"].value["evidence"]
    child = int(file.read_text(encoding="utf-8"))
    with anyio.fail_after(5):
        while lives(child):
            await anyio.lowlevel.checkpoint()


def lives(process: int) -> bool:
    """True while a process does something; a dead one that nobody has waited for does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("source", "says"),
    [
        (RIGHT, None),
        ("import os\n" + RIGHT, "adding.py:1: os is imported and not used"),
        (RIGHT + "assert (1, 'always true')\n", "adding.py:3: assertion is always true"),
        (RIGHT + "def (:\n", "adding.py:3: does not parse"),
    ],
)
async def test_the_linter_needs_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, source: str, says: str | None
):
    """Without ruff on PATH the linter is the script beside the flow."""
    monkeypatch.setenv("PATH", str(project.parent))
    (project / "adding.py").write_text(source, encoding="utf-8")
    result, _ = await released(project, tests="", build="", rounds=0)
    assert result.reason == ("completed" if says is None else "gate_rejected")
    assert says is None or says in result["review"].value["evidence"]


def test_on_the_command_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """check finds nothing; a release that is refused for good is exit 3."""
    monkeypatch.chdir(project.parent)
    assert invoke(["check", str(FLOW)]) == 0
    words = ["run", str(FLOW), "--journal", "none", "--arg", f"project={project}", "--arg", "rounds=1"]
    assert invoke([*words, "--arg", "linter=", "--arg", "build="]) == 3
    assert "refusals_exhausted" in "".join(capsys.readouterr())
    assert invoke(["rehearse", str(FLOW), "--seeds", "20", "--arg", f"project={project}"]) == 0
