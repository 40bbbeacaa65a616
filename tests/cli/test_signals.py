"""CLI 147: the handler only asks; the run settles what runs, and the exit code says how it stopped."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.program import Program, flow

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
TWO = "  a: {role: ROLE}\n  b: {role: echo, after: [a]}"


@BOTH
def test_once_lets_running_nodes_finish(number: int, tmp_path: Path):
    """CLI 147: one signal drains: what runs finishes, nothing starts, exit 5."""
    flow(tmp_path, "  a: {role: until_file, with: {path: go}}\n  b: {role: echo, after: [a]}")
    with Program("run", cwd=tmp_path) as program:
        program.wait_for("said       a: waiting")
        program.send(number)
        program.wait_for("draining: 1 running node")
        (tmp_path / "go").touch()
        assert program.end() == 5
    assert any(line.startswith("succeeded  a") for line in program.lines)
    assert any("tried drained: 2 nodes: 1 succeeded, 1 queued" in line for line in program.lines)


@BOTH
def test_twice_interrupts_at_once(number: int, tmp_path: Path):
    """CLI 147: the second signal gives running nodes back, exit 130; none is left as running."""
    flow(tmp_path, TWO.replace("ROLE", "sleeps"))
    with Program("run", "--json", cwd=tmp_path) as program:
        program.wait_for('"NodeStarted"')
        program.send(number)
        program.wait_for("draining: 1 running node")
        program.send(number)
        assert program.end() == 130
    (result,) = [json.loads(line) for line in program.lines if '"RunResult"' in line]
    assert result["reason"] == "interrupted"
    assert [node["status"] for node in result["nodes"].values()] == ["ready", "waiting"]
    assert not any("Traceback" in line for line in program.lines)


def test_the_grace_ends(tmp_path: Path):
    """--grace: what still runs after it is interrupted without a second signal."""
    flow(tmp_path, TWO.replace("ROLE", "sleeps"))
    with Program("run", "--grace", "0.1", cwd=tmp_path) as program:
        program.wait_for("said       a: asleep")
        program.send(signal.SIGTERM)
        program.wait_for("interrupting: 0.1 s are over")
        assert program.end() == 130


@pytest.mark.slow
@pytest.mark.parametrize("role", ["in_thread", "stubborn", "shielded"])
def test_what_ignores_its_end_does_not_keep_the_command(role: str, tmp_path: Path):
    """A thread, a body that swallows everything and one that shields itself: told, left, exit 130."""
    flow(tmp_path, TWO.replace("ROLE", role))
    with Program("run", "--grace", "0.1", cwd=tmp_path) as program:
        program.wait_for("said       a: asleep")
        program.send(signal.SIGINT)
        program.wait_for("tried interrupted")
        assert program.end() == 130
    assert any(line.startswith("abandoned  a") for line in program.lines)
    assert not any("Traceback" in line for line in program.lines), program.lines


@pytest.mark.slow
def test_a_role_that_blocks_the_loop_is_ended_with_the_process(tmp_path: Path):
    """The loop hears nothing: the second signal sets a limit, the third ends the process."""
    flow(tmp_path, TWO.replace("ROLE", "blocks"))
    with Program("run", "--grace", "0", cwd=tmp_path) as program:
        program.wait_for("blocking")
        program.send(signal.SIGINT)
        program.send(signal.SIGTERM)
        program.wait_for("a role blocks the event loop")
        assert program.end() == 130


def test_a_foreign_thread_does_not_keep_the_command(tmp_path: Path):
    """A thread that a role left behind cannot keep a finished run's process."""
    flow(tmp_path, "  a: {role: leaves_thread}")
    with Program("run", cwd=tmp_path) as program:
        program.wait_for("tried completed")
        assert program.end() == 0


@pytest.mark.slow
def test_a_timed_out_body_that_goes_on_does_not_keep_the_command(tmp_path: Path):
    """HANG: the run has ended; who ignores that is left behind, with the run's own exit code."""
    flow(tmp_path, "  a: {role: shielded, timeout: 100ms}", "on_failure: continue")
    with Program("run", "--grace", "0.1", cwd=tmp_path) as program:
        program.wait_for("said       a: asleep")
        program.send(signal.SIGTERM)
        assert program.end() in (1, 130)
    assert any("tried " in line for line in program.lines)
